# SPDX-License-Identifier: Apache-2.0
"""The servers of a scenario: real ones, each with a worker ID and a state directory of its own, or
replacements of one. `kind` is the name in scenarios.yml:

    real                 a server on a port of the loopback
    clocked              with a clock that can be stepped
    proxied              behind a proxy that can meddle with calls and replies (middle.py)
    dead                 a port that is taken, where nobody listens
    looked-up            a DNS name that the name server is asked for, as long as it knows it
    moved-to             where that name is moved to
    named                a DNS name with four addresses, a server at the third of them
    hung-name            a DNS name with four addresses, where connections are taken and that is all
    unknown-name         a DNS name that nobody knows
    silent-name          a DNS name that the name server never answers for
    local                a local socket
    tls                  with a certificate of localhost
    tls-for-known        likewise, and clients need one too
    tls-of-another-name  with a certificate of another host
    tls-silent           a port where nobody shakes hands
    lost-relay           a relay whose only server is dead
"""
import contextlib
import functools
import itertools
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import threading

import name_server
from certificates import Authority
from fake_clock import FakeClock
from harness import Server
from middle import HOST, Proxy
from runner_process import wait_until
from wire import EXCEPTION, STRICT

MEMORY = "/dev/shm"
FIRST_PORT, FIRST_EPHEMERAL_PORT = 20000, 32768  # the kernel's default range of ports, ip(7)
NAME, NAMELESS, SILENT_NAME = "ids.test", "nobody.test", "silent.test"
ASKED_NAME = "asked.test"
LOOKUP_S = 30  # maximum time of a resolver for an unanswered query
MOVED_TO_HOST = "127.0.0.6"
ADDRESSES = ("127.0.0.2", "127.0.0.4", "127.0.0.3", "127.0.0.5")
SERVED = ADDRESSES[2]
NAMED, LOOKED_UP, HUNG_NAME, LOST_RELAY = "named", "looked-up", "hung-name", "lost-relay"
MOVED_TO = "moved-to"
WITHOUT_ADDRESS = {"unknown-name": NAMELESS, "silent-name": SILENT_NAME}
NEED_NAMES = (NAMED, LOOKED_UP, HUNG_NAME, *WITHOUT_ADDRESS)
TLS_KINDS = ("tls", "tls-for-known", "tls-of-another-name")
REAL = ("real", "clocked", "proxied", NAMED, LOOKED_UP, MOVED_TO, "local", LOST_RELAY, *TLS_KINDS)
WITHOUT_SERVER = ("dead", "tls-silent", HUNG_NAME, *WITHOUT_ADDRESS)
KINDS = REAL + WITHOUT_SERVER


_ports = itertools.count(FIRST_PORT)


def free_port():
    """Returns a port that a server can use again after a restart, because it is below the ports
    that the kernel assigns to connections."""
    while (port := next(_ports)) < FIRST_EPHEMERAL_PORT:
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind((HOST, port))
            return port
    raise AssertionError(f"no port from {FIRST_PORT} to {FIRST_EPHEMERAL_PORT - 1} is free")


class Certificates:
    """Made once for all scenarios."""
    _lock = threading.Lock()

    def __init__(self, directory):
        self._authority = Authority(directory)
        self._stranger = Authority(directory, "stranger")
        self.localhost = self._authority.issue("localhost", "DNS:localhost", f"IP:{HOST}")
        self.elsewhere = self._authority.issue("elsewhere.test")
        self.client = self._authority.issue("client.test")
        self.ca = self._authority.certificate

    @classmethod
    def get(cls):
        with cls._lock:
            return cls._make()

    @classmethod
    @functools.cache
    def _make(cls):
        return cls(temporary_directory())

    def told(self, who):
        """Returns the TLS settings for "open"."""
        if who == "known":
            return {"ca": str(self.ca), "certificate": str(self.client.certificate),
                    "key": str(self.client.key)}
        return {"ca": str({"right": self._authority, "wrong": self._stranger}[who].certificate)}


_made = []


def temporary_directory():
    """Returns a directory, in memory if possible: a server refuses calls while its disk hangs."""
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    _made.append(pathlib.Path(tempfile.mkdtemp(prefix="snowflake-conformance-", dir=where)))
    return _made[-1]


def remove_directories():
    for directory in _made:
        shutil.rmtree(directory, ignore_errors=True)


