# SPDX-License-Identifier: Apache-2.0
"""Real servers, and servers that answer as a test tells them.

  SNOWFLAKE_BUILD  the build directory with server/snowflaked, by default build/ of the tree
"""
import contextlib
import atexit
import functools
import importlib
import itertools
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

PACKAGE = pathlib.Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent.parent
BUILD = pathlib.Path(os.environ.get("SNOWFLAKE_BUILD", ROOT / "build")).resolve()
SNOWFLAKED = str(BUILD / "server" / "snowflaked")
VECTORS = ROOT / "tests" / "vectors"

sys.path.insert(0, str(PACKAGE))

from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: E402
from thrift.Thrift import TApplicationException, TMessageType  # noqa: E402
from thrift.transport.TTransport import TMemoryBuffer  # noqa: E402

from snowflake_client import ClosedError, Snowflake, SnowflakeTimeoutError  # noqa: E402
from snowflake_client import testing  # noqa: E402
from snowflake_client._servers import ServerPool  # noqa: E402



def _generate():
    """Returns the modules of snowflake.thrift that Thrift's own compiler generates."""
    directory = tempfile.mkdtemp(prefix="snowflake-thrift-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    subprocess.run(["thrift", "--gen", "py", "-out", directory, str(ROOT / "snowflake.thrift")],
                   check=True)
    sys.path.append(directory)
    return [importlib.import_module(f"snowflake.{name}")
            for name in ("Snowflake", "SnowflakeExtended", "ttypes")]


calls_of_2010, calls, ttypes = _generate()
IdRun = ttypes.IdRun
# what has not come by then never comes; nothing is judged by it
LONG_S = 120.0
# the timeout of a call that must end by it; all other calls have LONG_S
SHORT_S = 0.4
LOOK_EVERY_S = 0.005
# the way to a server and back
FAR_S = 0.08
MODULES = {"get_id": calls_of_2010, "get_ids": calls, "get_id_runs": calls}

running_server = functools.partial(testing.running_server, program=SNOWFLAKED)


@contextlib.contextmanager
def waiting_server(registry):
    with subprocess.Popen(
            [SNOWFLAKED, "--listen", "127.0.0.1:0", "--datacenter-id", "1", "--zookeeper",
             registry], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True) as process:
        log = (re.search(r"event=listening address=(\S+)", line) for line in process.stderr)
        try:
            yield next(found[1] for found in log if found)
        finally:
            process.terminate()


def at_server(address):
    """For short_attempts()."""
    return lambda pool: pool._connected[0] is not None and pool._connected[0].text == address


def on_used_connection(pool):
    """For short_attempts(). The server has answered on the connection before."""
    return pool._has_answered and pool._connection.is_open


