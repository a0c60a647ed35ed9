# SPDX-License-Identifier: Apache-2.0
"""The clients: threads that draw IDs from one server all the time, whichever process it is at the
moment, and hand all of them to the checker.

Single IDs in bursts and batches of 1 to 1000, half of these as runs, on connections of which some
stay and some are made anew again and again, some of them reset in the middle of a burst. No other
call that is under way is given up while the process lives: what a server that was stopped says when
it goes on is seen too. Beside them others ask for other things. Each reply is held against its
call.
"""
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
from harness import EPOCH_MS
from wire import EXCEPTION, STRICT

AGENT = "chaos"
ONE = STRICT.call("get_id", AGENT)
BURST = 20             # single calls sent at once, at most
LARGEST_BATCH = 1000
PAUSE_S = 0.012        # between two draws, on the mean
PAUSE_REFUSED_S = 0.05
CALL_LIMIT_S = 60      # longer than any fault lasts
RESETS = 0.5           # of the connections that do not stay; the others end in an orderly way
I64, STRUCT, LIST = 10, 12, 15  # types on the wire
RUN = struct.Struct(">bhqbhib")  # its first ID and how many they are, with their fields' heads
DATACENTER_SHIFT = SEQUENCE_BITS + WORKER_BITS
DATACENTER_MASK = WORKER_MASK >> WORKER_BITS


class Refused(Exception):
    """The server answered with an exception."""


def numbers_of(frame):
    """The IDs in one reply, or Refused. By hand, because there are very many."""
    at = 12 + struct.unpack_from(">i", frame, 4)[0]  # behind version, length, name and seqid
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
    """The text of an exception, declared or not, with its type in front."""
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
    """Speaks to one slot of the cluster until stop() is called."""

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
        """Some connections with a reset that leaves replies unread; the others say all there is."""
        if self.chance.random() < RESETS:
            connection.send(calls)
            for _ in range(self.chance.randrange(len(calls)) if self.chance.random() < 0.5 else 0):
                connection.frame()
            connection.reset()
            self.judge.resets += 1
            return
        connection.socket.shutdown(socket.SHUT_WR)
        if said := connection.rest():
            raise wire.WrongReply(f"{len(said)} bytes more than the replies")


class Drawer(Client):
    def __init__(self, slot, judge, seed, stays):
        super().__init__(slot, judge, seed)
        self.stays = stays  # keeps its connection as long as it can

    def speak_to(self, life):
        """On one connection, until it ends."""
        began = time.monotonic()
        try:
            with wire.Connection(life.address, CALL_LIMIT_S) as connection:
                draws = 1_000_000 if self.stays else self.chance.randrange(1, 40)
                lasts = {}
                while draws > 0 and not self._stopped.is_set():
                    draws -= 1
                    began = time.monotonic()
                    self._draw(connection, life, lasts)
                began = time.monotonic()
                self._end(connection, ONE * BURST)
        except wire.WrongReply as error:
            self.judge.foreign.append((life, str(error)))
        except (wire.Closed, OSError) as error:
            self.judge.failed(self.slot, life, began, f"{type(error).__name__} {error}".strip())
            self._stopped.wait(PAUSE_REFUSED_S)

    def _draw(self, connection, life, lasts):
        """One burst or one batch. `lasts` are the last IDs of the connection, for Judge.drawn."""
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
                self.judge.failed(self.slot, life, began, str(error))
                pause = PAUSE_REFUSED_S
                continue
            self.judge.drawn(self.slot, life, began, numbers, lasts)
        self._stopped.wait(pause)


class NodeDrawer(Client):
    """Draws from an embedded node: one ID or many at a time, in the order in which it had them."""

    def speak_to(self, life):
        lasts = {}
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                answer = life.server.draw(int(LARGEST_BATCH ** self.chance.random()))
            except OSError as error:
                self.judge.failed(self.slot, life, began, f"OSError {error}")
                self._stopped.wait(PAUSE_REFUSED_S)
                return
            if answer.numbers:
                self.judge.drawn(self.slot, life, began, answer.numbers, lasts)
            if answer.refused:
                self.judge.failed(self.slot, life, began, str(answer.refused))
            self._stopped.wait(PAUSE_REFUSED_S if answer.refused
                               else PAUSE_S * 2 * self.chance.random())


def refuses(reply, *reasons):
    return reply.kind == EXCEPTION and reply.value.message.startswith(reasons)


# (call, whether a reply is an answer to it)
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
    """Asks for what is not an ID. Whether it is served does not count, only what it is told."""

    def speak_to(self, life):
        try:
            with wire.Connection(life.address, CALL_LIMIT_S) as connection:
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


def worker_of(number):
    return number >> SEQUENCE_BITS & WORKER_MASK


def by_worker(numbers):
    """They are of one worker ID, or of two where a server has changed it between them: with
    --on-clock-step=reclaim only those of one increase."""
    if all(worker_of(number) == worker_of(numbers[0]) for number in numbers):
        return (numbers,)
    return [[number for number in numbers if worker_of(number) == worker]
            for worker in dict.fromkeys(map(worker_of, numbers))]


class Judge:
    """Takes what the clients see: every ID to the checker, every success and failure to the slot's
    record of its service. What must never be is in `faults_seen`."""

    def __init__(self, checker, datacenter_id, max_ahead_of_truth_ms=0):
        self.checker = checker
        self.datacenter_id = datacenter_id
        self.max_ahead_of_truth_ms = max_ahead_of_truth_ms
        self.disordered = []
        self.strangers = []  # of another datacenter
        self.futures = []
        self.foreign = []    # replies that do not answer the call that was next
        self.resets = 0      # that clients made
        self.longest_silence_s = 0.0
        self.silence_ended = None
        self._lock = threading.Lock()
        self._last_success = None

    def drawn(self, slot, life, began, numbers, lasts):
        """`lasts` is the caller's own for one connection, empty at first."""
        self.checker.record(life.index, numbers)
        now = time.monotonic()
        for ordered in by_worker(numbers) if life.reclaims else (numbers,):
            key = worker_of(ordered[0]) if life.reclaims else None
            if not (ordered[0] > lasts.get(key, 0) and is_increasing(ordered)):
                self.disordered.append((life, lasts.get(key, 0), ordered))
            lasts[key] = ordered[-1]
        if any(number >> DATACENTER_SHIFT & DATACENTER_MASK != self.datacenter_id
               for number in numbers):
            self.strangers.append((life, numbers))
        ahead_ms = (max(numbers) >> 22) + EPOCH_MS - time.time() * 1000
        if ahead_ms > self.max_ahead_of_truth_ms:
            self.futures.append((life, numbers[-1], ahead_ms))
        with self._lock:
            if self._last_success is not None and now - self._last_success > self.longest_silence_s:
                self.longest_silence_s = now - self._last_success
                self.silence_ended = time.time()
            self._last_success = now
        slot.service.succeeded(began, now)

    def failed(self, slot, life, began, why):
        slot.service.failed(life, began, time.monotonic(), why)

    def pause(self):
        """Between two parts of a run, when nobody serves on purpose."""
        with self._lock:
            self._last_success = None
