# SPDX-License-Identifier: Apache-2.0
"""Official Thrift clients as programs, with Debian's libraries (Node's: npm). Each exists twice:
for the original contract, and for one that is newer than the server: the contract of this tree with
one more call (clients/later.thrift).

A client reads a command a line,

    open HOST PORT framed|unframed PROTOCOL   a fresh connection; the one before is closed
    get_id AGENT COUNT                        COUNT calls, one after the other
    METHOD AGENT COUNT                        one call, as get_ids
    METHOD                                    likewise, as get_worker

(HOST may be unix:PATH, but in Java; PORT means nothing then; or, in those of TLS below, tls:HOST,
and $SNOWFLAKE_TLS has the files of authority, certificate and key, with commas between) and answers
with a line for a number, for each element of a list and for each entry of a map, NAME NUMBER; with
the hex digits of bytes, and with NAME=VALUE for the fields of a struct that are set, in any order.
The last line is ".", or "error NAME: MESSAGE" for an exception.

Python, Java and Go also accept framings and protocols that our servers do not support: zlib, header
and http; json and header.

Each client checks that a reply belongs to its call. Thrift's code does this in Go (name and
sequence ID) and in Java (sequence ID, except for exceptions). In Node, a reply with an unexpected
sequence ID is ignored, and the client waits until its timeout. These three count from 1 on each
connection. The other clients check it themselves, with random sequence IDs, except with PHP's
extension, which does not expose messages.

  SNOWFLAKE_CLIENTS  where the compiled clients stay, for other processes and runs
"""
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
from typing import Callable, NamedTuple

from bindings import IDL_2010, IDL_LATER, INTEGRATION, generate, scratch
from harness import BUILD, ENVIRONMENT, HANG_GUARD_S
from wire import Form

CLIENTS = INTEGRATION / "clients"
COMPILED = pathlib.Path(os.environ.get("SNOWFLAKE_CLIENTS", scratch / "clients"))
# {contract: Thrift's name of the service}
SERVICES = {IDL_2010: "Snowflake", IDL_LATER: "SnowflakeLater"}


class ClientError(Exception):
    """The client reported an exception: "NAME: MESSAGE"."""

    def __init__(self, text, lines):
        super().__init__(text)
        self.lines = lines  # lines printed before the error


class Ended(AssertionError):
    """The client's process has ended, which is an error."""

    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


class Session:
    """A process of a client, for any number of connections, one after the other."""

    def __init__(self, client):
        self.ended = False
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            client.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, env={**ENVIRONMENT, "HOME": os.environ.get("HOME", "/"),
                            **client.environment})

    @property
    def process_id(self):
        return self._process.pid

    def send(self, *command):
        print(*command, file=self._process.stdin, flush=True)

    def answer(self):
        """Returns the lines of an answer. Raises ClientError for an exception."""
        lines = []
        timer = threading.Timer(HANG_GUARD_S, self._process.kill)
        timer.start()
        for line in self._process.stdout:
            if line == ".\n":
                break
            if line.startswith("error "):
                timer.cancel()
                raise ClientError(line.removeprefix("error ").rstrip("\n"), lines)
            lines.append(line.rstrip("\n"))
        else:
            timer.cancel()
            self.ended = True
            status = self._process.wait()
            raise Ended(f"{self._process.args} ended with {status}: {lines}\n{self._said()}",
                        status)
        timer.cancel()
        return lines

    def call(self, *command):
        self.send(*command)
        return self.answer()

    def numbers(self, *command):
        return [int(line) for line in self.call(*command)]

    def open(self, address, form):
        """`address`: (host, port), or unix:PATH."""
        self.open_as(address, "framed" if form.framed else "unframed", form.protocol)

    def open_as(self, address, framing, protocol):
        host, port = (address, 0) if isinstance(address, str) else address
        self.call("open", host, port, framing, protocol)

    def _said(self):
        self._errors.seek(0)
        return self._errors.read()

    def close(self):
        self._process.stdin.close()
        status = self._process.wait(HANG_GUARD_S)
        self._process.stdout.close()
        said = self._said()
        self._errors.close()
        if status != 0 and not self.ended:  # it was already reported
            raise AssertionError(f"{self._process.args} ended with {status}:\n{said}")


