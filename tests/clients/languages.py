# SPDX-License-Identifier: Apache-2.0
"""Who is put to the test: a line a language. `directory` is that of its package, relative to the
tree; a language whose directory is not there is left out. `build` makes what is to be run in an
empty directory, which it is given; {out} stands for that directory in `command`."""
import functools
import os
import pathlib
import re
import subprocess
import threading
from typing import NamedTuple

import places
from bindings import INTEGRATION, ROOT
from harness import BUILD, ENVIRONMENT

RUNNERS = pathlib.Path(__file__).resolve().parent / "runners"
BUILD_LIMIT_S = 600
_lock = threading.Lock()


class Language(NamedTuple):
    name: str
    directory: str
    command: tuple
    build: tuple = ()
    environment: dict = {}
    packages: tuple = ()  # of Debian, whose versions the table tells

    @property
    def is_there(self):
        return (ROOT / self.directory).is_dir()

    def runs(self):
        """What is to be started, once it is built."""
        with _lock:
            out = _built(self.name, self.build) if self.build else ""
        return [str(word).replace("{out}", str(out)) for word in self.command]


@functools.cache
def _built(name, build):
    out = places.temporary_directory()
    done = subprocess.run([*map(str, build), str(out)], capture_output=True, text=True, cwd="/",
                          timeout=BUILD_LIMIT_S, check=False,
                          env={**ENVIRONMENT, "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                               "HOME": os.environ.get("HOME", "/"),
                               **{key: os.environ[key] for key in ("GOCACHE",)
                                  if key in os.environ}})
    if done.returncode != 0:
        raise AssertionError(f"the runner of {name} cannot be built: {build} ended with "
                             f"{done.returncode}:\n{done.stdout}{done.stderr}")
    return out


def of_c(program):
    return (BUILD / "tests" / "clients" / program,)


LANGUAGES = [
    Language("C client", "client", of_c("conformance-client")),
    Language("C pool", "client/pool", of_c("conformance-pool")),
    Language("Python", "clients/python", ("/usr/bin/python3", RUNNERS / "python.py"),
             packages=("python3", "python3-thrift")),
    Language("Node", "clients/node", ("node", RUNNERS / "node.js"),
             environment={"NODE_PATH": str(INTEGRATION / "node_modules")}),
    Language("Java", "clients/java", ("{out}/run",), build=(RUNNERS / "java-build",),
             packages=("libthrift-java",)),
    Language("Go", "clients/go", ("{out}/run",), build=(RUNNERS / "go-build",),
             packages=("golang-thrift-dev",)),
]


def version_of(package):
    """Debian's, without what an architecture adds that was built once more."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          capture_output=True, text=True, check=False)
    return re.sub(r"\+b\d+$", "", done.stdout) if done.returncode == 0 else "not installed"
