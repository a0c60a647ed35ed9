# SPDX-License-Identifier: Apache-2.0
"""What is in the package, and that its README does what it says."""
import importlib.util
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile

from support import BUILD, PACKAGE, ROOT, Case

import snowflake_client

README = (PACKAGE / "README.md").read_text()
MODULES = {"__init__", "_buffer", "_codec", "_engine", "_fork", "_options", "_servers", "aio",
           "client", "errors", "ids", "testing"}
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
FRAMEWORKS = ("# Django", "# SQLAlchemy")
ASSIGNED = """
from snowflake_client import AsyncIdSource, AsyncSnowflake, IdSource, Snowflake
from snowflake_client.testing import AsyncFakeSnowflake, FakeSnowflake
sync: list[IdSource] = [Snowflake(), FakeSnowflake()]
asynchronous: list[AsyncIdSource] = [AsyncSnowflake(), AsyncFakeSnowflake()]
number: int = sync[0].next_id(timeout=1)
"""


def run(*command, **settings):
    done = subprocess.run(list(map(str, command)), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Installed(Case):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.place = pathlib.Path(made.name)
        # pip builds where the sources are, so they are a copy
        shutil.copytree(PACKAGE, cls.place / "source",
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info",
                                                      "node_modules"))
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
            "--no-index", "--wheel-dir", cls.place, cls.place / "source", cwd=cls.place)
        cls.wheel, = cls.place.glob("*.whl")
        run(sys.executable, "-m", "venv", "--without-pip", cls.place / "venv")
        cls.python = cls.place / "venv" / "bin" / "python"
        cls.pip("install", "--quiet", "--no-index", cls.wheel)

    @classmethod
    def pip(cls, *arguments):
        """Runs Debian's pip, which takes less time than to install another one there."""
        return run(sys.executable, "-m", "pip", "--python", cls.python, *arguments)

    def run_python(self, *arguments):
        (self.place / "empty").mkdir(exist_ok=True)
        return run(self.python, "-W", "error", *arguments, cwd=self.place / "empty",
                   env={"PATH": f"{BUILD / 'server'}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"})

    def test_the_wheel_holds_what_it_should(self):
        version = snowflake_client.__version__
        about = f"snowflaked_client-{version}.dist-info/"
        names = set(zipfile.ZipFile(self.wheel).namelist())
        self.assertEqual(names, {
            *(f"snowflake_client/{name}.py" for name in MODULES),
            "snowflake_client/py.typed",
            *(about + name for name in ("LICENSE", "METADATA", "RECORD", "WHEEL",
                                        "top_level.txt"))})
        self.assertEqual(self.wheel.name, f"snowflaked_client-{version}-py3-none-any.whl")
        self.assertEqual(zipfile.ZipFile(self.wheel).read(about + "LICENSE"),
                         (ROOT / "LICENSE").read_bytes())

    def test_what_is_installed_is_used(self):
        path = self.run_python("-c", "import snowflake_client; print(snowflake_client.__file__)")
        self.assertTrue(path.startswith(str(self.place / "venv")), path)

    def test_the_lines_of_the_readme(self):
        address = self.server()
        blocks = [block for block in BLOCKS if not block.startswith(FRAMEWORKS)]
        self.assertEqual(len(blocks), 5)
        for block in blocks:
            with self.subTest(block=block):
                # a timeout of a minute: the machine can be slow
                patient = re.sub(r'agent="[\w-]+"', r"\g<0>, timeout=60", block)
                printed = self.run_python("-c", patient.replace("127.0.0.1:7609", address))
                self.assertEqual(bool(printed), "print" in block)
        self.assertIn("Parts(time=datetime.datetime(2023, 11, 14, 22, 13, 20, "
                      "tzinfo=datetime.timezone.utc), datacenter=1, worker=2, sequence=3)",
                      self.run_python("-c", blocks[2]))

    def test_it_has_no_dependency(self):
        shown = self.pip("show", "snowflaked-client")
        self.assertRegex(shown, r"(?m)^Requires: *$")


class Typed(Case):
    """The package, and that clients and fakes satisfy the protocols."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.place = pathlib.Path(made.name)
        shutil.copy(PACKAGE / "pyproject.toml", self.place)
        shutil.copytree(PACKAGE / "snowflake_client", self.place / "snowflake_client",
                        ignore=shutil.ignore_patterns("__pycache__"))
        (self.place / "program.py").write_text(ASSIGNED)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy(self):
        """The mypy that Debian packages."""
        run(sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", ".",
            cwd=self.place)

    def test_pyright(self):
        run(PACKAGE / "tests" / "node_modules" / ".bin" / "pyright", "snowflake_client",
            "program.py", cwd=self.place)


class Tree(Case):
    def test_versions(self):
        project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        tree = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
        self.assertEqual([project["version"], snowflake_client.__version__], [tree] * 2)

    def test_the_readme_has_every_name(self):
        for name in snowflake_client.__all__:
            if name not in ("Attempt", "Parts", "TWITTER", "from_crockford"):
                self.assertIn(name, README)

    def test_the_readme_has_the_options_and_their_defaults(self):
        rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", README, re.MULTILINE))
        for client in (snowflake_client.Snowflake, snowflake_client.AsyncSnowflake):
            options = inspect.signature(client.__init__).parameters
            self.assertEqual(list(rows), list(options)[1:])
            for name, option in list(options.items())[1:]:
                if option.default is not None:
                    self.assertEqual(rows[name], str(option.default))
