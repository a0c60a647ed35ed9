# SPDX-License-Identifier: Apache-2.0
"""Official Thrift clients as programs: Python, Java and Node from the contract of this tree, and
Python, C, C++ and Go from the contract of 2010. Each is called alike,

    client HOST PORT framed|unframed PROTOCOL COMMAND...

(HOST may be unix:PATH, but in Java; PORT means nothing then; or, but in C, tls:HOST, and
$SNOWFLAKE_TLS has the files of authority, certificate and key with commas between) and prints a number a line for

    get_id AGENT COUNT      COUNT calls, one after the other
    get_ids AGENT COUNT     one call
    get_id_runs AGENT COUNT likewise; prints each ID of the runs
    get_ulids AGENT COUNT   one call; each 16 bytes are a number (Python and Node)
    get_uuids AGENT COUNT   likewise
    info                    worker ID, datacenter ID, timestamp

or, for an exception, "error NAME: MESSAGE" and status 3.

Each makes sure that a reply is the one to its call. Thrift's code does so in Go (name and sequence
ID) and Java (sequence ID, of what is not an exception); in Node a reply whose sequence ID is not
awaited answers nothing, and the client waits on until it is given up. Those three count from 1 on
each connection. The Python, C and C++ clients do it themselves, with sequence IDs at random.

  SNOWFLAKE_JAVA_CLASSES  where the classes of the Java client stay, for other processes and runs
"""
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Callable, NamedTuple

from bindings import IDL, IDL_2010, INTEGRATION, generate, scratch
from harness import BUILD, ENVIRONMENT, PATIENCE
from wire import Form

CLIENTS = INTEGRATION / "clients"
JAVA_CLASSES = pathlib.Path(os.environ.get("SNOWFLAKE_JAVA_CLASSES", scratch / "java-classes"))
EXCEPTION_STATUS = 3


class ClientError(Exception):
    """The client reported an exception: "NAME: MESSAGE"."""

    def __init__(self, text, numbers):
        super().__init__(text)
        self.numbers = numbers  # printed before it


