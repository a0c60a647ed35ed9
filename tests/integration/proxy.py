# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between a server and ZooKeeper that understands ZooKeeper's framing.

    proxy = Proxy(zookeeper.connect_string)     # one port for each address
    self.addCleanup(proxy.close)
    server = self.launch("--zookeeper", proxy.connect_string, "--datacenter-id", 1,
                         "--create-registry")
    proxy.cut()                                 # connections are reset, new ones refused
    proxy.heal()

Faults for the current and all later connections, until heal():

    cut()                         reset what is connected, refuse what connects
    freeze(*directions)           accept and forward nothing; heal() delivers what was held back
    delay(ms, *directions)        deliver everything that much later
    admit(number)                 let in as many of those that connect from now on, also after a
                                  cut, and reset the others, which `turned_away` counts
    lie(opcode, body)             put `body` into the replies to requests of that kind

thaw() ends only freeze, and delivers the held bytes. bar() is a cut that only unbar() ends, not
heal().

Single faults for the current connections. Later connections are not affected:

    reset()                       reset the connections
    hold_next_reply(opcodes)      let the next request of that kind through, and freeze TO_CLIENT
                                  before its reply, until thaw() or heal()

Faults for some kinds of requests, until heal():

    answer(error, opcodes, about) answer those that have `about` in them with that error code;
                                  ZooKeeper never sees them. Transactions are not supported

hold_next_reply() returns a Trap. Its wait() returns when the replies are frozen and the request was
sent to ZooKeeper. Directions are TO_SERVER and TO_CLIENT; the default is both. `requests` counts
the forwarded requests by opcode; `held_back` counts the replies of ZooKeeper that are held.

