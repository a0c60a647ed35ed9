# SPDX-License-Identifier: Apache-2.0
"""Audit logs: decodes their lines, and runs a Scribe server that accepts them."""
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


# The start of a line that reports missing IDs: ID 0, and no useragent.
MISSING_LINE = b"CgABAAAAAAAAAAALAAIAAAAACg"


class Entry(NamedTuple):
    id: int
    agent: str
    tag: int


def decode(line):
    """Decodes a line with Thrift's code for the original struct."""
    entry = current.types.AuditLogEntry()
    transport = TMemoryBuffer(base64.b64decode(line, validate=True))
    entry.read(TBinaryProtocol(transport))
    if transport.read(1):
        raise AssertionError(f"more than an entry: {line}")
    return Entry(entry.id, entry.useragent, entry.tag)


def read(*paths):
    """Returns the entries of files that end with a complete line."""
    text = b"".join(path.read_bytes() for path in paths)
    if text and not text.endswith(b"\n"):
        raise AssertionError(f"{paths} end within a line: {text[-100:]}")
    return [decode(line) for line in text.splitlines()]


def missing(entry):
    """Returns how many IDs an entry reports as missing; None if it contains an ID."""
    return entry.tag if (entry.id, entry.agent) == (0, "") else None


class Scribe:
    """A Scribe server on its own port. `answer` is called for each batch, and returns a ResultCode,
    or None to close the connection without a reply."""

    def __init__(self, test, answer=lambda: RESULT.OK, strict=False):
        self.answer = answer
        self.strict = strict
        self.batches = []  # the batches answered with OK
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
        """Stops as if killed. listen() starts it again."""
        # close() does not wake a thread that waits for a connection
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
        """Implements the call of the IDL, in the thread of its connection."""
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
