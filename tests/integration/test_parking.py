# SPDX-License-Identifier: Apache-2.0
"""Calls that must wait for the clock do not delay other clients of their loop."""
import contextlib
import json
import time

from harness import (EPOCH_MS, HANG_GUARD_S, LONG_WAIT_MS, PARKING, PER_TICK, ServerTest,
                     is_increasing, wait_for)
from held_thread import held_thread
from wire import EXCEPTION, FORMS, GET_ID, STRICT

TICK_S = 0.1
QUEUE = 500  # ticks: IDs for 50 seconds


class Parking(ServerTest):
    def start(self, *options, **settings):
        self.server = super().start(*PARKING, "--max-wait", 10000, *options, **settings)
        self.other = self.connect()
        return self.server

    def connect(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        return connection

    def settle(self):
        """Makes a call, after whose reply the loop has read all earlier bytes."""
        return self.other.call(STRICT, "get_timestamp").success

    def test_other_calls_go_on(self):
        self.start("--max-wait", LONG_WAIT_MS)
        waiting = self.connect()
        waiting.send(GET_ID * PER_TICK * QUEUE)
        for _ in range(20):
            self.settle()
            self.assertGreaterEqual(self.other.call(STRICT, "get_worker_id").success, 0)
            self.assertEqual(self.other.call(STRICT, "get_id", "1").kind, EXCEPTION)
        self.assertLess(self.server.counters()["ids_generated"], PER_TICK * QUEUE)
        self.assertTrue(is_increasing([waiting.reply(STRICT).success for _ in range(PER_TICK * 4)]))
        waiting.reset()

    def test_in_order_of_arrival(self):
        self.start()
        asked = [(self.connect(), PER_TICK if number % 3 else 1) for number in range(12)]
        for connection, _ in asked:
            connection.call(STRICT, "get_timestamp")
        self.settle()  # epoll may report the connection with the last reply first for a moment
        self.server.pause()  # so that all calls arrive within one tick
        for connection, count in asked:
            connection.send(STRICT.call("get_ids", "good", count))
        self.server.resume()
        answers = [connection.reply(STRICT).success for connection, _ in asked]
        self.assertEqual([len(answer) for answer in answers], [count for _, count in asked])
        singles = [answer[0] for answer in answers if len(answer) == 1]
        batches = [answer for answer in answers if len(answer) > 1]
        self.assertTrue(is_increasing(singles))
        self.assertTrue(is_increasing([number for batch in batches for number in batch]))
        # single calls get 16 IDs after the next batch, unless the current batch has just ended
        self.assertLess(singles[-1], batches[3][0])

    def test_a_small_call_does_not_overtake_a_batch(self):
        self.start()
        self.other.call(STRICT, "get_id", "good")
        batch, single = self.connect(), self.connect()
        batch.send(STRICT.call("get_ids", "good", PER_TICK) * 2)
        self.settle()
        single.send(GET_ID)
        first = batch.reply(STRICT).success
        self.assertGreater(single.reply(STRICT).success, first[-1])

    def test_replies_keep_their_order(self):
        self.start()
        for form in FORMS:
            with self.subTest(str(form)):
                connection = self.connect()
                calls = PER_TICK * 2
                connection.send((form.call("get_id", "good") + form.call("get_timestamp")) * calls)
                replies = [connection.reply(form) for _ in range(2 * calls)]
                self.assertTrue(is_increasing([reply.success for reply in replies[::2]]))

    def test_many_that_wait_longer_than_max_wait(self):
        """Forty connections want the IDs of 64 ticks; calls without an ID after 300 ms are
        refused."""
        self.start("--max-wait", 300)
        connections = [self.connect() for _ in range(40)]
        self.settle()
        self.server.pause()  # so that all calls arrive within one or two ticks
        for connection in connections:
            connection.send(STRICT.call("get_ids", "good", PER_TICK))
        self.server.resume()
        replies = [connection.reply(STRICT) for connection in connections]
        refused = [reply.value.worker for reply in replies if reply.value.success is None]
        served = [reply.value.success for reply in replies if reply.value.success is not None]
        self.assertGreaterEqual(len(served), 1)
        self.assertGreater(len(refused), 20)
        for exception in refused:
            self.assertGreater(exception.retry_after_ms, 0)
        numbers = [number for batch in served for number in batch]
        self.assertEqual(len(set(numbers)), len(numbers))

    def test_max_wait_0(self):
        self.start("--max-wait", 0)
        connection = self.connect()
        connection.send(GET_ID * PER_TICK * 10)
        replies = [connection.reply(STRICT) for _ in range(PER_TICK * 10)]
        refused = [reply for reply in replies if reply.kind == EXCEPTION]
        self.assertGreater(len(refused), PER_TICK)
        for reply in refused:
            self.assertEqual(reply.value.type, 6)
            self.assertRegex(reply.value.message, "^WorkerIdUnavailable: ")
        wait_for(lambda: connection.call(STRICT, "get_id", "a").kind != EXCEPTION)

    def test_clients_that_leave_while_they_wait(self):
        server = self.start()
        for number in range(150):  # fifteen seconds of IDs, more than --max-wait
            connection = self.connect()
            connection.send(STRICT.call("get_timestamp") * (number % 3)
                            + STRICT.call("get_ids", "good", PER_TICK))
            if number % 2:
                connection.reset()
            else:
                connection.close()
            self.settle()
        # after these calls it would be refused
        self.assertGreater(self.other.call(STRICT, "get_id", "good").success, 0)
        wait_for(lambda: server.open_connections() <= 2, what="the closes to be noticed")

    def test_a_client_that_is_reset_while_it_waits(self):
        server = self.start("--max-wait", LONG_WAIT_MS)
        connections = [self.connect() for _ in range(QUEUE)]
        for connection in connections:
            connection.send(STRICT.call("get_ids", "good", PER_TICK))
        self.settle()
        connections[-1].reset()
        # plus the connections of this test
        wait_for(lambda: server.open_connections() == QUEUE - 1 + 2, what="the reset to be noticed")
        self.assertLess(server.counters()["ids_generated"], PER_TICK * (QUEUE - 1))
        for connection in connections[:-1]:  # so that the stop does not wait for them
            connection.reset()

    def test_a_call_that_waits_is_counted_once(self):
        server = self.start()
        self.other.call(STRICT, "get_ids", "good", PER_TICK)
        connections = [self.connect() for _ in range(15)]
        for connection in connections:
            connection.send(STRICT.call("get_ids", "good", PER_TICK))
        for connection in connections:
            connection.reply(STRICT)
        self.assertLessEqual(server.counters()["waits"], 1 + 15)

    def test_a_batch_that_no_tick_can_hold(self):
        """The largest batch is what max-ahead allows: (0 + 1) * 16."""
        self.start()
        self.assertEqual(len(self.other.call(STRICT, "get_ids", "good", PER_TICK).success), 16)
        refused = self.other.call(STRICT, "get_ids", "good", PER_TICK + 1).value.count_error
        self.assertIn("16", refused.message)


class FullRate(ServerTest):
    """The default layout, 4096 IDs a millisecond. `bench/run --experiments batches` judges whether
    that rate is reached."""

    def test_no_id_comes_before_its_tick(self):
        """A million IDs take 244 ms, less what can be ahead of the clock."""
        server = self.start()
        with server.connect() as connection:
            began = time.monotonic()
            connection.send(STRICT.call("get_ids", "batch", 10000) * 100)
            numbers = connection.reply(STRICT).success
            for _ in range(98):
                self.assertGreater(len(connection.frame()), 8 * 10000)
            last = connection.reply(STRICT).success[-1]
            took = time.monotonic() - began
        self.assertGreater(took, 0.2)
        self.assertGreaterEqual((last >> 22) - (numbers[0] >> 22), 243)


class CostlyCalls(ServerTest):
    CLIENTS = 100
    MOST_BEFORE = 5

    def test_cheap_calls_go_before_them(self):
        """Replies to both kinds of calls contain the server's time, which shows their order."""
        server = self.start("--threads", 1)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(self.CLIENTS)]
            late = stack.enter_context(server.connect())
            for client in (late, *clients):
                client.call(STRICT, "get_timestamp")
            server.pause()  # so that all calls have arrived when it continues
            for client in clients:
                client.send(STRICT.call("get_ulids", "good", 1000))
            late.send(STRICT.call("get_timestamp"))
            server.resume()
            answered_ms = late.reply(STRICT).success
            firsts = [client.reply(STRICT).success[0] for client in clients]
        before = sum(int.from_bytes(ulid[:6], "big") < answered_ms for ulid in firsts)
        self.assertLess(before, self.MOST_BEFORE)


