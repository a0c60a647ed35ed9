# SPDX-License-Identifier: Apache-2.0
"""A name server for a test, and processes that only use this one.

    names = NameServer(self, "zk1.test", "zk2.test")  # each is zookeeper.HOST
    server = self.launch(..., wrapper=names.wrapper())
    names.silence(); names.answer(); names.answer(after_s=1.5)

`queries` counts the queries for an IPv4 address: one for each lookup, and for each repetition. A
process uses it in a mount namespace with other files over those in /etc. For this, and for port 53,
a test must run as root: see skip_unless_possible().

NameService is the same without a test. It knows every name, can move() a name to another address,
and can have a fault for some names only:

    SILENT    no answer: a lookup fails after the time limit of the resolver
    SLOW      the answer comes later
    MISSING   there is no such name
    FAILING   the name server cannot say
"""
import contextlib
import functools
import os
import pathlib
import random
import socket
import struct
import subprocess
import threading
import unittest

from harness import temporary_directory
from zookeeper import HOST

SILENT, SLOW, MISSING, FAILING = "silent", "slow", "missing", "failing"
TROUBLES = (SILENT, SLOW, MISSING, FAILING)
A, OK, CANNOT_SAY, NO_SUCH_NAME = 1, 0, 2, 3
LIFETIME_S = 0
LONGEST_QUERY = 4096
ATTEMPTS = 20
# $1 is a directory with the files, followed by the command
MOUNT_AND_RUN = """
for file in resolv.conf nsswitch.conf hosts; do
    mount --bind "$1/$file" "/etc/$file" || exit 125
done
shift
exec "$@"
"""


def skip_unless_possible():
    """Skips the test without the necessary rights, which even root may lack in a container."""
    unshare = ["unshare", "--mount", "true"]
    if os.geteuid() != 0 or subprocess.run(unshare, capture_output=True, check=False).returncode:
        raise unittest.SkipTest("needs root and a mount namespace, for a name server of its own")


@functools.cache
def possible():
    try:
        skip_unless_possible()
    except unittest.SkipTest:
        return False
    return True


class NameService:
    """A name server. `directory`: for its files. `patience`: the resolver's timeout in seconds, and
    number of tries."""

    def __init__(self, directory, patience=(1, 2)):
        self.queries = 0
        self._troubles = {}  # {name: (fault, after_s)}
        self._addresses = {}  # {name: address} of names that are not at HOST
        self._withheld = []  # (name, query, client) of queries that SILENT did not answer
        self._lock = threading.Lock()
        self._directory = pathlib.Path(directory)
        self._socket = self._bind()
        self._write_files(*patience)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """Can be called twice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    @staticmethod
    def _bind():
        for _ in range(ATTEMPTS):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                made.bind((f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.1", 53))
                return made
            made.close()
        raise AssertionError("no address of the loopback with a free port 53")

    def _write_files(self, timeout_s, attempts):
        address = self._socket.getsockname()[0]
        files = {"resolv.conf": f"nameserver {address}\nsearch .\n"
                                f"options timeout:{timeout_s} attempts:{attempts}\n",
                 "nsswitch.conf": "hosts: dns\n", "hosts": ""}
        for name, text in files.items():
            (self._directory / name).write_text(text)

    def wrapper(self):
        """Returns the command that starts a process with this name server."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT_AND_RUN, "sh",
                str(self._directory)]

    def trouble(self, name, what, after_s=0):
        """Begins a fault for a name and all names below it, or for all names if it is "". It lasts
        until heal() of the same name."""
        with self._lock:
            self._troubles[name] = (what, after_s)

    def heal(self, name):
        with self._lock:
            self._troubles.pop(name, None)

    def answer_late(self, name):
        """Answers pending queries of clients that still wait."""
        with self._lock:
            late = [one for one in self._withheld if one[0] == name]
            self._withheld = [one for one in self._withheld if one[0] != name]
        for _, query, client in late:
            self._take(query, client)

    def move(self, name, address):
        with self._lock:
            self._addresses[name] = address

    def _address_of(self, name):
        with self._lock:
            return socket.inet_aton(self._addresses.get(name, HOST))

    def _trouble_with(self, name):
        with self._lock:
            return next((trouble for above, trouble in self._troubles.items()
                         if above in ("", name) or name.endswith(f".{above}")), (None, 0))

    def knows(self, _):
        return True

    def _serve(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                query, client = self._socket.recvfrom(LONGEST_QUERY)
                if not client:
                    return
                with contextlib.suppress(struct.error, IndexError):
                    self._take(query, client)

    def _take(self, query, client):
        name, kind, end = _parse(query)
        self.queries += kind == A
        what, after_s = self._trouble_with(name)
        code = OK if self.knows(name) else NO_SUCH_NAME
        code = {MISSING: NO_SUCH_NAME, FAILING: CANNOT_SAY}.get(what, code)
        answers = int(code == OK and kind == A)
        header = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, answers, 0, 0)
        record = struct.pack(">HHHIH", 0xC00C, A, 1, LIFETIME_S, 4) + self._address_of(name)
        reply = header + query[12:end] + record * answers
        if what == SLOW:
            timer = threading.Timer(after_s, self._send, (reply, client))
            timer.daemon = True
            timer.start()
        elif what == SILENT:
            with self._lock:
                self._withheld.append((name, query, client))
        else:
            self._send(reply, client)

    def _send(self, reply, client):
        with contextlib.suppress(OSError):
            self._socket.sendto(reply, client)


class NameServer(NameService):
    """The name server of one test. Names other than `names` do not exist."""

    def __init__(self, test, *names, patience=(2, 2)):
        self.names = names
        super().__init__(temporary_directory(test), patience)
        test.addCleanup(self.close)

    def knows(self, name):
        return name in self.names

    def silence(self):
        self.trouble("", SILENT)

    def answer(self, after_s=0):
        self.trouble("", SLOW, after_s) if after_s else self.heal("")


def _parse(query):
    """Returns (name, type, end of the question)."""
    labels, end = [], 12
    while length := query[end]:
        labels.append(query[end + 1:end + 1 + length].decode("ascii", "replace").lower())
        end += 1 + length
    return ".".join(labels), struct.unpack_from(">H", query, end + 1)[0], end + 5
