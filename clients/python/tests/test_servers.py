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

from support import LONG_S, SHORT_S, Call, Case, IdRun, at_server, framed, ttypes
from thrift.Thrift import TApplicationException

from snowflake_client import _options, _servers
from snowflake_client import (ClockError, InvalidAgentError, SnowflakeError, SnowflakeTimeoutError,
                              UnavailableError, UnreachableError)
from snowflake_client._codec import Failure
from snowflake_client._servers import _Backoff
from snowflake_client.client import _run, _SocketConnection

InvalidCount, InvalidSystemClock = ttypes.InvalidCount, ttypes.InvalidSystemClock
InvalidUserAgentError = ttypes.InvalidUserAgentError
WorkerIdUnavailable = ttypes.WorkerIdUnavailable
INTERNAL = TApplicationException.INTERNAL_ERROR


class Refusals(Case):
    """What a server says that does not serve."""

    def outcome(self, answer, others=(), **options):
        peer = self.peer(answer)
        client = self.client_in_order([peer.address, *others], prefetch=0, **options)
        error = self.failure_at_once(client.next_id)
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
            client = self.client([first.address, second.address], prefetch=0)
            error = self.failure_at_once(client.next_id)
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
            error = self.failure_at_once(self.client(servers, prefetch=0).next_id)
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
        "a name that is not text": lambda call: framed(
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
                client = self.client(peer.address, prefetch=0)
                error = self.failure_at_once(client.next_ids, 2)
                self.assertIsInstance(error, UnreachableError)
                self.assertEqual([attempt.server for attempt in error.attempts], [peer.address])
                self.assertLess(len(str(error)), 400)
                self.assertTrue(str(error).isprintable())
                good = self.peer(Call.ids)
                client = self.client_in_order([peer.address, good.address], prefetch=0)
                self.assert_ids(client.next_ids(2), 2)

    def test_such_a_connection_is_not_used_again(self):
        for name in ("bytes", "another sequence ID", "another name", "too many", "an ID of 0"):
            with self.subTest(name):
                answers = itertools.chain([with_garbage()[name]], itertools.repeat(Call.ids))
                peer = self.peer(lambda call: next(answers)(call))
                client = self.client(peer.address, prefetch=0)
                self.failure_at_once(client.next_ids, 2)
                self.assert_ids(client.next_ids(2), 2)
                self.assertEqual(peer.connections, 2)

    def test_a_second_reply_is_nobodys(self):
        peer = self.peer(lambda call: call.ids() + call.ids())
        client = self.client(peer.address, prefetch=0)
        self.assertIn("bytes of a frame of", str(
            self.failure_at_once(client.next_id)))
        self.assertEqual(peer.connections, 1)

    def test_sequence_ids_differ(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch=0)
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
            error = self.failure_at_once(self.client(peer.address).next_ids, 5)
            self.assertIn(f"{5 + more} IDs instead of 5", str(error))

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


class Order(Case):
    """Which server is asked, and when."""

    def test_the_first_that_answers_is_kept(self):
        peers = [self.peer(Call.ids) for _ in range(3)]
        client = self.client([peer.address for peer in peers], prefetch=0)
        for _ in range(20):
            client.next_id()
        self.assertEqual(sorted(len(peer.calls) for peer in peers), [0, 0, 20])

    def test_after_a_failover_the_other_server_is_kept(self):
        answers = itertools.chain([lambda call: None], itertools.repeat(Call.ids))
        first, second = self.peer(lambda call: next(answers)(call)), self.peer(Call.ids)
        client = self.client_in_order([first.address, second.address], prefetch=0)
        client.next_id()
        client._engine.servers._servers[0].endpoints[0].backoff.end()
        client.next_ids(5)
        self.assertEqual((len(first.calls), len(second.calls)), (1, 2))

    def test_a_failover_is_logged_and_counted(self):
        first, second = self.peer(Call.ids, self.dead()), self.peer(Call.ids)
        client = self.client_in_order([first.address, second.address], prefetch=0)
        client.next_id()
        first.close()
        with self.assertLogs("snowflake_client", "WARNING") as logged:
            client.next_id()
        self.assertIn(f"failover from {first.address} to {second.address}: ", logged.output[0])
        stats = client.stats()
        self.assertEqual((stats.server, stats.failovers, stats.requests, stats.received),
                         (second.address, 1, 2, 2))
        self.assertGreaterEqual(stats.failures, 1)

    def test_all_are_dead(self):
        servers = [self.dead() for _ in range(3)]
        client = self.client(servers)
        for _ in range(3):  # also during their backoff
            error = self.failure_at_once(client.next_id)
            self.assertIsInstance(error, UnreachableError)
            self.assertCountEqual([attempt.server for attempt in error.attempts], servers)
            self.assertEqual({attempt.reason for attempt in error.attempts}, {"connection refused"})

    def test_clients_of_a_dead_server_spread(self):
        names = [f"127.0.0.{last}" for last in (1, 2, 3)]
        orders = {tuple(server.text for server in self.client(names)._engine.servers._servers)
                  for _ in range(300)}
        self.assertEqual(orders, set(itertools.permutations(names)))

    def test_the_backoff_doubles(self):
        with mock.patch("snowflake_client._servers.monotonic", lambda: 1000.0), \
                mock.patch("random.uniform", lambda low, high: high):
            backoff, pauses = _Backoff(), []
            for _ in range(5):
                backoff.begin()
                pauses.append(round(backoff.retry_at - 1000, 6))
        self.assertEqual(pauses, [0.125, 0.25, *[0.3125] * 3])

    def test_a_server_says_when_to_retry(self):
        with mock.patch("snowflake_client._servers.monotonic", lambda: 1000.0):
            for hint, pause in ((0.7, 0.7), (60, 2)):
                backoff = _Backoff()
                backoff.begin(hint)
                self.assertEqual(backoff.retry_at, 1000 + pause)

    def test_a_connection_that_ended_since_is_no_failure(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch=0)
        for connections in range(1, 4):
            self.assert_ids([client.next_id() for _ in range(3)], 3)
            self.assertEqual(peer.connections, connections)
            peer.break_connections()
        self.assertEqual(client.stats().failures, 0)

    def test_a_connection_that_ends_in_a_reply_is_one(self):
        answers = itertools.chain([Call.ids, lambda call: iter([call.ids()[:9]])])

        def answer(call):
            made = next(answers)(call)
            if isinstance(made, bytes):
                return made
            return self.half(made)

        peer = self.peer(answer)
        client = self.client(peer.address, prefetch=0)
        client.next_id()
        self.assertIsInstance(self.failure_at_once(client.next_id), UnreachableError)
        self.assertEqual(len(peer.calls), 2)

    @staticmethod
    def half(parts):
        yield from parts
        raise EOFError  # the connection ends


class SingleFlight(Case):
    def test_one_request_serves_all_that_wait(self):
        """Also where nothing is prefetched. Each receives its own IDs, in the order of coming."""
        go = threading.Event()
        self.addCleanup(go.set)
        peer = self.peer(lambda call: call.ids() if go.wait(LONG_S) else None)
        client = self.client(peer.address, prefetch=0)
        taken, threads = {}, []
        for number in range(8):
            threads.append(threading.Thread(
                target=lambda number=number: taken.update({number: client.next_ids(number + 1)})))
            threads[-1].start()
            self.wait_until(lambda: len(client._engine._waiters) == number + 1)
        go.set()
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual([call.count for call in peer.calls], [1, sum(range(2, 9))])
        self.assert_ids(sum((taken[number] for number in range(8)), []), 36)

    def test_a_waiter_goes_on_when_the_first_one_gives_up(self):
        hanging = threading.Event()
        peer = self.peer(lambda call: call.peer.hang() if not hanging.is_set() else call.ids())
        client = self.client(peer.address, prefetch=0)
        errors = []
        first = threading.Thread(
            target=lambda: errors.append(self.failure(client.next_id, SHORT_S)))
        first.start()
        self.wait_until(lambda: peer.calls or errors)
        hanging.set()
        self.assertGreater(client.next_id(), 0)
        first.join(LONG_S)
        self.assertIsInstance(errors[0], SnowflakeTimeoutError)


class Retries(Case):
    """A call goes on until its deadline."""

    def test_a_server_that_starts_again_is_found(self):
        address = self.dead()
        peer = self.peer(Call.ids, address)
        client = self.client(address, prefetch=0)
        client.next_id()
        peer.close()
        calls = []
        thread = threading.Thread(target=lambda: calls.append(client.next_id()))
        thread.start()
        self.wait_until(lambda: client.stats().failures)
        self.assertEqual(calls, [])
        self.peer(Call.ids, address)
        thread.join(LONG_S)
        self.assertGreater(calls[0], 0)

    def test_attempts_are_paced(self):
        """However many threads there are, and however short their timeouts: the time between two
        attempts at an endpoint is 75 ms at least, by the same clock."""
        tried = []
        client = self.client(self.dead(), prefetch=0, timeout=0.02)
        open_ = _SocketConnection.open

        async def note(connection, *arguments):
            tried.append(time.monotonic())
            await open_(connection, *arguments)

        with mock.patch.object(_SocketConnection, "open", note):
            threads = [threading.Thread(target=self.fail_often, args=(client,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
        self.assertGreater(len(tried), 0)
        for one, other in zip(tried, tried[1:]):
            self.assertGreaterEqual(other - one, 0.075)

    @staticmethod
    def fail_often(client):
        for _ in range(12):
            with contextlib.suppress(SnowflakeError):
                client.next_id()

    def test_an_attempt_at_the_deadline_does_not_hide_an_earlier_failure(self):
        """The first attempt fails, and the call ends within the second one: it had little time, or
        the first one was of the same call."""
        for times, deadlines in (((0.0, 0.9), (1.0, 1.0)), ((0.0, 0.2), (1.0, 1.0)),
                                 ((0.0, 0.9), (0.5, 1.0))):
            with self.subTest(times=times, deadlines=deadlines):
                self.assertIsInstance(self.error_of_two_attempts(times, deadlines),
                                      UnreachableError)
        self.assertIsInstance(self.error_of_two_attempts((0.0, 0.6), (0.5, 1.0)),
                              SnowflakeTimeoutError)

    @staticmethod
    def error_of_two_attempts(times, deadlines):
        """The first attempt is refused, the second lasts until its call ends."""
        failures = iter([Failure("unreachable", "refused"),
                         Failure("timeout", "no answer")])
        clock = mock.Mock(return_value=0.0)
        connection = mock.Mock(is_open=False)

        async def fail(*_):
            failure = next(failures)
            if failure.kind == "timeout":
                clock.return_value = 1.0
            raise failure

        connection.open = fail
        options = _options.check_options("127.0.0.1", "test", 1.0, 0, 1.0, None)
        pool = _servers.ServerPool(options, mock.Mock(connection=lambda *_: connection))
        with mock.patch.object(_servers, "monotonic", clock):
            for clock.return_value, deadline in zip(times, deadlines):
                with contextlib.suppress(StopIteration):
                    pool.fetch(1, deadline, deadline).send(None)
        assert next(failures, None) is None
        return pool.error(1.0)

    def test_a_name_that_resolves_later(self):
        """The failed lookup does not hide what happens at the endpoints."""
        options = _options.check_options("ids.example", "test", 1.0, 0, 1.0, None)
        pool = _servers.ServerPool(options, mock.Mock())
        server, = pool._servers
        pool._note_failure(server, "", Failure("timeout", "its name is not resolved in time"))
        self.assertIsInstance(pool.error(1.0), SnowflakeTimeoutError)
        found = mock.Mock(result=[(socket.AF_INET, 0, 0, "", ("127.0.0.1", 7609))])
        with mock.patch.object(_servers, "_Lookup", return_value=found), \
                contextlib.suppress(StopIteration):
            pool._resolve(server).send(None)
        endpoint, = server.endpoints
        pool._note_failure(server, str(endpoint.address), Failure("unreachable", "refused"))
        self.assertIsInstance(pool.error(1.0), UnreachableError)

    def test_the_error_at_the_deadline_is_that_of_the_servers(self):
        client = self.client(self.dead())
        self.failure_at_once(client.next_id)  # if the machine is slow, the next call has no time
        error = self.failure(client.next_id, SHORT_S)
        self.assertIsInstance(error, UnreachableError)
        self.assertIsInstance(error.__cause__, ConnectionRefusedError)
        self.assertIn("within 0.4 s", str(error))


class Deadlines(Case):
    """A call ends by its deadline, whatever servers do."""

    def test_a_server_that_hangs(self):
        for prefetch in (0.05, 0):
            peer = self.peer(lambda call: call.peer.hang())
            client = self.client(peer.address, timeout=SHORT_S, prefetch=prefetch)
            error = self.assert_in_time(client.next_id)
            self.assertEqual([attempt.server for attempt in error.attempts], [peer.address])
            self.assertLessEqual(len(peer.calls), 1)
            self.assertIn("no answer within 0.4 s", str(error))
            self.assertIsInstance(error.__cause__, TimeoutError)

    def test_the_timeout_of_a_call(self):
        peer = self.peer(lambda call: call.peer.hang())
        client = self.client(peer.address)
        self.assert_in_time(lambda: client.next_id(timeout=SHORT_S))
        self.assert_in_time(lambda: client.next_ids(3, timeout=SHORT_S))
        self.assertIsInstance(self.failure(client.next_id, 0), ValueError)

    def attempts(self, servers, timeout, round_trip=0.0):
        """The limits of the attempts at servers that hang, by a clock that goes on with them."""
        now, limits = [1000.0], []
        client = self.client_in_order(servers)
        pool = client._engine.servers
        pool.round_trip = round_trip

        async def hang(_server, _endpoint, _count):
            limit = pool._limit()
            limits.append(round(limit - now[0], 6))
            now[0] = limit
            return Failure("timeout", "no answer")

        pool._ask = hang
        with mock.patch("snowflake_client._servers.monotonic", lambda: now[0]), \
                self.short_attempts():
            while now[0] < 1000 + timeout:
                self.assertIsNone(_run(pool.fetch(1, self, 1000 + timeout)))
        return limits

    def test_an_attempt_has_its_own_timeout(self):
        one, other = "127.0.0.1", "127.0.0.2"
        self.assertEqual(self.attempts([one, other], 3), [0.25, 0.25, 0.5, 0.5, 1, 0.5])
        self.assertEqual(self.attempts([one, other], 3, 0.001)[:4], [0.1, 0.1, 0.2, 0.2])
        self.assertEqual(self.attempts([one, other], 9, 0.4)[:3], [0.8, 0.8, 1.6])
        self.assertEqual(self.attempts([one, other], 0.1), [0.05, 0.025, 0.025])
        self.assertEqual(self.attempts([one, other, "127.0.0.3"], 1)[:4], [0.25, 0.25, 0.25, 0.25])
        self.assertEqual(self.attempts([one], 3), [3])

    def test_one_that_hangs_is_left(self):
        hanging, good = self.peer(lambda call: call.peer.hang()), self.peer(Call.ids)
        client = self.client_in_order([hanging.address, good.address], prefetch=0)
        with self.short_attempts(at_server(hanging.address)):
            self.assert_ids([client.next_id() for _ in range(10)], 10)
        # the attempt can end before the call has arrived
        self.assertLessEqual(len(hanging.calls), 1)

    def test_a_refill_that_hangs_is_left(self):
        """Calls that find nothing meanwhile get IDs of the other server."""
        hangs = threading.Event()
        first = self.peer(lambda call: call.peer.hang() if hangs.is_set() else call.ids())
        second = self.peer(Call.ids)
        client = self.client_in_order([first.address, second.address])
        self.fill_buffer(client)
        self.wait_until(lambda: not client._engine._waiters)  # no refill is under way
        asked = len(first.calls)
        hangs.set()
        with self.short_attempts(at_server(first.address)):
            while not second.calls:
                client.next_id()
        self.assertLessEqual(len(first.calls), asked + 1)

    def test_a_late_reply_is_discarded(self):
        late = threading.Event()

        def answer(call):
            if late.is_set():
                return call.ids()
            late.wait(LONG_S)
            return call.ids(first=77)

        peer = self.peer(answer)
        client = self.client(peer.address, prefetch=0)
        self.assert_in_time(lambda: client.next_id(SHORT_S))
        late.set()
        self.assertNotIn(77, [client.next_id() for _ in range(10)])
        self.assertLessEqual(peer.connections, 2)

    def test_calls_that_wait_for_another(self):
        peer = self.peer(lambda call: call.peer.hang())
        client = self.client(peer.address, timeout=SHORT_S)
        errors = []
        threads = [threading.Thread(
            target=lambda: errors.append(self.assert_in_time(client.next_id))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual([error.attempts[0].server for error in errors], [peer.address] * 8)

    def test_a_crowd_that_waits_finds_a_far_server_when_it_is_back(self):
        """Calls come one by one, so that the first of those that wait has less time left than the
        way there and back takes."""
        is_back, is_found, threads = threading.Event(), threading.Event(), []
        client = self.client(self.far_peer(is_back).address, timeout=SHORT_S)

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
            error = self.assert_in_time(self.client(address, timeout=SHORT_S).next_id)
            self.assertIn("not connected", str(error))
            self.assert_close_ends_calls(self.client(address, timeout=LONG_S))

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
            error = self.failure_at_once(self.client(address).next_id)
        self.assertIsInstance(error, UnreachableError)
        self.assertIn("refused", str(error))

    def test_close_ends_calls(self):
        peer = self.peer(lambda call: call.peer.hang())
        for prefetch in (0.05, 0):
            self.assert_close_ends_calls(
                self.client(peer.address, prefetch=prefetch, timeout=LONG_S))


def _is_full(listener, stack):
    """Connects once more; whether that one has to wait."""
    sock = stack.enter_context(socket.socket())
    sock.settimeout(0.2)
    try:
        sock.connect(listener.getsockname())
    except TimeoutError:
        return True
    return False