class AwayLoop(ServerTest):
    def test_it_looks_again_before_it_refuses(self):
        """A reservation begins and ends while a call waits and its loop is stopped. The call then
        gets --max-wait again. If the keeper or the test is too slow, the test tries again."""
        server = self.start("--threads", 1, "--max-wait", 500)
        record = self.state / "worker-0-0.json"

        def n_waits():
            return server.counters()["waits"]

        def reserved_until_ms():
            return EPOCH_MS + json.loads(record.read_text())["reserved_until_tick"]

        def is_over():
            return time.time() * 1000 > reserved_until_ms() + 100  # the last tick is also over

        def reply_after_absence(connection):
            wait_for(is_over, "the end of the reservation")
            with contextlib.ExitStack() as held:
                with held_thread(server.pid, "keeper"):
                    last_ms, waits = reserved_until_ms(), n_waits()
                    connection.send(GET_ID)
                    wait_for(lambda: n_waits() > waits, "a call that waits")
                    held.enter_context(held_thread(server.pid, "loop"))
                wait_for(lambda: reserved_until_ms() > last_ms, "a reservation")
                wait_for(is_over, "its end")
            return connection.reply(STRICT)

        guard = time.monotonic() + HANG_GUARD_S
        with server.connect() as connection:
            while reply_after_absence(connection).kind == EXCEPTION:
                self.assertLess(time.monotonic(), guard, "the call is refused each time")