class Client(NamedTuple):
    name: str
    forms: list
    command: Callable  # what to run, and before that to build
    environment: dict = {}

    def start(self, address, form, *call):
        """`address`: (host, port), or unix:PATH."""
        host, port = (address, 0) if isinstance(address, str) else address
        return subprocess.Popen(
            [*self.command(), host, str(port), "framed" if form.framed else "unframed",
             form.protocol, *map(str, call)],
            env={**ENVIRONMENT, "HOME": os.environ.get("HOME", "/"), **self.environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start_tls(self, authority, pair, address, *call):
        """With what `authority` vouches for, in the first form; `pair` is its own certificate."""
        files = [authority.certificate, *pair]
        if self.name == JAVA.name:
            files = java_stores(authority, pair)
        client = self._replace(environment={**self.environment,
                                            "SNOWFLAKE_TLS": ",".join(map(str, files))})
        return client.start(("tls:" + address[0], address[1]), self.forms[0], *call)

    def call(self, address, form, *call):
        return finish(self.start(address, form, *call))


def finish(process):
    """The numbers that a client printed; ClientError if it ended with an exception."""
    output, errors = process.communicate(timeout=120 * PATIENCE)
    lines = output.splitlines()
    if process.returncode == EXCEPTION_STATUS and lines and lines[-1].startswith("error "):
        raise ClientError(lines[-1].removeprefix("error "), [int(line) for line in lines[:-1]])
    if process.returncode != 0:
        raise AssertionError(f"{process.args} ended with {process.returncode}:\n{output}{errors}")
    return [int(line) for line in lines]


def _run(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def java_stores(authority, pair):
    """The same files as Java has them."""
    trust, own = pair.key.with_suffix(".trust"), pair.key.with_suffix(".p12")
    if not own.exists():
        _run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", authority.certificate,
              "-keystore", trust, "-storetype", "PKCS12", "-storepass", "password"])
        _run(["openssl", "pkcs12", "-export", "-in", pair.certificate, "-inkey", pair.key, "-out",
              own, "-passout", "pass:password"])
    return [trust, own]


def _forms(*protocols):
    return [Form(framed, protocol) for framed in (True, False) for protocol in protocols]


def _python(idl, service):
    return ["/usr/bin/python3", CLIENTS / "client.py", generate("py", idl), f"{idl.stem}.{service}"]


def _compile_java(jars, sources):
    """The directory of the classes. To make them costs more than the tests of them, so that one
    process does it for all. With other sources, another compiler or other jars the directory is
    another."""
    said = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
    said.update(subprocess.run(["javac", "-version"], capture_output=True, check=True).stdout)
    for jar in map(pathlib.Path, jars.split(":")):
        said.update(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}\n".encode())
    classes = JAVA_CLASSES / said.hexdigest()[:16]
    JAVA_CLASSES.mkdir(parents=True, exist_ok=True)
    with open(JAVA_CLASSES / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.exists():
            with tempfile.TemporaryDirectory(dir=JAVA_CLASSES) as new:
                _run(["javac", "-nowarn", "-cp", jars, "-d", f"{new}/all", *sources])
                os.rename(f"{new}/all", classes)
    return classes


@functools.cache
def _java():
    # its annotation is of a package that later Java releases left out
    generated = generate("java:generated_annotations=suppress", IDL).rglob("*.java")
    jars = ":".join(f"/usr/share/java/{jar}.jar" for jar in ("thrift", "slf4j-api"))
    classes = _compile_java(jars, [CLIENTS / "Client.java", *sorted(generated)])
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{classes}:{jars}",
            "Client"]


@functools.cache
def _node():
    if not (INTEGRATION / "node_modules" / "thrift").is_dir():
        raise AssertionError("tests/integration/node_modules is missing: run `npm ci` there")
    return ["node", CLIENTS / "client.js", generate("js:node,es6", IDL)]


@functools.cache
def _go():
    path = scratch / "go"
    (path / "src").mkdir(parents=True)
    generated = generate("go", IDL_2010) / IDL_2010.stem
    (path / "src" / IDL_2010.stem).symlink_to(generated)
    program = path / "client-2010"
    _run(["go", "build", "-o", program, CLIENTS / "client.go"],
         env={**os.environ, "GO111MODULE": "off", "GOPATH": f"{path}:/usr/share/gocode",
              "GOFLAGS": "", "GOCACHE": os.environ.get("GOCACHE", str(scratch / "go-cache"))})
    return [program]


def _c():
    program = BUILD / "tests" / "integration" / "client-2010"
    if not program.exists():
        raise AssertionError(f"{program} is missing: build the tree")
    return [program]


@functools.cache
def has_cpp():
    """Whether there are a compiler and Thrift's headers for it."""
    return shutil.which("g++") is not None and subprocess.run(
        ["g++", "-x", "c++", "-E", "-include", "thrift/transport/TBufferTransports.h", "/dev/null"],
        capture_output=True).returncode == 0


@functools.cache
def _cpp():
    generated = generate("cpp", IDL_2010)
    program = scratch / "client-2010-cpp"
    _run(["g++", "-w", "-I", generated, "-o", program, CLIENTS / "client.cpp",
          generated / "Snowflake.cpp", generated / f"{IDL_2010.stem}_types.cpp", "-lthrift",
          "-lssl", "-lcrypto"])
    return [program]


PYTHON = Client("Python", _forms("strict", "unversioned", "compact"),
                functools.partial(_python, IDL, "SnowflakeExtended"))
PYTHON_ACCELERATED = Client("Python, accelerated",
                            _forms("strict-accelerated", "compact-accelerated"), PYTHON.command)
JAVA = Client("Java", _forms("strict", "unversioned", "compact"), _java)
NODE = Client("Node", _forms("strict", "compact"), _node,
              {"NODE_PATH": str(INTEGRATION / "node_modules"),
               "PATH": os.environ.get("PATH", "/usr/bin:/bin")})
PYTHON_2010 = Client("Python of 2010", _forms("strict", "unversioned", "compact"),
                     functools.partial(_python, IDL_2010, "Snowflake"))
C_2010 = Client("C of 2010", _forms("strict", "compact"), _c,
                {"ASAN_OPTIONS": "detect_leaks=0"})  # Thrift's own
GO_2010 = Client("Go of 2010", _forms("strict", "unversioned", "compact"), _go)

CPP_2010 = Client("C++ of 2010", _forms("strict", "compact"), _cpp)

CURRENT = [PYTHON, PYTHON_ACCELERATED, JAVA, NODE]
OF_2010 = [PYTHON_2010, C_2010, GO_2010]
# Those that have sockets with TLS.
TLS = [PYTHON, JAVA, NODE, GO_2010, CPP_2010]
# Those that have local sockets.
LOCAL = [PYTHON, PYTHON_ACCELERATED, NODE, C_2010, GO_2010]
