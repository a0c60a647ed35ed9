# SPDX-License-Identifier: Apache-2.0
"""A name server of the test's own, and processes that ask no other.

    names = NameServer(self, "zk1.test", "zk2.test")  # each is zookeeper.HOST
    server = self.launch(..., wrapper=names.wrapper())
    names.silence(); names.answer(); names.answer(after_s=1.5)

`queries` counts the questions for an IPv4 address: one for each look-up, and for each repetition.
A process sees it by a mount namespace with files of its own over those in /etc; for that, and for
port 53, a test must be root, as skip_unless_possible() says.

NameService is the same without a test. It knows every name, which it can move() to another address,
and can have trouble with some only:

    SILENT    no answer: a look-up fails after the resolver's patience
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
# $1 is a directory with the files, and the command follows it
MOUNT_AND_RUN = """
for file in resolv.conf nsswitch.conf hosts; do
    mount --bind "$1/$file" "/etc/$file" || exit 125
done
shift
exec "$@"
"""


def skip_unless_possible():
    """In a container even root may be without."""
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
    """Its files go to `directory`. `patience` is what the resolver gives it: seconds to wait for an
    answer, and how often."""

    def __init__(self, directory, patience=(1, 2)):
        self.queries = 0
        self._troubles = {}  # by name: (what, after_s)
        self._addresses = {}  # by name: of those that are not at HOST
        self._withheld = []  # (name, query, client): what SILENT did not answer
        self._lock = threading.Lock()
        self._directory = pathlib.Path(directory)
        self._socket = self._bind()
        self._write_files(*patience)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """May be called twice."""
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
        """What a process that is to ask this one is started by."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT_AND_RUN, "sh",
                str(self._directory)]

    def trouble(self, name, what, after_s=0):
        """With that name and all below it, or with all for "", until heal() of the same."""
        with self._lock:
            self._troubles[name] = (what, after_s)

    def heal(self, name):
        with self._lock:
            self._troubles.pop(name, None)

    def answer_late(self, name):
        """What was not answered, to whoever waits still."""
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
    """Of one test. Other names than `names` do not exist."""

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
    """(name, type, where the question ends)"""
    labels, end = [], 12
    while length := query[end]:
        labels.append(query[end + 1:end + 1 + length].decode("ascii", "replace").lower())
        end += 1 + length
    return ".".join(labels), struct.unpack_from(">H", query, end + 1)[0], end + 5
