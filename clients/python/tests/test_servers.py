# SPDX-License-Identifier: Apache-2.0
"""Which server is asked, what it may answer, and what is said when none serves. The servers are
sockets that answer as they are told."""
import contextlib
import itertools
import socket
import struct
import threading
import time
from unittest import mock

from support import LONG_S, SHORT_MS, Call, Case, framed
from thrift.Thrift import TApplicationException

from snowflake_client import (ClockError, InvalidAgentError, SnowflakeTimeoutError,
                              UnavailableError, UnreachableError)
from snowflake_client.turn import Ticket, Turn
from snowflake_client.wire import Failure
from snowflake_client.generated.ttypes import (IdRun, InvalidCount, InvalidSystemClock,
                                               InvalidUserAgentError, WorkerIdUnavailable)

INTERNAL = TApplicationException.INTERNAL_ERROR


class Refusals(Case):
    """What a server says that does not serve."""

    def outcome(self, answer, others=(), **options):
        peer = self.peer(answer)
        client = self.client_in_order([peer.address, *others], prefetch_ms=0, **options)
        error = self.failure(client.next_id)
        self.assertEqual(error.attempts[0].server, peer.address)
        self.assertEqual(str(error).count("\n"), 0)
        for server, reason in error.attempts:
            self.assertIn(f"{server}: {reason}", str(error))
        return error

    def test_typed(self):
        unavailable = self.outcome(
            lambda call: call.reply(worker=WorkerIdUnavailable("no worker ID", 250)))
        self.assertIsInstance(unavailable, UnavailableError)
        self.assertEqual(unavailable.retry_after_ms, 250)
        self.assertEqual(unavailable.attempts[0].reason, "no worker ID")
        self.assertIsInstance(
            self.outcome(lambda call: call.reply(clock=InvalidSystemClock("behind"))), ClockError)

    def test_no_time_to_wait(self):
        for wait_ms in (0, -1, None):
            error = self.outcome(lambda call: call.reply(worker=WorkerIdUnavailable("no", wait_ms)))
            self.assertIsInstance(error, UnavailableError)
            self.assertIsNone(error.retry_after_ms)

    def test_as_of_2010(self):
        for name, kind in (("WorkerIdUnavailable", UnavailableError),
                           ("InvalidSystemClock", ClockError)):
            error = self.outcome(lambda call: call.unknown() if call.name != "get_id" else
                                 call.exception(INTERNAL, f"{name}: why: so"))
            self.assertIsInstance(error, kind)
            self.assertEqual(error.attempts[0].reason, "why: so")
            self.assertIsNone(getattr(error, "retry_after_ms", None))

    def test_an_agent_is_refused_by_all_alike(self):
        for answer in (lambda call: call.reply(agent=InvalidUserAgentError("no")),
                       lambda call: call.exception(INTERNAL, "InvalidUserAgentError: no")):
            first, second = self.peer(answer), self.peer(answer)
            client = self.client([first.address, second.address], prefetch_ms=0)
            error = self.failure(client.next_id)
            self.assertIsInstance(error, InvalidAgentError)
            self.assertEqual([attempt.reason for attempt in error.attempts], ["no"])
            self.assertEqual(len(first.calls) * len(second.calls), 0)

    def test_the_least_time_to_wait(self):
        second = self.peer(lambda call: call.reply(worker=WorkerIdUnavailable("later", 100)))
        error = self.outcome(lambda call: call.reply(worker=WorkerIdUnavailable("no", 250)),
                             [second.address, self.dead()])
        self.assertEqual(error.retry_after_ms, 100)
        self.assertEqual(len(error.attempts), 3)

    def test_which_error_when_they_differ(self):
        clock = self.peer(lambda call: call.reply(clock=InvalidSystemClock("behind"))).address
        no_worker = self.peer(
            lambda call: call.reply(worker=WorkerIdUnavailable("no", 1))).address
        closing = self.peer(lambda call: None).address
        for servers, kind in (((self.dead(), clock), ClockError),
                              ((clock, no_worker), UnavailableError),
                              ((self.dead(), closing), UnreachableError)):
            error = self.failure(self.client(servers, prefetch_ms=0).next_id)
            self.assertIsInstance(error, kind)

    def test_errors_are_pythons_too(self):
        self.assertTrue(issubclass(SnowflakeTimeoutError, TimeoutError))
        self.assertTrue(issubclass(UnreachableError, ConnectionError))
        self.assertTrue(issubclass(InvalidAgentError, ValueError))


