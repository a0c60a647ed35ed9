# SPDX-License-Identifier: Apache-2.0
"""Audit logs: what stands in their lines, and a server of Scribe that takes them."""
import base64
import importlib
import socket
import sys
import threading
from typing import NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport, TMemoryBuffer, TTransportException

from bindings import INTEGRATION, current, generate
from harness import HANG_GUARD_S

sys.path.insert(0, str(generate("py", INTEGRATION / "clients" / "scribe.thrift")))
SERVICE = importlib.import_module("scribe.scribe")
RESULT = importlib.import_module("scribe.ttypes").ResultCode


# How a line begins that is no ID's: ID 0, and no useragent.
MISSING_LINE = b"CgABAAAAAAAAAAALAAIAAAAACg"


class Entry(NamedTuple):
    id: int
    agent: str
    tag: int


def decode(line):
    """A line, by Thrift's code for the struct of 2010."""
    entry = current.types.AuditLogEntry()
    transport = TMemoryBuffer(base64.b64decode(line, validate=True))
    entry.read(TBinaryProtocol(transport))
    if transport.read(1):
        raise AssertionError(f"more than an entry: {line}")
    return Entry(entry.id, entry.useragent, entry.tag)


def read(*paths):
    """The entries of files, each of which ends with a line."""
    text = b"".join(path.read_bytes() for path in paths)
    if text and not text.endswith(b"\n"):
        raise AssertionError(f"{paths} end within a line: {text[-100:]}")
    return [decode(line) for line in text.splitlines()]


def missing(entry):
    """How many IDs are missing where it stands; None if it is one."""
    return entry.tag if (entry.id, entry.agent) == (0, "") else None


class Scribe:
    """Listens at a port of its own. `answer` is called for each batch, and says what becomes of it:
    a ResultCode, or None to close the connection without an answer."""

    def __init__(self, test, answer=lambda: RESULT.OK, strict=False):
        self.answer = answer
        self.strict = strict
        self.batches = []  # of those that were answered with OK
        self.categories = set()
        self.tries = 0
        self.changed = threading.Condition()
        self._connections = set()
        self._listener = None
        self.port = 0
        self.listen()
        test.addCleanup(self.stop)

    def listen(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self):
        """As if it were killed; listen() is its next start."""
        # a thread that waits for a connection does not notice a mere close
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self.changed:
            for connection in self._connections:
                connection.shutdown(socket.SHUT_RDWR)

    def entries(self):
        with self.changed:
            return [decode(message) for batch in self.batches for message in batch]

    def wait(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(condition, HANG_GUARD_S):
                raise AssertionError(f"not within {HANG_GUARD_S} s: {what}")

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.changed:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        transport = TSocket()
        transport.setHandle(connection)
        protocol = TBinaryProtocol(TFramedTransport(transport), strictWrite=self.strict)
        processor = SERVICE.Processor(self)
        try:
            while True:
                processor.process(protocol, protocol)
        except (EOFError, OSError, TTransportException):
            pass
        with self.changed:
            self._connections.discard(connection)
        connection.close()

    def Log(self, messages):
        """The call of the IDL, in the thread of its connection."""
        with self.changed:
            self.tries += 1
            self.changed.notify_all()
        result = self.answer()
        if result is None:
            raise TTransportException(message="the test says so")
        if result == RESULT.OK:
            with self.changed:
                self.batches.append([message.message.removesuffix("\n") for message in messages])
                self.categories |= {message.category for message in messages}
                self.changed.notify_all()
        return result