class Client(NamedTuple):
    language: str
    package: str  # package of Debian or npm
    contract: pathlib.Path
    protocols: tuple
    command: Callable  # builds the client, returns its command
    environment: dict = {}
    has_local: bool = True  # supports local sockets

    @property
    def name(self):
        return f"{self.language}, {self.contract.stem}"

    @property
    def forms(self):
        return [Form(framed, protocol) for framed in (True, False) for protocol in self.protocols]

    def trusting(self, authority, pair):
        """Returns the client with TLS: it trusts `authority`; `pair` is its own certificate."""
        files = (_java_stores(authority, pair) if self.language == "Java" else
                 [authority.certificate, *pair])
        return self._replace(environment={**self.environment,
                                          "SNOWFLAKE_TLS": ",".join(map(str, files))})

    @contextlib.contextmanager
    def session(self, address=None, form=None):
        session = Session(self)
        try:
            if address:
                session.open(address, form)
            yield session
        finally:
            session.close()


def _java_stores(authority, pair):
    """Returns the same files as Java's key stores."""
    trust, own = pair.key.with_suffix(".trust"), pair.key.with_suffix(".p12")
    if not own.exists():
        _run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", authority.certificate,
              "-keystore", trust, "-storetype", "PKCS12", "-storepass", "password"])
        _run(["openssl", "pkcs12", "-export", "-in", pair.certificate, "-inkey", pair.key, "-out",
              own, "-passout", "pass:password"])
    return [trust, own]