def with_garbage():
    """What an answer is called, and what makes it."""
    nested = b"\x80\x01\x00\x02\x00\x00\x00\x0bget_id_runs" + struct.pack("!i", 0)
    return {
        "a web server": lambda call: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "2 GB": lambda call: struct.pack("!i", 0x7fffffff) + b"x" * 100,
        "a negative size": lambda call: struct.pack("!i", -1) + b"x" * 100,
        "an empty frame": lambda call: framed(b""),
        "bytes": lambda call: framed(b"\xff" * 100),
        "half a message": lambda call: framed(call.ids()[4:-6]),
        "a list of 2 billion": lambda call: framed(
            call.ids()[4:].replace(struct.pack("!i", call.count) + b"\x0a", b"\x7f\xff\xff\xff\x0a")
            [:-12]),
        "a name that is no text": lambda call: framed(
            call.ids()[4:].replace(call.name.encode(), b"\xff" * len(call.name))),
        "structs in structs": lambda call: framed(nested + b"\x0c\x00\x01" * 300000),
        "another sequence ID": lambda call: call.ids(sequence_id=call.sequence_id + 1),
        "another name": lambda call: call.ids(name="get_worker"),
        "a call": lambda call: call._message(1, call.arguments),
        "nothing": lambda call: call.reply(),
        "too few": lambda call: call.ids(count=0) if call.count == 1 else call.ids(count=1),
        "too many": lambda call: call.ids(count=call.count + 1),
        "an ID of 0": lambda call: call.ids(first=0),
        "an ID below 0": lambda call: call.ids(first=-5),
        "IDs beyond 63 bits": lambda call: call.ids(first=2**63 - 1),
        "a run of none": lambda call: call.reply(success=[IdRun(5, call.count), IdRun(99, 0)]),
        "a run of fewer than none": lambda call: call.reply(
            success=[IdRun(5, call.count + 1), IdRun(99, -1)]),
        "runs that overlap": lambda call: call.reply(
            success=[IdRun(5, call.count - 1), IdRun(5, 1)]),
        "an error of its own": lambda call: call.exception(INTERNAL, "out of\r\ncheese\0" * 50),
        "no batch at all": lambda call: call.reply(count_error=InvalidCount("0 at most")),
    }


class Garbage(Case):
    def test_it_is_said_and_another_server_is_asked(self):
        for name, answer in with_garbage().items():
            with self.subTest(name):
                peer = self.peer(answer)
                client = self.client(peer.address, prefetch_ms=0)
                error = self.failure(client.next_ids, 2)
                self.assertIsInstance(error, UnreachableError)
                self.assertEqual([attempt.server for attempt in error.attempts], [peer.address])
                self.assertLess(len(str(error)), 400)
                self.assertTrue(str(error).isprintable())
                good = self.peer(Call.ids)
                client = self.client_in_order([peer.address, good.address], prefetch_ms=0)
                self.assert_ids(client.next_ids(2), 2)

    def test_such_a_connection_is_not_used_again(self):
        for name in ("bytes", "another sequence ID", "another name", "too many", "an ID of 0"):
            with self.subTest(name):
                answers = itertools.chain([with_garbage()[name]], itertools.repeat(Call.ids))
                peer = self.peer(lambda call: next(answers)(call))
                client = self.client(peer.address, prefetch_ms=0)
                self.failure(client.next_ids, 2)
                self.assert_ids(client.next_ids(2), 2)
                self.assertEqual(peer.connections, 2)

    def test_a_second_reply_is_nobodys(self):
        peer = self.peer(lambda call: call.ids() + call.ids())
        client = self.client(peer.address, prefetch_ms=0)
        client.next_id()
        self.failure(client.next_id)
        self.assertEqual(peer.connections, 1)

    def test_sequence_ids_differ(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch_ms=0)
        for _ in range(10):
            client.next_id()
        self.assertEqual(len({call.sequence_id for call in peer.calls}), 10)


class OlderServers(Case):
    def test_one_without_runs(self):
        peer = self.peer(lambda call: call.unknown() if call.name == "get_id_runs" else call.ids())
        client = self.client(peer.address)
        self.assert_ids(client.next_ids(20000), 20000)
        self.assertEqual([call.name for call in peer.calls], ["get_id_runs", "get_ids", "get_ids"])

    def test_one_without_runs_that_miscounts(self):
        for more in (-1, 1):
            peer = self.peer(lambda call: call.unknown() if call.name == "get_id_runs" else
                             call.ids(count=call.count + more))
            error = self.failure(self.client(peer.address).next_ids, 5)
            self.assertIn(f"{5 + more} IDs, for 5", str(error))

    def test_one_of_2010(self):
        peer = self.peer(lambda call: call.ids() if call.name == "get_id" else call.unknown())
        client = self.client(peer.address)
        self.assert_ids(client.next_ids(250), 250)
        self.assertEqual([call.name for call in peer.calls],
                         ["get_id_runs", "get_ids"] + ["get_id"] * 250)
        self.assertEqual(peer.connections, 1)

    def test_one_with_smaller_batches(self):
        peer = self.peer(lambda call: call.ids() if call.count <= 100 else
                         call.reply(count_error=InvalidCount("100 at most")))
        self.assert_ids(self.client(peer.address).next_ids(1000), 1000)
        self.assertEqual(sum(call.count > 100 for call in peer.calls), 4)