class Case(unittest.TestCase):
    def setUp(self):
        """Attempts last as long as their call, so that no client leaves a slow server. See
        short_attempts()."""
        limit = ServerPool._limit
        self.is_short = lambda _pool: False
        self.enter(mock.patch.object(
            ServerPool, "_limit",
            lambda pool: limit(pool) if self.is_short(pool) else pool._deadline))

    def short_attempts(self, when=lambda _pool: True):
        """Meanwhile, an attempt has its own, shorter timeout if when(pool) is true as it begins."""
        return mock.patch.object(self, "is_short", when)

    def server(self, *options, **settings):
        """The address of a real server that runs until the test ends."""
        return self.enter(running_server(*options, **settings))

    def waiting_server(self):
        """Likewise, of one that has no worker ID, since its registry does not answer."""
        return self.enter(waiting_server(self.dead()))

    def dead(self):
        """An address where nobody listens. It is taken until the test ends; only a server that a
        test starts there can listen."""
        sock = self.enter(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"

    def client(self, servers, agent="test", **options):
        client = Snowflake(servers, agent=agent, **{"timeout": LONG_S, **options})
        self.addCleanup(client.close)
        return client

    def client_in_order(self, servers, **options):
        """It begins with the first, and goes on with the next."""
        with mock.patch("random.shuffle"):
            return self.client(servers, **options)

    def without_retries(self):
        """A call fails once each server has failed, however long its timeout is."""
        fetch = ServerPool.fetch

        async def fetch_once(pool, *arguments):
            ids = await fetch(pool, *arguments)
            if ids is None:
                pool._check_open()
                raise pool.error(LONG_S)
            return ids

        return mock.patch.object(ServerPool, "fetch", fetch_once)

    def failure_at_once(self, call, *arguments):
        with self.without_retries():
            return self.failure(call, *arguments)

    def peer(self, answer, address="127.0.0.1:0"):
        return self.enter(contextlib.closing(Peer(answer, address)))

    def far_peer(self, is_back):
        """It does not answer until it is back, and then takes its time."""
        def answer(call):
            if not is_back.is_set():
                return call.peer.hang()
            call.peer.closing.wait(FAR_S)
            return call.ids()

        return self.peer(answer)

    def enter(self, manager):  # enterContext of Python 3.11
        result = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return result

    def failure(self, call, *arguments):
        """Returns the exception that the call raises."""
        with self.assertRaises(Exception) as caught:
            call(*arguments)
        return caught.exception

    def fill_buffer(self, client):
        """Takes until IDs are prefetched."""
        for _ in range(1_000_000):
            client.next_id()
            if client.stats().buffered >= 100:
                return
        self.fail("nothing is prefetched")

    def wait_until(self, condition):
        end = time.monotonic() + LONG_S
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not come to be")
            time.sleep(LOOK_EVERY_S)

    def assert_in_time(self, call, timeout=SHORT_S):
        began = time.monotonic()
        error = self.failure(call)
        self.assertIsInstance(error, SnowflakeTimeoutError)
        self.assertGreaterEqual(time.monotonic() - began, timeout * 0.9)
        return error

    def assert_close_ends_calls(self, client):
        errors = []
        threads = [threading.Thread(target=lambda: errors.append(self.failure(client.next_id)))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        self.wait_until(lambda: len(client._engine._waiters) == 4)
        client.close()
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual([type(error) for error in errors], [ClosedError] * 4)
        self.assertIsNone(client._engine.servers._connection)

    def assert_ids(self, ids, count):
        """So many, and as they come from one server to one thread."""
        self.assertEqual(len(ids), count)
        self.assertEqual(ids, sorted(set(ids)))
        self.assertGreater(ids[0], 0)


class Call:
    """What came in a frame, and the frames that may go back."""

    def __init__(self, frame, peer):
        protocol = TBinaryProtocol(TMemoryBuffer(frame))
        self.name, self.kind, self.sequence_id = protocol.readMessageBegin()
        self.arguments = getattr(MODULES[self.name], f"{self.name}_args")()
        self.arguments.read(protocol)
        self.count = getattr(self.arguments, "count", 1)
        self.peer = peer

    def reply(self, name=None, sequence_id=None, **fields):
        """A reply with these fields: success, or the name of an exception."""
        result = getattr(MODULES[self.name], f"{self.name}_result")(**fields)
        return self._message(TMessageType.REPLY, result, name, sequence_id)

    def exception(self, type, message):
        return self._message(TMessageType.EXCEPTION, TApplicationException(type, message))

    def unknown(self):
        return self.exception(TApplicationException.UNKNOWN_METHOD, f"unknown {self.name}")

    def ids(self, first=None, count=None, **fields):
        """As many as it asks for, the next ones of the peer unless given."""
        count = self.count if count is None else count
        first = self.peer.take(count) if first is None else first
        if self.name == "get_id":
            return self.reply(success=first, **fields)
        if self.name == "get_ids":
            return self.reply(success=list(range(first, first + count)), **fields)
        return self.reply(success=[IdRun(first, count)], **fields)

    def _message(self, kind, body, name=None, sequence_id=None):
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.writeMessageBegin(name or self.name, kind,
                                   self.sequence_id if sequence_id is None else sequence_id)
        body.write(protocol)
        return framed(buffer.getvalue())


def framed(message):
    return struct.pack("!i", len(message)) + message


class Peer:
    """A server that sends what answer(call) returns: bytes, or parts of them that it makes one
    after the other; None closes the connection."""

    def __init__(self, answer, address):
        host, _, port = address.rpartition(":")
        self._answer = answer
        self._listener = socket.create_server((host, int(port)))
        self._sockets = []
        self._numbers = itertools.count(1 << 40)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.port = self._listener.getsockname()[1]
        self.calls = []
        self.connections = 0
        self.ended = threading.Semaphore(0)  # released by each connection that ends
        self.closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self, count):
        return [next(self._numbers) for _ in range(count)][0]

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with contextlib.suppress(OSError, EOFError), sock:
            while True:
                size, = struct.unpack("!i", self._read(sock, 4))
                call = Call(self._read(sock, size), self)
                self.calls.append(call)
                answer = self._answer(call)
                if answer is None:
                    break
                for part in [answer] if isinstance(answer, bytes) else answer:
                    sock.sendall(part)
        self.ended.release()

    @staticmethod
    def _read(sock, size):
        data = b""
        while len(data) < size:
            part = sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def break_connections(self):
        """Those that there are end; new ones are taken."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for _ in self._sockets:
            assert self.ended.acquire(timeout=LONG_S)
        self._sockets.clear()

    def close(self):
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or accept() goes on in its thread
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def hang(self, _call=None):
        """An answer that does not come."""
        self.closing.wait(LONG_S)