class Place:
    """A server of a scenario. `text`: its address for clients."""

    def __init__(self, name, kind, worker_id, directory, others=()):
        self.name = name
        self.kind = kind
        self.worker_id = worker_id
        self.proxy = None
        self.server = None
        self._directory = directory
        self.clock = FakeClock(directory) if kind == "clocked" else None
        self._servers = []   # all servers so far
        self._moves = next((one for one in others if one.kind == LOOKED_UP), None)
        self._socket = None  # the socket of a place without a server
        if kind in REAL:
            self.start()
            self._address = self.server.addresses[0]
        if kind == "proxied":
            self.proxy = Proxy(self.server.address)
        if kind in ("dead", "tls-silent", HUNG_NAME):
            self._socket = socket.socket()
            self._socket.bind(("" if kind == HUNG_NAME else HOST, 0))
            if kind != "dead":
                self._socket.listen()
        self.text = self._text()

    def _text(self):
        if self.kind in WITHOUT_ADDRESS:
            return f"{WITHOUT_ADDRESS[self.kind]}:7609"
        if self.kind == HUNG_NAME:
            return f"{NAME}:{self._socket.getsockname()[1]}"
        if self._socket:
            tls = "tls:" if self.kind == "tls-silent" else ""
            return f"{tls}{HOST}:{self._socket.getsockname()[1]}"
        if self.kind == NAMED:
            return f"{NAME}:{self._address[1]}"
        if self.kind == LOOKED_UP:
            return f"{ASKED_NAME}:{self._address[1]}"
        if self.kind in TLS_KINDS:
            return f"tls:localhost:{self._address.rpartition(':')[2]}"
        address = self.proxy.address if self.proxy else self._address
        return address if isinstance(address, str) else "%s:%d" % address

    @property
    def is_alive(self):
        return self.server is not None and self.server.process.poll() is None

    def start(self):
        """Starts the server, or restarts it at its address. Returns when it serves."""
        listen = {"local": f"unix:{self._directory}/{self.name}.socket", NAMED: f"{SERVED}:0",
                  LOOKED_UP: f"{name_server.HOST}:0", MOVED_TO: self._listen_moved(),
                  **dict.fromkeys(TLS_KINDS, f"tls:{HOST}:{free_port()}")}.get(
                      self.kind, f"{HOST}:{free_port()}")
        if self.server:
            told = self._address
            listen = told if isinstance(told, str) else "%s:%d" % told
        self.server = Server(*self._options(), listen=listen,
                             environment=self.clock.environment if self.clock else None)
        self._servers.append(self.server)
        if self.kind == LOST_RELAY:
            self.server.wait_event("listening")
        else:
            self.server.wait_ready()

    def _listen_moved(self):
        return f"{MOVED_TO_HOST}:{self._moves.server.addresses[0][1]}" if self._moves else None

    def _options(self):
        if self.kind == LOST_RELAY:
            return ("--relay", f"{HOST}:1", "--max-wait", 100)
        options = ("--state-directory", self._directory / self.name, "--worker-id",
                   self.worker_id)
        if self.kind != "clocked":  # the disk of a busy machine can take longer than calls wait
            options += ("--max-wait", 60_000)
        if self.kind not in TLS_KINDS:
            return options
        known = Certificates.get()
        pair = known.elsewhere if self.kind == "tls-of-another-name" else known.localhost
        asks = ("--tls-client-ca", known.ca) if self.kind == "tls-for-known" else ()
        return (*options, "--tls-certificate", pair.certificate, "--tls-key", pair.key, *asks)

    def refuses(self):
        """Whether the server refuses a call for an ID."""
        with self.server.connect() as connection:
            return connection.call(STRICT, "get_id", "suite").kind == EXCEPTION

    def kill(self):
        self.server.kill()
        if self.server.process.returncode != -signal.SIGKILL:
            raise AssertionError(f"{self.name} was not killed, its status is "
                                 f"{self.server.process.returncode}")

    def terminate(self):
        if status := self.server.terminate():
            raise AssertionError(f"{self.name} ended with status {status}:\n{self.server.log}")

    def suspend(self):
        self.server.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.server.state() == "T", "the server stops")

    def resume(self):
        self.server.send_signal(signal.SIGCONT)
        wait_until(lambda: self.server.state() != "T", "the server goes on")

    def close(self):
        """Returns the problems of its servers and its proxy."""
        problems = []
        if self.proxy:
            self.proxy.close()
            problems += self.proxy.problems
        if self._socket:
            self._socket.close()
        return problems + [problem for problem in (server.check() for server in self._servers)
                           if problem]


def of_scenario(servers, directory):
    """Makes the places of a scenario, by name. If one fails, the others are closed."""
    made = {}
    try:
        for worker_id, (name, kind) in enumerate(servers.items(), 1):
            made[name] = Place(name, kind, worker_id, directory, list(made.values()))
    except BaseException:
        for place in made.values():
            place.close()
        raise
    return made


class Names:
    """A name server with the names above, and no others, for processes started with its
    wrapper()."""

    def __init__(self, directory):
        directory.mkdir()
        self._service = name_server.NameService(directory, patience=(LOOKUP_S, 1))
        self._service.trouble(SILENT_NAME, name_server.SILENT)
        self.say(None)
        self._service.trouble("", name_server.MISSING)  # all other names: the first match counts
        (directory / "nsswitch.conf").write_text("hosts: files dns\n")
        (directory / "hosts").write_text("".join(
            f"{address} {name}\n" for address, name in
            [(HOST, "localhost"), *((address, NAME) for address in ADDRESSES)]))

    def say(self, trouble):
        """Sets the answer for ASKED_NAME: one of name_server.TROUBLES, or its address."""
        self._service.move(ASKED_NAME, name_server.HOST)
        self._service.trouble(ASKED_NAME, trouble)

    def answer_late(self):
        """Answers all queries that are pending: a lookup that hangs would hold up the next one."""
        self.say(None)
        self._service.trouble(SILENT_NAME, name_server.MISSING)
        for name in (ASKED_NAME, SILENT_NAME):
            self._service.answer_late(name)
        self._service.trouble(SILENT_NAME, name_server.SILENT)

    def move(self):
        """Moves ASKED_NAME to the server of kind moved-to."""
        self._service.move(ASKED_NAME, MOVED_TO_HOST)

    def wrapper(self):
        return self._service.wrapper()

    def close(self):
        self._service.close()