class Turns(Case):
    """Of servers, and of calls."""

    def test_one_answers_and_stays_the_one(self):
        peers = [self.peer(Call.ids) for _ in range(3)]
        client = self.client([peer.address for peer in peers], prefetch_ms=0)
        for _ in range(20):
            client.next_id()
        self.assertEqual(sorted(len(peer.calls) for peer in peers), [0, 0, 20])

    def test_the_one_that_is_turned_to_stays_the_one(self):
        answers = itertools.chain([lambda call: None], itertools.repeat(Call.ids))
        first, second = self.peer(lambda call: next(answers)(call)), self.peer(Call.ids)
        client = self.client_in_order([first.address, second.address], prefetch_ms=0)
        client.next_id()
        client._servers._servers[0].places[0].rest.end()  # it has rested
        client.next_ids(5)
        self.assertEqual((len(first.calls), len(second.calls)), (1, 2))

    def test_all_are_dead(self):
        servers = [self.dead() for _ in range(3)]
        client = self.client(servers)
        for _ in range(3):  # also while they rest
            error = self.failure(client.next_id)
            self.assertIsInstance(error, UnreachableError)
            self.assertCountEqual([attempt.server for attempt in error.attempts], servers)
            self.assertEqual({attempt.reason for attempt in error.attempts}, {"connection refused"})

    def test_clients_do_not_go_on_with_the_same_one(self):
        names = [f"127.0.0.{last}" for last in (1, 2, 3)]
        orders = {tuple(server.text for server in self.client(names)._servers._servers)
                  for _ in range(300)}
        self.assertEqual(orders, set(itertools.permutations(names)))

    def test_one_that_failed_rests(self):
        now = [time.monotonic()]
        with mock.patch("snowflake_client.servers.monotonic", lambda: now[0]), \
                mock.patch("random.uniform", lambda low, high: high):
            refusing = self.peer(lambda call: call.reply(worker=WorkerIdUnavailable("no", 1)))
            serving = self.peer(Call.ids)
            servers = self.client_in_order([refusing.address, serving.address])._servers
            pauses = []
            for _ in range(9):
                asked = len(refusing.calls)
                began = now[0]
                while len(refusing.calls) == asked:  # each time it begins with that one, if it may
                    servers._current = 0
                    servers.fetch(1, now[0] + 1e5)
                    now[0] += 0.0625
                pauses.append(now[0] - began)
        self.assertLess(pauses[1], 0.25)
        for shorter, longer in zip(pauses[1:6], pauses[2:7]):
            self.assertAlmostEqual(longer / shorter, 2, delta=0.7)
        self.assertAlmostEqual(pauses[-1], 12.5, delta=0.2)

    def test_a_connection_that_broke_meanwhile_is_no_failure(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch_ms=0)
        for connections in range(1, 4):
            self.assert_ids([client.next_id() for _ in range(3)], 3)
            self.assertEqual(peer.connections, connections)
            peer.break_connections()

    def test_a_connection_that_breaks_in_a_reply_is_one(self):
        answers = itertools.chain([Call.ids, lambda call: iter([call.ids()[:9]])])

        def answer(call):
            made = next(answers)(call)
            if isinstance(made, bytes):
                return made
            return self.half(made, peer)

        peer = self.peer(answer)
        client = self.client(peer.address, prefetch_ms=0)
        client.next_id()
        self.assertIsInstance(self.failure(client.next_id), UnreachableError)
        self.assertEqual(len(peer.calls), 2)

    @staticmethod
    def half(parts, peer):
        yield from parts
        raise EOFError  # the connection ends

    def test_calls_take_turns_in_order_of_coming(self):
        turn, first, came = Turn(), Ticket(), []
        turn.acquire(first, 0)

        def take(number):
            ticket = Ticket()
            turn.acquire(ticket, time.monotonic() + LONG_S)
            came.append(number)
            turn.release(ticket)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            self.wait_until(lambda: len(turn._waiting) == number)
        turn.release(first)
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual(came, list(range(8)))