The proxy runs in its own thread. Every method can be called from any thread, and returns when it
has taken effect.
"""
import asyncio
import collections
import contextlib
import socket
import struct
import threading

from harness import HANG_GUARD_S, split_address
from zookeeper import HOST, free_port

EXISTS, GET_DATA, SET_ACL = 3, 4, 7
GET_CHILDREN, GET_CHILDREN_2, MULTI, CREATE_2 = 8, 12, 14, 15
SET_AUTH = 100

TO_SERVER, TO_CLIENT = "to_server", "to_client"
BOTH = (TO_SERVER, TO_CLIENT)
CUT, BAR = "cut", "bar"  # reasons to refuse connections
LONGEST_FRAME = 1 << 24  # four letters of an admin word make a larger number than this


class Trap:
    """Waits for one request with certain opcodes."""

    def __init__(self, opcodes):
        self.opcodes = frozenset([opcodes] if isinstance(opcodes, int) else opcodes)
        self._sprung = threading.Event()

    def spring(self):
        self._sprung.set()

    def wait(self):
        if not self._sprung.wait(HANG_GUARD_S):
            raise AssertionError(f"no request of {set(self.opcodes)} within {HANG_GUARD_S} s")


class Proxy:
    """`targets` is a connect string, "HOST:PORT,HOST:PORT"; see the head of this file."""

    def __init__(self, targets):
        self.requests = collections.Counter()
        self.delays_ms = dict.fromkeys(BOTH, 0)
        self._errors = []  # (error, opcodes, about) of answer()
        self._problems = []  # problems of links, other than closed connections
        self._traps = []
        self._links = set()
        self._refuses = set()
        self._admitted = None  # number of connections still admitted; None: all
        self.turned_away = 0
        self.lies = {}         # {opcode: body}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._doors = [_Door(self, split_address(target)) for target in targets.split(",")]
        self._do(self._start)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def connect_string(self):
        return ",".join(f"{HOST}:{door.port}" for door in self._doors)

    @property
    def connections(self):
        """Returns how many clients are connected."""
        return len(self._links)

    def _do(self, function, *arguments):
        """Calls a function in the proxy's thread. Returns its result."""
        async def call():
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(HANG_GUARD_S)

    async def _start(self):
        self.gates = {direction: asyncio.Event() for direction in BOTH}
        for gate in self.gates.values():
            gate.set()
        for door in self._doors:
            await door.open()

    def close(self):
        """Resets all connections and ends the thread. Raises the problems of the proxy itself. Can
        be called twice."""
        if self._loop.is_closed():
            return
        self._do(self._shut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_GUARD_S)
        self._loop.close()
        if self._problems:
            raise AssertionError("the proxy failed") from self._problems[0]

    async def _shut(self):
        for door in self._doors:
            door.close()
        self._reset_links()
        await asyncio.sleep(0)  # lint: allow sleep: one round of the loop, to close the connections
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self):
        self._do(self._refuse, CUT)

    def bar(self):
        self._do(self._refuse, BAR)

    def unbar(self):
        self._do(self._let_in, BAR)

    def _refuse(self, why):
        if not self._refuses:
            for door in self._doors:
                door.refuse()
        self._refuses.add(why)
        self._reset_links()

    async def _let_in(self, why):
        refused = bool(self._refuses)
        self._refuses.discard(why)
        if refused and not self._refuses:
            for door in self._doors:
                await door.open()

    def reset(self):
        self._do(self._reset_links)

    def _reset_links(self):
        for link in self._links:
            link.reset()
        self._links.clear()

    @property
    def held_back(self):
        return self._do(lambda: sum(link.held_back for link in self._links))

    def freeze(self, *directions):
        self._do(lambda: [self.gates[direction].clear() for direction in directions or BOTH])

    def thaw(self):
        self._do(self._open_gates)

    def _open_gates(self):
        for gate in self.gates.values():
            gate.set()

    def delay(self, delay_ms, *directions):
        self._do(self.delays_ms.update, dict.fromkeys(directions or BOTH, delay_ms))

    def admit(self, number):
        self._do(self._admit, number)

    async def _admit(self, number):
        self._admitted = number
        await self._let_in(CUT)

    def lie(self, opcode, body):
        self._do(self.lies.__setitem__, opcode, body)

    def heal(self):
        """Ends cut, freeze, delay, admit and lie, and the traps that have not caught a
        request yet."""
        self._do(self._heal)

    async def _heal(self):
        self._traps.clear()
        self._errors.clear()
        self._admitted = None
        self.lies.clear()
        self.delays_ms.update(dict.fromkeys(BOTH, 0))
        self._open_gates()
        await self._let_in(CUT)

    def hold_next_reply(self, opcodes):
        trap = Trap(opcodes)
        self._do(self._traps.append, trap)
        return trap

    def answer(self, error, opcodes, about):
        opcodes = frozenset([opcodes] if isinstance(opcodes, int) else opcodes)
        self._do(self._errors.append, (error, opcodes, about))

    def error_for(self, opcode, frame):
        """Returns the error with which to answer this request, or None. In the proxy's thread."""
        return next((error for error, opcodes, about in self._errors
                     if opcode in opcodes and about in frame), None)

    def spring_trap(self, opcode):
        """Freezes the replies if this request matches a trap. Runs in the proxy's thread."""
        trap = next((trap for trap in self._traps if opcode in trap.opcodes), None)
        if trap:
            self._traps.remove(trap)
            self.gates[TO_CLIENT].clear()
            trap.spring()

    async def serve(self, target, reader, writer):
        """Serves one client, from its connection to its end."""
        if self._admitted == 0:
            self.turned_away += 1
            _reset(writer)
            return
        if self._admitted is not None:
            self._admitted -= 1
        try:
            link = _Link(self, reader, writer, *await asyncio.open_connection(*target))
        except OSError:
            _reset(writer)
            return
        if self._refuses:  # a cut may have begun since the accept
            link.reset()
            return
        self._links.add(link)
        try:
            await link.run()
        except Exception as error:
            self._problems.append(error)
        finally:
            self._links.discard(link)


class _Door:
    """A listening port for one address behind the proxy. While it refuses connections, the socket
    stays bound without listening, so that no other process gets the port."""

    def __init__(self, proxy, target):
        self._proxy = proxy
        self._target = target
        self._server = None
        self._socket = None
        while self._socket is None:
            with contextlib.suppress(OSError):
                self._socket = socket.create_server((HOST, free_port()))
        self.port = self._socket.getsockname()[1]
        self._socket.shutdown(socket.SHUT_RDWR)

    async def open(self):
        async def serve(reader, writer):
            with contextlib.suppress(asyncio.CancelledError):
                await self._proxy.serve(self._target, reader, writer)
        self._server = await asyncio.start_server(serve, sock=self._socket.dup(),
                                                  limit=LONGEST_FRAME)

    def refuse(self):
        self._server.close()
        # close() does not suffice, because a process that is being started has a copy for a moment
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._server.close()
        self._socket.close()


