#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A hostile neighbour: loads a server on this machine in one way until it is stopped.

It prints "ready" when it has connected and sent its first traffic. At the end, by SIGTERM or
--seconds, it prints a line of JSON with its work. It compares the method and the sequence ID of
every reply with the oldest open call of the connection. Its effect on other clients is measured
elsewhere.

Exit status: 0; 1 if a reply was wrong, or the server could not be reached; 2 if used wrongly.
"""
# Sequence IDs are written into a pipeline, and compared in the replies, column by column: first the
# first bytes of all of them, then the second bytes. So a call costs this program a tenth of a
# microsecond, far less than it costs a server.
import argparse
import array
import collections
import dataclasses
import json
import random
import resource
import select
import signal
import socket
import struct
import sys
import time
import typing

PIPELINE_BYTES = 64 * 1024   # maximum that a server reads at once
RECEIVE_BYTES = 256 * 1024
FIRST_SEQIDS = (1 << 28, 3 << 27)  # a varint of five bytes; its last does not change for hours
POLL_S = 0.1
CONNECT_LIMIT_S = 20
SPARE_DESCRIPTORS = 32

TICK_S = 0.01
# 0.2 s per byte: about 7 s per message, of the 10 s that a server allows
BYTE_EVERY_TICKS = 20
BITE_BYTES = 7
SMALL_BUFFER_BYTES = 4096
BATCH = 10000                # the largest batch allowed by default
SMALL_BATCH = 1000

CALL, REPLY, EXCEPTION = 1, 2, 3
WORKER_ID_UNAVAILABLE = 3    # its field ID in the result of get_ids


class WrongReply(Exception):
    pass


# Messages: the part before the sequence ID, and the part after it


def strict(kind, method):
    return struct.pack(">II", 0x80010000 | kind, len(method)) + method, b""


def unversioned(kind, method):
    return struct.pack(">I", len(method)) + method + bytes([kind]), b""


def compact(kind, method):
    return bytes([0x82, kind << 5 | 1]), bytes([len(method)]) + method


def big_endian_columns(first, count):
    numbers = array.array("I", range(first, first + count))
    if sys.byteorder == "little":
        numbers.byteswap()
    data = numbers.tobytes()
    return [data[place::4] for place in range(4)]


def varint_columns(first, count):
    def groups(shift):
        if first >> shift == first + count - 1 >> shift:
            return bytes([first >> shift & 127 | 128]) * count
        return bytes([number >> shift & 127 | 128 for number in range(first, first + count)])

    return [*map(groups, (0, 7, 14, 21)), bytes([first >> 28]) * count]


class Call:
    """A call that is made repeatedly, framed, with a different sequence ID each time, and the
    beginning of its reply."""

    def __init__(self, method, arguments=b"\0", form=strict):
        before, behind = form(CALL, method)
        self.columns = varint_columns if form is compact else big_endian_columns
        seqid_bytes = len(self.columns(FIRST_SEQIDS[0], 1))
        message = before + bytes(seqid_bytes) + behind + arguments
        self.frame = struct.pack(">I", len(message)) + message
        self.seqid_at = 4 + len(before)
        self.fit = max(1, PIPELINE_BYTES // len(self.frame))
        self._pipelines = {}
        reply_form = compact if form is compact else strict
        self._heads = {kind: reply_form(kind, method) for kind in (REPLY, EXCEPTION)}
        before, behind = self._heads[REPLY]
        self._reply_seqid = range(4 + len(before), 4 + len(before) + seqid_bytes)
        self._field_at = self._reply_seqid.stop + len(behind)
        self._has_fields = reply_form is strict  # a type, and a number of two bytes
        self.head_bytes = self._field_at + (3 if self._has_fields else 1)

    def pipeline(self, first, count):
        """Returns this many calls, with sequence IDs from `first` on. Valid until the next call to
        this function."""
        buffer = self._pipelines.get(count)
        if buffer is None:
            buffer = self._pipelines[count] = bytearray(self.frame * count)
        for place, column in enumerate(self.columns(first, count), self.seqid_at):
            buffer[place::len(self.frame)] = column
        return buffer

    def check(self, data, at, seqid):
        """Checks the reply at `at`. Returns its length, and the field ID of its exception: 0 for
        none, -1 for an untyped one. Raises WrongReply if it is not the reply to this call."""
        size = 4 + int.from_bytes(data[at:at + 4], "big")
        number = b"".join(self.columns(seqid, 1))
        head = data[at + 4:at + self._field_at]
        kind = next((kind for kind, (before, behind) in self._heads.items()
                     if head == before + number + behind), None)
        if kind is None or size < self.head_bytes:
            raise WrongReply(f"not the reply to call {seqid}: {bytes(head)!r} of {size} bytes")
        if kind == EXCEPTION:
            return size, -1
        field = data[at + self._field_at + 1:at + self._field_at + 3]
        return size, int.from_bytes(field, "big") if self._has_fields else 0

    def count_alike(self, data, at, end, size, first):
        """Returns how many replies from `at` on have the same head as the first one, except for
        consecutive sequence IDs from `first` on: all up to `end`, or else 1."""
        count = (end - at) // size
        end = at + count * size
        columns = self.columns(first, count)
        for place in range(self.head_bytes):
            column = data[at + place:end:size]
            wanted = (columns[place - self._reply_seqid.start] if place in self._reply_seqid
                      else column[:1] * count)
            if column != wanted:
                return 1
        return count


@dataclasses.dataclass
class Counts:
    sent: int = 0
    replies: int = 0
    errors: int = 0       # number of replies with an exception
    unavailable: int = 0  # number of errors that are WorkerIdUnavailable
    wrong: int = 0
    closed: int = 0       # number of connections that the server has closed
    longest_wait_s: float = 0


class Connection:
    """A connection, its open calls, and its position in the replies."""

    def __init__(self, address, call, counts, receive_buffer=None):
        self.call = call
        self.counts = counts
        # sequence ID of the next call, and of the oldest open call
        self.next = self.oldest = random.randrange(*FIRST_SEQIDS)
        self.unsent = b""
        self.replies = 0
        self.left_out = 0  # bytes left of a body whose head was checked
        self.rest = b""    # part of a head
        # for each pipeline: its last sequence ID, and when it was sent
        self.waits = collections.deque()
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(CONNECT_LIMIT_S)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    @property
    def awaited(self):
        return self.next - self.oldest

    def make_calls(self, count):
        data = self.call.pipeline(self.next, count)
        self.next += count
        self.counts.sent += count
        self.waits.append((self.next - 1, time.monotonic()))
        if self.unsent:
            self.unsent += data
        else:
            self._send(data)

    def send_rest(self):
        self._send(self.unsent)

    def _send(self, data):
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        self.unsent = bytes(memoryview(data)[sent:])

    def receive(self, buffer, limit=RECEIVE_BYTES):
        """Reads once. Returns how many replies begin in the bytes. Raises WrongReply, or
        ConnectionError at the end of the connection."""
        kept = len(self.rest)
        buffer[:kept] = self.rest
        try:
            received = self.socket.recv_into(memoryview(buffer)[kept:], min(limit,
                                                                            len(buffer) - kept))
        except BlockingIOError:
            return 0
        if received == 0:
            raise ConnectionResetError
        return self._take(buffer, kept + received)

    def _take(self, data, length):
        before = self.oldest
        at = min(self.left_out, length)
        self.left_out -= at
        alike = True
        while length - at >= self.call.head_bytes:
            if self.awaited == 0:
                raise WrongReply("a reply to no call")
            size, field = self.call.check(data, at, self.oldest)
            # a second try in the same bytes would be slow and fail again
            count = self.call.count_alike(data, at, min(length, at + size * self.awaited), size,
                                          self.oldest) if alike and length - at >= size else 1
            alike = count > 1
            self._count(count, field)
            at += count * size
        self.rest = bytes(data[at:length])
        self.left_out += max(0, at - length)
        return self.oldest - before

    def _count(self, count, field):
        self.oldest += count
        self.replies += count
        self.counts.replies += count
        if field != 0:
            self.counts.errors += count
        if field == WORKER_ID_UNAVAILABLE:
            self.counts.unavailable += count
        while self.waits and self.waits[0][0] < self.oldest:
            self._note_wait(self.waits.popleft()[1])

    def _note_wait(self, since):
        self.counts.longest_wait_s = max(self.counts.longest_wait_s, time.monotonic() - since)

    def close(self):
        if self.waits:  # some pipelines are still open
            self._note_wait(self.waits[0][1])
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


# Neighbours


class Neighbour:
    """Silent connections; the base class of the other neighbours."""
    tick_s = None
    receive_buffer = None
    reads = True

    def __init__(self, address, calls, n_connections):
        self.address = address
        self.calls = calls
        self.n_connections = n_connections
        self.counts = Counts()
        self.epoll = select.epoll()
        self.buffer = bytearray(RECEIVE_BYTES)
        self.connections = {}  # maps a descriptor to a Connection
        self.silent = 0        # longest silence of closed connections
        self.ended = False

    def begin(self, connection):
        """Sends the first traffic of a connection."""

    def go_on(self, connection, n_replies):
        """Handles the arrival of replies."""

    def tick(self):
        """Called every tick_s seconds."""

    def connect(self, number):
        connection = Connection(self.address, self.calls[number % len(self.calls)], self.counts,
                                self.receive_buffer)
        self.connections[connection.socket.fileno()] = connection
        return connection

    def events_for(self, connection):
        return (select.EPOLLIN if self.reads else 0) | (select.EPOLLOUT if connection.unsent else 0)

    def start(self):
        for number in range(self.n_connections):
            self.connect(number)
        for fd, connection in list(self.connections.items()):
            self.epoll.register(fd, 0)
            self.attempt(fd, connection, self.begin)

    def attempt(self, fd, connection, step, *arguments):
        """Makes one step of a connection, which may be its last."""
        had = connection.unsent
        try:
            step(connection, *arguments)
        except WrongReply as wrong:
            self.counts.wrong += 1
            print(f"neighbours: {wrong}", file=sys.stderr)
        except OSError:
            self.counts.closed += 1
        else:
            if bool(had) != bool(connection.unsent) or step == self.begin:
                self.epoll.modify(fd, self.events_for(connection))
            return
        self.drop(fd)

    def drop(self, fd):
        connection = self.connections.pop(fd)
        self.silent += connection.replies == 0
        connection.close()

    def handle(self, connection, events):
        if events & select.EPOLLOUT:
            connection.send_rest()
        if events & ~select.EPOLLOUT:
            n_replies = connection.receive(self.buffer)
            if n_replies > 0:
                self.go_on(connection, n_replies)

    def run(self, seconds):
        began = now = time.monotonic()
        until = began + seconds if seconds else float("inf")
        next_tick = now
        while not self.ended and now < until:
            if self.tick_s is not None and now >= next_tick:
                self.tick()
                next_tick += self.tick_s
            pause = POLL_S if self.tick_s is None else min(POLL_S, max(0, next_tick - now))
            for fd, events in self.epoll.poll(min(pause, until - now)):
                if fd in self.connections:
                    self.attempt(fd, self.connections[fd], self.handle, events)
            now = time.monotonic()
        return now - began

    def end(self):
        for fd in list(self.connections):
            self.drop(fd)


class Refilling(Neighbour):
    """Keeps calls in flight on each connection: if only `low` are left, sends more up to `high`."""
    high = None  # None: as many as fit in a pipeline

    def limits(self, connection):
        return 0, self.high or connection.call.fit

    def begin(self, connection):
        low, high = self.limits(connection)
        if connection.awaited <= low:
            connection.make_calls(high - connection.awaited)

    def go_on(self, connection, n_replies):
        self.begin(connection)


class Greedy(Refilling):
    """One call in flight on every other connection, two on the rest."""

    def limits(self, connection):
        high = 1 + connection.socket.fileno() % 2
        return high - 1, high


class OneByOne(Refilling):
    high = 1


class Resets(Neighbour):
    """Sends a pipeline on each connection, and resets the connection without reading. Alternates
    between the oldest connection and the newest, whose calls are probably being answered."""
    tick_s = 0.001
    reads = False

    def begin(self, connection):
        connection.make_calls(connection.call.fit)

    def tick(self):
        self.reset(next(iter(self.connections), None))
        for _ in range(2):
            connection = self.connect(0)
            fd = connection.socket.fileno()
            self.epoll.register(fd, 0)
            self.attempt(fd, connection, self.begin)
        time.sleep(random.uniform(0, self.tick_s))
        self.reset(fd)

    def reset(self, fd):
        if fd in self.connections:
            self.connections.pop(fd).reset()


class SlowReaders(Neighbour):
    """Sends as many calls as the server accepts. Every other connection reads a few bytes now and
    then, the others read nothing."""
    tick_s = TICK_S
    receive_buffer = SMALL_BUFFER_BYTES
    reads = False

    def begin(self, connection):
        while not connection.unsent:
            connection.make_calls(connection.call.fit)

    def handle(self, connection, events):
        if events & (select.EPOLLERR | select.EPOLLHUP):
            raise ConnectionResetError
        connection.send_rest()
        self.begin(connection)

    def bite(self, connection):
        connection.receive(self.buffer, BITE_BYTES)

    def tick(self):
        for fd, connection in list(self.connections.items()):
            if fd % 2:
                self.attempt(fd, connection, self.bite)


class SlowWriters(Neighbour):
    """Sends a call byte by byte, and the next one after its reply."""
    tick_s = TICK_S

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ticks = 0

    def begin(self, connection):
        """Starts each connection at another position in its first call."""
        self.write(connection, random.randrange(1, len(connection.call.frame)))

    def events_for(self, connection):
        return select.EPOLLIN

    def write(self, connection, n_bytes=1):
        if connection.awaited == 0:
            connection.unsent = bytes(connection.call.pipeline(connection.next, 1))
            connection.next += 1
        if not connection.unsent:
            return
        sent = connection.socket.send(connection.unsent[:n_bytes])
        connection.unsent = connection.unsent[sent:]
        if not connection.unsent:
            self.counts.sent += 1
            connection.waits.append((connection.next - 1, time.monotonic()))

    def tick(self):
        self.ticks += 1
        for fd, connection in list(self.connections.items()):
            if fd % BYTE_EVERY_TICKS == self.ticks % BYTE_EVERY_TICKS:
                self.attempt(fd, connection, self.write)


# Calls


def agent(text):
    return struct.pack(">bhI", 11, 1, len(text)) + text


def varint(number):
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def batch(count):
    return agent(b"neighbour") + struct.pack(">bhi", 8, 2, count) + b"\0"


GOOD = agent(b"neighbour") + b"\0"
LIST_OF_BOOLS = struct.pack(">bhbI", 15, 99, 2, 60000) + b"\1" * 60000
LONG_AGENT = agent(bytes(65000)) + b"\0"
SMALL_FIELDS = b"".join(struct.pack(">bhb", 2, number, 1) for number in range(100, 16100))

BURSTS = {
    "get_counters": Call(b"get_counters"),
    "get_worker": Call(b"get_worker"),
    "get_workers": Call(b"get_workers"),
    "bad-agent": Call(b"get_id", agent(b"1bad") + b"\0"),
    "bad-count": Call(b"get_ids", batch(0)),
    "unknown-method": Call(b"get_nothing"),
    "get_timestamp": Call(b"get_timestamp"),
    "compact-get-id": Call(b"get_id", b"\x18\x09neighbour\0", compact),
    "unversioned-get-id": Call(b"get_id", GOOD, unversioned),
}
GET_ID = Call(b"get_id", GOOD)
COSTLY = {
    "ulids": Call(b"get_ulids", batch(BATCH)),
    "uuids": Call(b"get_uuids", batch(BATCH)),
    "compact-ids": Call(b"get_ids", b"\x18\x09neighbour\x15" + varint(2 * BATCH) + b"\0", compact),
}


class Kind(typing.NamedTuple):
    what: str
    neighbour: type
    calls: list
    connections: int


KINDS = {
    **{name: Kind("bursts of as many calls as fit 64 KiB, the next when all are answered",
                  Refilling, [call], 100) for name, call in BURSTS.items()},
    "mixed": Kind("bursts of all of the above, each on some connections", Refilling,
                  list(BURSTS.values()), 100),
    "greedy": Kind(f"one or two get_ids({BATCH}) always in flight", Greedy,
                   [Call(b"get_ids", batch(BATCH))], 1000),
    **{name: Kind(f"one call for {BATCH} IDs always in flight, which costs as much as hundreds of "
                  "others", OneByOne, [call], 1000) for name, call in COSTLY.items()},
    "resets": Kind("a pipeline of get_timestamp, then a reset", Resets,
                   [BURSTS["get_timestamp"]], 50),
    "slow-readers": Kind(f"get_ids({SMALL_BATCH}) without end; replies taken slowly, or never",
                         SlowReaders, [Call(b"get_ids", batch(SMALL_BATCH))], 200),
    "slow-writers": Kind("get_id, byte by byte", SlowWriters, [GET_ID], 3000),
    "idle": Kind("nothing is said", Neighbour, [GET_ID], 10000),
    "big-messages": Kind("get_id with nearly 64 KiB of unknown fields, or of agent", OneByOne,
                         [Call(b"get_id", LIST_OF_BOOLS + GOOD),
                          Call(b"get_id", SMALL_FIELDS + GOOD),
                          Call(b"get_id", LONG_AGENT)], 100),
}


def raise_descriptor_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def parse_options():
    kinds = "\n".join(f"  {name:19} {kind.what}; {kind.connections:,} connections"
                      for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"kinds:\n{kinds}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help="one of those below")
    parser.add_argument("--port", type=int, required=True, metavar="N", help="of 127.0.0.1")
    parser.add_argument("--connections", type=int, metavar="N", help="other than below")
    parser.add_argument("--seconds", type=float, metavar="S", help="and no longer")
    return parser.parse_args()


def main():
    options = parse_options()
    kind = KINDS[options.kind]
    n_connections = options.connections or kind.connections
    raise_descriptor_limit(n_connections + SPARE_DESCRIPTORS)
    neighbour = kind.neighbour(("127.0.0.1", options.port), kind.calls, n_connections)

    def end(*_):
        neighbour.ended = True
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    neighbour.start()
    print("ready", flush=True)
    seconds = neighbour.run(options.seconds)
    neighbour.end()
    counts = dataclasses.asdict(neighbour.counts)
    print(json.dumps({"kind": options.kind, "connections": n_connections, "seconds": seconds,
                      **counts, "silent": neighbour.silent, "cpu_s": time.process_time()}))
    return 1 if neighbour.counts.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as failure:
        print(f"neighbours: {failure}", file=sys.stderr)
        sys.exit(1)
