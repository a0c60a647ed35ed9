# SPDX-License-Identifier: Apache-2.0
"""A proxy between clients and one server, on its own port. It understands calls and replies, framed
and in strict binary, and applies the faults of faults.py:

    proxy = Proxy(server.address)
    proxy.meddle("late", times=1, ms=3000)  # the next one; without `times`, all until heal()
    proxy.each_link(Link.end)               # ends all current connections; or Link.reset

`hits` counts the faults since the last meddle(). `spoilt` contains the IDs in distorted replies, as
ranges.
"""
import contextlib
import select
import socket
import struct
import threading
from typing import NamedTuple

import faults
import messages
from messages import Message

HOST = "127.0.0.1"
LONGEST_FRAME = 1 << 24
NOW = struct.pack("ii", 1, 0)  # value of SO_LINGER: close() resets the connection


class Fault(NamedTuple):
    what: object  # a function of faults.py
    settings: dict


class Proxy:
    def __init__(self, target):
        self.target = target
        self.hits = 0
        self.held = 0       # number of calls that a fault holds
        self.hit_last = ""  # method of the last hit
        self.connections = 0  # number of all connections
        self.spoilt = []
        self.problems = []
        self._fault = None
        self._left = None  # how often the fault still happens; None: always
        self._skip = 0     # how many calls still pass before
        self._spoils = True
        self._links = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def meddle(self, name, times=None, skip=0, spoils=True, **settings):
        """Applies a fault after `skip` calls. spoils: whether the IDs in its replies are
        invalid."""
        with self._lock:
            self._skip = skip
            self._spoils = spoils
            self._fault = Fault(faults.BY_NAME[name], settings)
            self._left = times
            self.hits = 0

    def heal(self):
        """Ends the fault: new calls pass; the connections of held calls are closed."""
        with self._lock:
            self._fault = None
            links = list(self._links)
        for link in links:
            link.healed.set()

    def take_fault(self, call, is_first):
        """Returns the fault for this call, or None. A fault that needs an earlier reply does not
        apply to the first call of a connection."""
        with self._lock:
            if self._fault is None or self._left == 0:
                return None
            if is_first and self._fault.what is faults.of_another_call:
                return None
            if self._fault.what in faults.OF_IDS and messages.count_of(call) == 0:
                return None
            if self._skip > 0:
                self._skip -= 1
                return None
            self.hit_last = call.method
            if self._left is not None:
                self._left -= 1
            self.hits += 1
            return self._fault

    def spoil(self, reply):
        with self._lock:
            if self._spoils:
                self.spoilt += messages.ids_of(reply)

    @contextlib.contextmanager
    def holding(self):
        with self._lock:
            self.held += 1
        try:
            yield
        finally:
            with self._lock:
                self.held -= 1

    def each_link(self, what):
        """Calls `what` for each current connection, and returns the connections."""
        with self._lock:
            links = set(self._links)
        for link in links:
            what(link)
        return links

    def are_over(self, links):
        with self._lock:
            return not links & self._links

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.each_link(Link.reset)

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self.connections += 1
        try:
            server = socket.create_connection(self.target)
        except OSError:
            _reset(client)
            return
        link = Link(self, client, server)
        with self._lock:
            self._links.add(link)
        try:
            link.run()
        except (OSError, EOFError):
            link.reset()
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            link.reset()
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()


class Link:
    """A client's connection, and its connection to the server. Calls are handled one after the
    other."""

    def __init__(self, proxy, client, server):
        self.healed = threading.Event()
        self.before = None  # the reply to the previous call
        self._is_reset = False
        self._proxy = proxy
        self._client = client
        self._server = server
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self):
        while True:
            ready, _, _ = select.select([self._client, self._server], [], [])
            if self._server in ready:  # between calls, the server can only close the connection
                if not self._is_reset:
                    self.end()
                return
            self._take(Message.of(_read_frame(self._client)))

    def _take(self, call):
        fault = self._proxy.take_fault(call, self.before is None)
        if fault and fault.what in faults.OF_CALLS:
            with self._proxy.holding():
                fault.what(self, call, None, fault)
            return
        reply = self.ask(call)
        if fault:
            self._proxy.spoil(reply)
            with self._proxy.holding():
                fault.what(self, call, reply, fault)
        else:
            self.answer(reply)
        self.before = reply

    def ask(self, call):
        """Returns the server's reply."""
        self._server.sendall(self.framed(call.encode()))
        return Message.of(_read_frame(self._server))

    def answer(self, message):
        self.send_frame(message.encode())

    @staticmethod
    def framed(data):
        return struct.pack(">I", len(data)) + data

    def send_frame(self, data):
        self.send(self.framed(data))

    def send(self, data):
        self._client.sendall(data)

    def wait(self, seconds):
        """Waits, even after heal(). Returns whether the client has disconnected meanwhile."""
        poll = select.poll()
        poll.register(self._client, select.POLLRDHUP)
        return bool(poll.poll(seconds * 1000))

    def wait_for_end(self):
        """Waits until the client has disconnected, or the fault has ended."""
        while not self.wait(0.05):
            if self.healed.is_set():
                raise EOFError

    def end(self):
        """Closes the connection in order."""
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def reset(self):
        self._is_reset = True
        with contextlib.suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._client.close()
        self._server.close()


def _reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
    connection.close()


def _read_frame(connection):
    length = struct.unpack(">I", _read(connection, 4))[0]
    if length > LONGEST_FRAME:
        raise messages.NotStrict(length)
    return _read(connection, length)


def _read(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