class _Link:
    """A client's connection, and its connection to ZooKeeper."""

    def __init__(self, proxy, reader, writer, target_reader, target_writer):
        self._proxy = proxy
        self._ends = {TO_SERVER: (reader, target_writer), TO_CLIENT: (target_reader, writer)}
        self._replies = {}  # {xid of a replaced request: body of its reply}
        self._greeted = dict.fromkeys(BOTH, False)
        self._lies = {}     # {xid of a request that is answered with a lie: body}
        self.held_back = 0  # number of held replies

    async def run(self):
        """Runs until one end closes or resets its connection, and then closes or resets the other
        one."""
        pumps = [asyncio.ensure_future(self._pump(direction)) for direction in BOTH]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if all(pump.exception() is None for pump in done):
                for _, writer in self._ends.values():
                    writer.close()
                return
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        self.reset()
        for pump in done:
            if not isinstance(pump.exception(), (OSError, EOFError, type(None))):
                raise pump.exception()

    def reset(self):
        for _, writer in self._ends.values():
            _reset(writer)

    async def _pump(self, direction):
        """Reads frames (or the bytes of an admin word, which has no frame), and writes them when
        they are due."""
        queue = asyncio.Queue()
        taker = asyncio.ensure_future(self._take(direction, queue))
        giver = asyncio.ensure_future(self._give(direction, queue))
        try:
            await taker
            queue.put_nowait((0, b""))
            await giver
        finally:
            for each in (taker, giver):
                each.cancel()
            await asyncio.gather(taker, giver, return_exceptions=True)

    async def _take(self, direction, queue):
        reader = self._ends[direction][0]
        loop = asyncio.get_running_loop()
        framed = True
        while data := await reader.read(4 if framed else 1 << 16):
            if framed:
                data += await reader.readexactly(4 - len(data))
                length = struct.unpack(">i", data)[0]
                framed = 0 <= length <= LONGEST_FRAME
            if framed:
                data += await reader.readexactly(length)
            queue.put_nowait((loop.time() + self._proxy.delays_ms[direction] / 1000, data))
            self.held_back += direction == TO_CLIENT

    async def _give(self, direction, queue):
        writer = self._ends[direction][1]
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())  # lint: allow sleep: a delay is the purpose
            await self._proxy.gates[direction].wait()
            if not data:
                return
            data = self._alter(direction, data)
            self._inspect(direction, data)
            data = self._exchange(direction, data)
            writer.write(data)
            await writer.drain()
            self.held_back -= direction == TO_CLIENT

    def _alter(self, direction, frame):
        xid = frame[4:8]
        if direction == TO_SERVER and self._greeted[direction] and len(frame) >= 12:
            opcode, = struct.unpack(">i", frame[8:12])
            if opcode in self._proxy.lies:
                self._lies[xid] = self._proxy.lies[opcode]
        elif direction == TO_CLIENT and xid in self._lies:
            frame = frame[4:16] + struct.pack(">i", 0) + self._lies.pop(xid)
            frame = struct.pack(">i", len(frame)) + frame
        return frame

    def _inspect(self, direction, frame):
        """Checks traps. The first frame in each direction is the session's handshake, which has no
        header."""
        if not self._greeted[direction] or len(frame) < 12:
            self._greeted[direction] = True
            return
        if direction == TO_SERVER:
            opcode, = struct.unpack(">i", frame[8:12])
            self._proxy.spring_trap(opcode)
            self._proxy.requests[opcode] += 1

    def _exchange(self, direction, frame):
        """A request that is answered with an error is replaced by a harmless one, whose reply is
        replaced by the error. So replies keep the order of requests."""
        if len(frame) < 12:
            return frame
        xid, opcode = struct.unpack(">ii", frame[4:12])
        if direction == TO_SERVER:
            error = self._proxy.error_for(opcode, frame)
            if error is None:
                return frame
            self._replies[xid] = struct.pack(">i", error)
            return _framed(struct.pack(">iii1s?", xid, EXISTS, 1, b"/", False))
        if xid in self._replies:
            return _framed(frame[4:16] + self._replies.pop(xid))
        return frame


def _framed(body):
    return struct.pack(">i", len(body)) + body


def _reset(writer):
    """Ends a connection with a reset."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
