# SPDX-License-Identifier: Apache-2.0
"""The clients: threads that continuously draw IDs from the current process of one slot, and pass
all of them to the checker.

They draw single IDs in bursts, and batches of 1 to 1000, half of these as runs. Some connections
stay open, others are replaced often, some of them by a reset during a burst. Other calls in flight
are never abandoned while the process runs, so the replies of a stopped server after it continues
are checked, too. Further clients make other calls. Each reply is compared with its call.
"""
import collections
import random
import socket
import struct
import threading
import time

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TMemoryBuffer

import wire
from checker import SEQUENCE_BITS, WORKER_MASK, is_increasing
from cluster import DATACENTER_ID, WORKER_BITS
from harness import EPOCH_MS, HANG_GUARD_S
from wire import EXCEPTION, STRICT

AGENT = "chaos"
ONE = STRICT.call("get_id", AGENT)
BURST = 20             # single calls sent at once, at most
LARGEST_BATCH = 1000
PAUSE_S = 0.012        # mean pause between two draws
PAUSE_REFUSED_S = 0.05
MAX_AHEAD_MS = 1000    # limit for the time in an ID, ahead of the shared clock; --max-ahead is 10
RESETS = 0.5           # share of resets among the ends of short connections
I64, STRUCT, LIST = 10, 12, 15  # Thrift types
RUN = struct.Struct(">bhqbhib")  # first ID and count of a run, with their field headers
DATACENTER_SHIFT = SEQUENCE_BITS + WORKER_BITS
DATACENTER_MASK = WORKER_MASK >> WORKER_BITS


class Refused(Exception):
    """The server answered with an exception."""


def numbers_of(frame):
    """Returns the IDs in a reply, or raises Refused. Decodes by hand for speed."""
    at = 12 + struct.unpack_from(">i", frame, 4)[0]  # after version, length, name and sequence ID
    if frame[3] != EXCEPTION:
        kind, field = frame[at], struct.unpack_from(">h", frame, at + 1)[0]
        if kind == I64:
            return struct.unpack_from(">q", frame, at + 3)
        if kind == LIST and field == 0:
            count = struct.unpack_from(">i", frame, at + 4)[0]
            if frame[at + 3] == STRUCT:
                return numbers_of_runs(frame[at + 8:at + 8 + count * RUN.size])
            return struct.unpack_from(f">{count}q", frame, at + 8)
    raise Refused(refusal(frame))


def numbers_of_runs(runs):
    return tuple(number for _, _, first, _, _, count, _ in RUN.iter_unpack(runs)
                 for number in range(first, first + count))


def refusal(frame):
    """Returns the text of an exception, declared or not, after its type."""
    protocol = TBinaryProtocol(TMemoryBuffer(frame))
    _, kind, _ = protocol.readMessageBegin()
    if kind == EXCEPTION:
        error = TApplicationException()
        error.read(protocol)
        return error.message
    result = wire.EXTENDED.get_ids_result()
    result.read(protocol)
    error = result.clock or result.agent or result.worker or result.count_error
    return f"{type(error).__name__}: {getattr(error, 'message', '')}"


class Client(threading.Thread):
    """Calls one slot of the cluster until stop() is called."""

    def __init__(self, slot, judge, seed):
        super().__init__(daemon=True, name=f"{type(self).__name__} of {slot.name}")
        self.slot = slot
        self.judge = judge
        self.chance = random.Random(seed)
        self._stopped = threading.Event()

    def stop(self):
        self._stopped.set()

    def run(self):
        while not self._stopped.is_set():
            life = self.slot.wait_life(0.2)
            if life is not None:
                self.speak_to(life)

    def _end(self, connection, calls):
        """Ends a connection: sometimes with a reset that leaves replies unread, otherwise after
        reading all replies."""
        if self.chance.random() < RESETS:
            connection.send(calls)
            for _ in range(self.chance.randrange(len(calls)) if self.chance.random() < 0.5 else 0):
                connection.frame()
            connection.reset()
            return
        connection.socket.shutdown(socket.SHUT_WR)
        if said := connection.rest():
            raise wire.WrongReply(f"{len(said)} bytes more than the replies")