class Deadlines(Case):
    """A call ends by its deadline, whatever servers do."""

    def test_a_server_that_hangs(self):
        for prefetch_ms in (50, 0):
            peer = self.peer(lambda call: call.peer.hang())
            client = self.client(peer.address, timeout_ms=SHORT_MS, prefetch_ms=prefetch_ms)
            error = self.assert_in_time(client.next_id)
            self.assertEqual([attempt.server for attempt in error.attempts], [peer.address])
            self.assertLessEqual(len(peer.calls), 1)

    def test_servers_that_hang_share_the_time(self):
        deadlines = []

        def hang(_server, _place, _count, deadline):
            deadlines.append(deadline)
            raise Failure("timeout", "no answer")

        servers = self.client(["127.0.0.1", "127.0.0.2", "127.0.0.3"])._servers
        servers._call = hang
        with mock.patch("snowflake_client.servers.monotonic", lambda: 1000.0):
            error = self.failure(servers.fetch, 1, 1008.0)
        self.assertEqual(deadlines, [1004, 1004, 1008])
        self.assertEqual(len(error.attempts), 3)

    def test_one_that_hangs_is_left(self):
        hanging, good = self.peer(lambda call: call.peer.hang()), self.peer(Call.ids)
        client = self.client_in_order([hanging.address, good.address], prefetch_ms=0)
        with self.short_shares():
            self.assert_ids([client.next_id() for _ in range(10)], 10)
        self.assertEqual(len(hanging.calls), 1)

    def test_a_late_reply_is_nobodys(self):
        late = threading.Event()

        def answer(call):
            if len(call.peer.calls) == 1:
                late.wait(LONG_S)
                return call.ids(first=77)
            return call.ids()

        peer = self.peer(answer)
        client = self.client(peer.address, timeout_ms=SHORT_MS, prefetch_ms=0)
        self.assert_in_time(client.next_id)
        late.set()
        client.timeout_ms = LONG_S * 1000
        self.assertNotIn(77, [client.next_id() for _ in range(10)])
        self.assertEqual(peer.connections, 2)

    def test_calls_that_wait_for_their_turn(self):
        peer = self.peer(lambda call: call.peer.hang())
        client = self.client(peer.address, timeout_ms=SHORT_MS)
        errors = []
        threads = [threading.Thread(
            target=lambda: errors.append(self.assert_in_time(client.next_id))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual([error.attempts[0].server for error in errors], [peer.address] * 8)

    def test_a_call_that_has_no_time_left_says_so(self):
        times = itertools.chain([0.0], itertools.repeat(10.0))
        with mock.patch("snowflake_client.servers.monotonic", lambda: next(times)):
            error = self.failure(self.client("127.0.0.1")._servers.fetch, 1, 5.0)
        self.assertIsInstance(error, SnowflakeTimeoutError)
        self.assertEqual(error.attempts, [("127.0.0.1", "no time was left to ask it")])

    def test_a_crowd_that_waits_finds_a_far_server_when_it_is_back(self):
        """Calls come one by one, so that the first of those that wait has less time left than the
        way there and back takes."""
        is_back, is_found, threads = threading.Event(), threading.Event(), []
        client = self.client(self.far_peer(is_back).address, timeout_ms=SHORT_MS)

        def take():
            with contextlib.suppress(SnowflakeTimeoutError):
                client.next_id()
                is_found.set()

        ends_at = time.monotonic() + LONG_S
        while time.monotonic() < ends_at and not is_found.wait(0.01):
            threads.append(threading.Thread(target=take))
            threads[-1].start()
            if len(threads) == 80:
                is_back.set()
        for thread in threads:
            thread.join(LONG_S)
        self.assertTrue(is_back.is_set() and is_found.is_set())

    def test_a_port_that_takes_no_connection(self):
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            while not _is_full(listener, stack):
                pass
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            error = self.assert_in_time(self.client(address, timeout_ms=SHORT_MS).next_id)
            self.assertIn("not connected", str(error))
            self.assert_close_ends_calls(self.client(address, timeout_ms=LONG_S * 1000))

    def test_a_port_of_its_own(self):
        # who connects to a port that is free may get it for this end, and be connected to itself
        address, make = self.dead(), socket.socket
        port = int(address.rpartition(":")[2])

        def bound(family, kind):
            sock = make(family, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return sock

        with mock.patch("socket.socket", bound):
            error = self.failure(self.client(address).next_id)
        self.assertIsInstance(error, UnreachableError)
        self.assertIn("refused", str(error))

    def test_close_ends_calls(self):
        peer = self.peer(lambda call: call.peer.hang())
        for prefetch_ms in (50, 0):
            self.assert_close_ends_calls(
                self.client(peer.address, prefetch_ms=prefetch_ms, timeout_ms=LONG_S * 1000))


def _is_full(listener, stack):
    """Connects once more; whether that one has to wait."""
    sock = stack.enter_context(socket.socket())
    sock.settimeout(0.2)
    try:
        sock.connect(listener.getsockname())
    except TimeoutError:
        return True
    return False