def _run(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _compiled(name, sources, versions, build):
    """Returns the path of the result of build(PATH). The build costs more than its tests, so one
    process does it for all. The path depends on the sources and the versions of the tools."""
    said = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
    said.update(versions.encode())
    path = COMPILED / f"{name}-{said.hexdigest()[:16]}"
    COMPILED.mkdir(parents=True, exist_ok=True)
    with open(COMPILED / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=COMPILED) as new:
                build(f"{new}/all")
                os.rename(f"{new}/all", path)
    return path


def version_of(package):
    """Returns Debian's version, without the suffix of a rebuild for one architecture."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"the package {package} is missing: install it")
    return re.sub(r"\+b\d+$", "", done.stdout)


def node_version():
    """Returns the version of the library from npm."""
    manifest = INTEGRATION / "node_modules" / "thrift" / "package.json"
    return json.loads(manifest.read_text())["version"]


def _interpreted(interpreter, source, generator, contract):
    return [*interpreter, CLIENTS / source, generate(generator, contract), SERVICES[contract]]


def _python(contract):
    return ["/usr/bin/python3", CLIENTS / "client.py", generate("py", contract),
            f"{contract.stem}.{SERVICES[contract]}"]


def _node(contract):
    if not (INTEGRATION / "node_modules" / "thrift").is_dir():
        raise AssertionError("tests/integration/node_modules is missing: run `npm ci` there")
    return _interpreted(["node"], "client.js", "js:node,es6", contract)


def _perl(contract):
    *command, service = _interpreted(["perl"], "client.pl", "perl", contract)
    return [*command, f"Later::{service}" if contract == IDL_LATER else service]


def _php(contract):
    # the package configures its extension only for another version of PHP
    return _interpreted(["php", "-d", "extension=thrift_protocol.so"], "client.php", "php",
                        contract)


@functools.cache
def _java(contract):
    # the annotation's package is missing in later Java releases
    generated = sorted(generate("java:generated_annotations=suppress", contract).rglob("*.java"))
    jars = ":".join(f"/usr/share/java/{jar}.jar" for jar in ("thrift", "slf4j-api"))
    sources = [CLIENTS / "Client.java", *generated]
    classes = _compiled(
        "java", sources, _run(["javac", "-version"]) + version_of("libthrift-java"),
        lambda path: _run(["javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-nowarn",
                           "-cp", jars, "-d", path, *sources]))
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{classes}:{jars}",
            "Client", f"com.twitter.service.snowflake.gen.{SERVICES[contract]}"]


@functools.cache
def _go(contract):
    generated = generate("go", contract)
    sources = [CLIENTS / "client.go", CLIENTS / f"client_{contract.stem.rpartition('_')[2]}.go"]

    def build(path):
        with tempfile.TemporaryDirectory(dir=scratch) as tree:
            os.symlink(generated, f"{tree}/src")
            _run(["go", "build", "-o", path, *sources],
                 env={**os.environ, "GO111MODULE": "off", "GOPATH": f"{tree}:/usr/share/gocode",
                      "GOFLAGS": "", "GOCACHE": os.environ.get("GOCACHE", str(scratch / "go"))})

    return [_compiled("go", sources + sorted(generated.glob("*/*.go")),
                      _run(["go", "version"]) + version_of("golang-thrift-dev"), build)]


@functools.cache
def _cpp(contract):
    generated = generate("cpp", contract)
    sources = [CLIENTS / "client.cpp", *sorted(
        source for source in generated.glob("*.cpp") if "skeleton" not in source.name)]
    return [_compiled(
        "cpp", sources, _run(["g++", "--version"]) + version_of("libthrift-dev"),
        lambda path: _run(["g++", "-w", "-I", generated, "-o", path, *sources, "-lthrift",
                           "-lssl", "-lcrypto"]))]


def _c(contract):
    program = BUILD / "tests" / "integration" / f"client-{contract.stem.rpartition('_')[2]}"
    if not program.exists():
        raise AssertionError(f"{program} is missing: build the tree")
    return [program]


BINARY, COMPACT = ("strict", "unversioned"), ("compact",)


def _of_both(language, package, protocols, command, *more):
    return {contract: Client(language, package, contract, protocols,
                             functools.partial(command, contract), *more)
            for contract in SERVICES}


# Each is {contract: client}.
PYTHON = _of_both("Python", "python3-thrift",
                  BINARY + COMPACT + ("strict-accelerated", "compact-accelerated"), _python)
JAVA = _of_both("Java", "libthrift-java", BINARY + COMPACT, _java, {}, False)
NODE = _of_both("Node", "thrift", BINARY + COMPACT, _node,
                {"NODE_PATH": str(INTEGRATION / "node_modules"),
                 "PATH": os.environ.get("PATH", "/usr/bin:/bin")})
GO = _of_both("Go", "golang-thrift-dev", BINARY + COMPACT, _go)
RUBY = _of_both("Ruby", "ruby-thrift", BINARY + COMPACT + ("strict-accelerated",),
                functools.partial(_interpreted, ["ruby"], "client.rb", "rb"))
PHP = _of_both("PHP", "php-thrift", BINARY + COMPACT + ("strict-accelerated",), _php)
PERL = _of_both("Perl", "libthrift-perl", BINARY[:1], _perl)
CPP = _of_both("C++", "libthrift-dev", BINARY + COMPACT, _cpp)
C = _of_both("C", "libthrift-c-glib-dev", BINARY[:1] + COMPACT, _c,
             {"ASAN_OPTIONS": "detect_leaks=0"})  # the leaks are Thrift's

LANGUAGES = [PYTHON, JAVA, NODE, GO, RUBY, PHP, PERL, CPP, C]
LATER = [language[IDL_LATER] for language in LANGUAGES]
OF_2010 = [language[IDL_2010] for language in LANGUAGES]
LOCAL = [client for client in LATER if client.has_local]
# Clients that are tested with TLS.
TLS = [language[IDL_LATER] for language in (PYTHON, JAVA, NODE, GO, CPP)]
