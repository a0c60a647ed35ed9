# SPDX-License-Identifier: Apache-2.0
"""What is in the package, and that its README does what it says."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

from support import BUILD, PACKAGE, ROOT, Case

import snowflake_client

README = (PACKAGE / "README.md").read_text()
MODULES = {"__init__", "aio", "client", "errors", "fork_mark", "hand", "ids", "servers",
           "testing", "turn", "wire"}
GENERATED = {"__init__", "constants", "ttypes", "Snowflake", "SnowflakeExtended"}


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
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
            "--no-index", "--wheel-dir", cls.place, cls.place / "source", cwd=cls.place)
        cls.wheel, = cls.place.glob("*.whl")
        run(sys.executable, "-m", "venv", "--system-site-packages", cls.place / "venv")
        cls.python = cls.place / "venv" / "bin" / "python"
        run(cls.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", cls.wheel)

    def run_python(self, *arguments):
        (self.place / "empty").mkdir(exist_ok=True)
        return run(self.python, "-W", "error", *arguments, cwd=self.place / "empty",
                   env={"PATH": f"{BUILD / 'server'}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"})

    def test_the_wheel_holds_what_it_should(self):
        version = snowflake_client.__version__
        about = f"snowflake_client-{version}.dist-info/"
        names = set(zipfile.ZipFile(self.wheel).namelist())
        self.assertEqual(names, {
            *(f"snowflake_client/{name}.py" for name in MODULES),
            *(f"snowflake_client/generated/{name}.py" for name in GENERATED),
            "snowflake_client/py.typed",
            *(about + name for name in ("LICENSE", "METADATA", "RECORD", "WHEEL",
                                        "top_level.txt"))})
        self.assertEqual(self.wheel.name, f"snowflake_client-{version}-py3-none-any.whl")
        self.assertEqual(zipfile.ZipFile(self.wheel).read(about + "LICENSE"),
                         (ROOT / "LICENSE").read_bytes())

    def test_what_is_installed_is_used(self):
        path = self.run_python("-c", "import snowflake_client; print(snowflake_client.__file__)")
        self.assertTrue(path.startswith(str(self.place / "venv")), path)

    def test_the_lines_of_the_readme(self):
        address = self.server()
        blocks = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 5)
        for block in blocks:
            with self.subTest(block=block):
                # a timeout of a minute: the machine can be slow
                patient = re.sub(r'agent="[\w-]+"', r"\g<0>, timeout_ms=60000", block)
                printed = self.run_python("-c", patient.replace("127.0.0.1:7609", address))
                self.assertEqual(bool(printed), "print" in block)
        self.assertIn("Parts(time=datetime.datetime(2023, 11, 14, 22, 13, 20, "
                      "tzinfo=datetime.timezone.utc), datacenter=1, worker=2, sequence=3)",
                      self.run_python("-c", blocks[2]))

    def test_pip_agrees_with_its_dependencies(self):
        self.assertIn("thrift", run(self.python, "-m", "pip", "show", "snowflake-client"))


class Tree(Case):
    def test_versions(self):
        project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        tree = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
        self.assertEqual([project["version"], snowflake_client.__version__], [tree] * 2)

    def test_the_generated_code_is_what_the_compiler_makes(self):
        with tempfile.TemporaryDirectory() as directory:
            run(PACKAGE / "generate", directory)
            made = {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()}
        committed = {path.name: path.read_bytes() for path in
                     (PACKAGE / "snowflake_client" / "generated").glob("*.py")}
        self.assertEqual(made.keys(), committed.keys())
        for name in made:
            self.assertEqual(made[name], committed[name], name)

    def test_the_readme_has_every_name(self):
        for name in snowflake_client.__all__:
            if name not in ("Attempt", "Parts", "TWITTER", "from_crockford"):
                self.assertIn(name, README)

    def test_the_readme_has_the_options_and_their_defaults(self):
        rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", README, re.MULTILINE))
        import inspect
        for name, option in list(inspect.signature(
                snowflake_client.Snowflake.__init__).parameters.items())[1:]:
            self.assertIn(name, rows)
            if isinstance(option.default, (int, str)):
                self.assertEqual(rows[name].strip("`"), str(option.default))

    def test_thrift_says_nothing(self):
        # its own logger would, of a server that is not there
        code = ("import logging; logging.basicConfig(level=0)\n"
                "from snowflake_client import Snowflake\n"
                "try: Snowflake('127.0.0.1:1', agent='test').next_id()\n"
                "except ConnectionError: pass\n")
        self.assertEqual(run(sys.executable, "-c", code,
                             env={**os.environ, "PYTHONPATH": str(PACKAGE)}), "")
