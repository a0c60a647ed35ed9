# SPDX-License-Identifier: Apache-2.0
"""The languages under test, one per line. `directory`: the package's directory, relative to the
tree; a language without its directory is left out. `build`: builds the program in a directory,
which is {out} in `command`. It runs again when one of the `sources` is newer."""
import fcntl
import functools
import os
import pathlib
import re
import shutil
import subprocess
import threading
from typing import NamedTuple

from bindings import ROOT
from harness import BUILD, ENVIRONMENT

RUNNERS = pathlib.Path(__file__).resolve().parent / "runners"
_lock = threading.Lock()


class Language(NamedTuple):
    name: str
    directory: str
    command: tuple
    build: str = ""
    sources: tuple = ()   # files, and directories with their contents; empty: it is always built
    packages: tuple = ()  # Debian packages whose versions are in the table

    @property
    def is_there(self):
        return (ROOT / self.directory).is_dir()

    def runs(self):
        """Builds the program if necessary. Returns its command."""
        with _lock:
            out = _built(self) if self.build else ""
        return [str(word).replace("{out}", str(out)) for word in self.command]


@functools.cache
def _built(language):
    out = BUILD / "conformance" / language.name
    out.mkdir(parents=True, exist_ok=True)
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = out / "built"
        newest = _newest(language.sources)
        if not language.sources or not stamp.exists() or stamp.stat().st_mtime <= newest:
            shutil.rmtree(out)
            out.mkdir()
            _build(language, out)
            stamp.touch()
            os.utime(stamp, (newest + 1e-3, newest + 1e-3))
    return out


def _newest(sources):
    files = [file for source in sources for file in [source, *source.rglob("*")]]
    return max((file.stat().st_mtime for file in files), default=0)


def _build(language, out):
    done = subprocess.run([ROOT / language.build, out], capture_output=True, text=True, cwd="/",
                          check=False,
                          env={**ENVIRONMENT, "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                               "HOME": os.environ.get("HOME", "/"),
                               "GOCACHE": os.environ.get("GOCACHE", str(BUILD / "go-cache"))})
    if done.returncode != 0:
        raise AssertionError(f"the runner of {language.name} cannot be built: {language.build} "
                             f"ended with {done.returncode}:\n{done.stdout}{done.stderr}")


C = ("/usr/bin/python3", RUNNERS / "c.py", BUILD / "tests" / "clients")
LANGUAGES = [
    Language("C client", "client", (*C, "client")),
    Language("C pool", "client/pool", (*C, "pool")),
    Language("Python", "clients/python", ("/usr/bin/python3", RUNNERS / "python.py"),
             packages=("python3",)),
    Language("Node", "clients/node", ("node", RUNNERS / "node.js"), build="clients/node/install"),
    Language("Java", "clients/java", ("{out}/run",), build="tests/clients/runners/java-build",
             sources=(RUNNERS / "java", RUNNERS / "java-build", ROOT / "clients/java",
                      ROOT / "snowflake.thrift"),
             packages=("default-jre-headless",)),
    Language("Go", "clients/go", ("{out}/run",), build="tests/clients/runners/go-build",
             sources=(RUNNERS / "go", RUNNERS / "go-build", ROOT / "clients/go",
                      ROOT / "snowflake.thrift"),
             packages=("golang-go",)),
]


def version_of(package):
    """Returns Debian's version, without the suffix of a rebuild for one architecture."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          capture_output=True, text=True, check=False)
    return re.sub(r"\+b\d+$", "", done.stdout) if done.returncode == 0 else "not installed"
