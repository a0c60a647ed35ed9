# SPDX-License-Identifier: Apache-2.0
"""A name server of the test's own, and processes that ask no other.

    names = NameServer("zk1.test", "zk2.test")  # each is 127.0.0.1
    self.addCleanup(names.close)
    server = self.launch(..., wrapper=names.wrapper())
    names.silence(); names.answer(); names.answer(after_s=1.5)

`queries` counts the questions that came: two for each look-up, of an IPv4 and of an IPv6 address.
A process sees it by a mount namespace with files of its own over those in /etc; for that, and for
port 53, a test must be root, as skip_unless_possible() says.
"""
import contextlib
import os
import random
import socket
import struct
import subprocess
import threading
import unittest

from harness import temporary_directory

A, OK, NO_SUCH_NAME = 1, 0, 3
LIFETIME_S = 0
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
    """Where there are no mount namespaces for root, that is a failure to be told, not a skip."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root: a name server of its own")
    subprocess.run(["unshare", "--mount", "true"], check=True)


class NameServer:
    """`patience` is what the resolver gives it: seconds to wait for an answer, and how often."""

    def __init__(self, test, *names, patience=(2, 2)):
        self.names = names
        self.queries = 0
        self._silent = False
        self._after_s = 0
        self._directory = temporary_directory(test)
        self._socket = self._bind()
        self._write_files(*patience)
        threading.Thread(target=self._serve, daemon=True).start()
        test.addCleanup(self._socket.close)

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

    def silence(self):
        self._silent = True

    def answer(self, after_s=0):
        self._after_s = after_s
        self._silent = False

    def _serve(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                query, client = self._socket.recvfrom(512)
                self.queries += 1
                if self._silent:
                    continue
                if self._after_s:
                    timer = threading.Timer(self._after_s, self._reply, (query, client))
                    timer.daemon = True
                    timer.start()
                else:
                    self._reply(query, client)

    def _reply(self, query, client):
        with contextlib.suppress(OSError):
            self._socket.sendto(self._answer_to(query), client)

    def _answer_to(self, query):
        """An address for the names, and for others that there is none."""
        labels, end = [], 12
        while query[end]:
            labels.append(query[end + 1:end + 1 + query[end]].decode())
            end += 1 + query[end]
        kind, = struct.unpack(">H", query[end + 1:end + 3])
        known = ".".join(labels).lower() in self.names
        answers = int(known and kind == A)
        header = query[:2] + struct.pack(">HHHHH", 0x8180 | (OK if known else NO_SUCH_NAME), 1,
                                         answers, 0, 0)
        record = struct.pack(">HHHIH4B", 0xC00C, A, 1, LIFETIME_S, 4, 127, 0, 0, 1)
        return header + query[12:end + 5] + record * answers