class Drawer(Client):
    def __init__(self, slot, judge, seed, stays):
        super().__init__(slot, judge, seed)
        self.stays = stays  # keeps its connection as long as it can

    def speak_to(self, life):
        """Draws on one connection until it ends."""
        try:
            with wire.Connection(life.address, HANG_GUARD_S) as connection:
                draws = 1_000_000 if self.stays else self.chance.randrange(1, 40)
                last = 0
                while draws > 0 and not self._stopped.is_set():
                    draws -= 1
                    last = self._draw(connection, life, last)
                self._end(connection, ONE * BURST)
        except wire.WrongReply as error:
            self.judge.foreign.append((life, str(error)))
        except (wire.Closed, OSError) as error:
            self.judge.failed(f"{type(error).__name__} {error}".strip())
            self._stopped.wait(PAUSE_REFUSED_S)

    def _draw(self, connection, life, last):
        """Draws one burst or one batch. Takes and returns `last` as Judge.drawn() does."""
        if self.chance.random() < 0.5:
            calls = self.chance.randrange(1, BURST)
            connection.send(ONE * calls)
        else:
            calls = 1
            count = int(LARGEST_BATCH ** self.chance.random())
            method = self.chance.choice(("get_ids", "get_id_runs"))
            connection.send(STRICT.call(method, AGENT, count))
        pause = PAUSE_S * 2 * self.chance.random()
        for _ in range(calls):
            began = time.monotonic()
            try:
                numbers = numbers_of(connection.frame())
            except Refused as error:
                self.judge.failed(str(error))
                pause = PAUSE_REFUSED_S
                continue
            last = self.judge.drawn(self.slot, life, began, numbers, last)
        self._stopped.wait(pause)
        return last


class NodeDrawer(Client):
    """Draws from an embedded node: one ID or many at a time, recorded in the node's order."""

    def speak_to(self, life):
        last = 0
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                answer = life.server.draw(int(LARGEST_BATCH ** self.chance.random()))
            except OSError as error:
                self.judge.failed(f"OSError {error}")
                self._stopped.wait(PAUSE_REFUSED_S)
                return
            if answer.numbers:
                last = self.judge.drawn(self.slot, life, began, answer.numbers, last)
            if answer.refused:
                self.judge.failed(str(answer.refused))
            self._stopped.wait(PAUSE_REFUSED_S if answer.refused
                               else PAUSE_S * 2 * self.chance.random())


def refuses(reply, *reasons):
    return reply.kind == EXCEPTION and reply.value.message.startswith(reasons)


# (call, check of its reply)
QUESTIONS = [
    (STRICT.call("get_timestamp"), lambda reply: reply.success > 0),
    (STRICT.call("get_worker_id"), lambda reply: refuses(reply, "WorkerIdUnavailable: ")
     or 0 <= reply.success < 1 << WORKER_BITS),
    (STRICT.call("get_worker"), lambda reply: reply.success.datacenter_id == DATACENTER_ID),
    (STRICT.call("get_id", "1bad"), lambda reply: refuses(reply, "InvalidUserAgentError: ")),
    (STRICT.call("get_ids", "1bad", 7), lambda reply: reply.value.agent is not None),
    (STRICT.call("nope"), lambda reply: refuses(reply, "Invalid method name: ")),
]


class Asker(Client):
    """Makes calls that are not for IDs. They may fail, but every reply must be correct."""

    def speak_to(self, life):
        try:
            with wire.Connection(life.address, HANG_GUARD_S) as connection:
                for _ in range(self.chance.randrange(1, 40)):
                    self._ask(connection, life)
                    if self._stopped.wait(PAUSE_S * 2 * self.chance.random()):
                        break
                self._end(connection, QUESTIONS[0][0] * BURST)
        except AssertionError as error:  # of wire.py
            self.judge.foreign.append((life, str(error)))
        except (wire.Closed, OSError):
            self._stopped.wait(PAUSE_REFUSED_S)

    def _ask(self, connection, life):
        asked = self.chance.choices(QUESTIONS, k=self.chance.randrange(1, 6))
        for call, _ in asked:
            connection.send(call)
        for _, is_answer in asked:
            reply = connection.reply(STRICT)
            if not is_answer(reply):
                self.judge.foreign.append((life, str(reply)))


class Judge:
    """Passes every ID that a client receives to the checker. Its lists contain the violations."""

    def __init__(self, checker):
        self.checker = checker
        self.disordered = []
        self.strangers = []  # IDs of another datacenter
        self.futures = []
        self.foreign = []    # replies that do not belong to the oldest call
        self.refusals = collections.Counter()  # failed calls by reason

    def drawn(self, slot, life, began, numbers, last):
        """`last`: the last earlier ID of the connection, or 0. Returns the last of `numbers`."""
        self.checker.record(life.index, numbers)
        if not (numbers[0] > last and is_increasing(numbers)):
            self.disordered.append((life, last, numbers))
        if any(number >> DATACENTER_SHIFT & DATACENTER_MASK != DATACENTER_ID for number in numbers):
            self.strangers.append((life, numbers))
        ahead_ms = (max(numbers) >> 22) + EPOCH_MS - time.time() * 1000
        if ahead_ms > MAX_AHEAD_MS:
            self.futures.append((life, numbers[-1], ahead_ms))
        slot.asked_at = max(slot.asked_at, began)
        return numbers[-1]

    def failed(self, why):
        self.refusals[why.partition(":")[0]] += 1
