# SPDX-License-Identifier: Apache-2.0
"""What each call returns, and how it refuses."""
import re
import time
import uuid

from harness import ELSEWHERE, Parts, SharedServerTest, scaled
from wire import COMPACT, EXCEPTION, REPLY, STRICT

MAX_BATCH = 10000
VALID_AGENTS = ("a", "Z", "infra-dm", "a-", "a--", "a1", "A0-Z", "foo-bar", "a" * 256)
# The bytes replace PLACEHOLDER in the message, because not all of them are text.
INVALID_AGENTS = (b"", b"1", b"1asdf", b"-a", b"a_b", b"a b", b" a", b"a ", b"a.b", b"a\n", b"\na",
                  b"a\n\n", b"a/b", b"a:b", b"a\0", b"\0", b"foo\0", b"foo\0bar", b"\xff",
                  b"foo\xff", b"\xc3\xa4", b"a\xc3\xa4", b"\xe2\x82", b"a" * 257, b"a" * 5000)


def with_agent(form, method, agent, *arguments):
    """Makes a call whose useragent consists of any bytes."""
    placeholder = "Q" * len(agent)
    message = form.message(method, placeholder, *arguments)
    return form.call_of(message.replace(placeholder.encode(), agent) if agent else message)


class Calls(SharedServerTest):
    options = ("--datacenter-id", 21, "--worker-id", 10)

    def setUp(self):
        self.connection = self.connect()

    def call(self, method, *arguments):
        return self.connection.call(STRICT, method, *arguments)

    def assert_error(self, reply, name):
        """Checks a refusal of a legacy call."""
        self.assertEqual(reply.kind, EXCEPTION, reply)
        self.assertEqual(reply.value.type, 6, reply.value)
        self.assertRegex(reply.value.message, f"^{name}: [ -~]+$")

    def test_worker_and_datacenter_id(self):
        worker_id = self.call("get_worker_id").success
        datacenter_id = self.call("get_datacenter_id").success
        if not ELSEWHERE:
            self.assertEqual((datacenter_id, worker_id), (21, 10))
        for _ in range(1000):
            parts = Parts.of(self.call("get_id", "infra-dm").success)
            self.assertEqual((parts.datacenter_id, parts.worker_id), (datacenter_id, worker_id))

    def test_the_timestamp_is_the_time(self):
        self.call("get_timestamp")
        for _ in range(20):
            before = time.time() * 1000
            timestamp = self.call("get_timestamp").success
            after = time.time() * 1000
            self.assertTrue(before - 50 <= timestamp <= after + 50, (before, timestamp, after))

    def test_an_id_is_of_its_time(self):
        for _ in range(20):
            before = time.time() * 1000
            number = self.call("get_id", "a").success
            after = time.time() * 1000
            self.assertTrue(before - 50 <= Parts.of(number).time_ms <= after + 50)

    def test_ids_increase(self):
        numbers = [self.call("get_id", "a").success for _ in range(scaled(5000, 500))]
        numbers += self.call("get_ids", "a", 1000).success
        numbers += [self.call("get_id", "a").success]
        self.assertTrue(all(0 < a < b for a, b in zip(numbers, numbers[1:])))

    def test_valid_useragents(self):
        for agent in VALID_AGENTS:
            with self.subTest(agent):
                self.assertGreater(self.call("get_id", agent).success, 0)
                self.assertEqual(len(self.call("get_ids", agent, 1).success), 1)

    def test_invalid_useragents(self):
        for form in (STRICT, COMPACT):
            for agent in INVALID_AGENTS:
                with (self.subTest(form=str(form), agent=agent[:40], length=len(agent)),
                      self.server.connect() as connection):
                    connection.send(with_agent(form, "get_id", agent))
                    self.assert_error(connection.reply(form), "InvalidUserAgentError")
                    connection.send(with_agent(form, "get_ids", agent, 1))
                    reply = connection.reply(form)
                    self.assertEqual(reply.kind, REPLY, reply)
                    self.assertRegex(reply.value.agent.message, "^[ -~]+$")
                    self.assertIsNone(reply.value.success)

    def test_a_missing_useragent_is_invalid(self):
        self.assert_error(self.call("get_id", None), "InvalidUserAgentError")
        self.assertIsNotNone(self.call("get_ids", None, 1).value.agent)

    def test_the_useragent_comes_back_cut_and_escaped(self):
        self.connection.send(with_agent(STRICT, "get_id", b"\0\x1b[31m\xff" + b"x" * 3000))
        message = self.connection.reply(STRICT).value.message
        self.assertLess(len(message), 500)
        self.assertIn(r"\x1b", message)

    def test_unknown_methods(self):
        for method in ("nope", "get_id2", "get_i", "GET_ID", "get_ids2", "scribe", "x" * 64):
            with self.subTest(method):
                reply = self.call(method)
                self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 1))
                self.assertEqual(reply.value.message, f"Invalid method name: '{method}'")
        for method in ("a\x01\n\x7f", "\u00e9'\\"):  # the reply has the same name
            reply = self.call(method)
            self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 1))
            self.assertTrue(reply.value.message.isprintable())
        message = STRICT.message("x" * 60000, seqid=7)
        self.connection.send(STRICT.wrap(message), awaits=[("x" * 64 + "...", 7)])
        reply = self.connection.reply(STRICT)
        self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 1))
        self.assertLess(len(reply.value.message), 200)
        self.assertGreater(self.call("get_id", "a").success, 0)

    def test_batches_are_runs_of_the_cursor(self):
        for count in (1, 2, 3, 100, 4095, 4096, 4097, MAX_BATCH):
            with self.subTest(count):
                numbers = self.call("get_ids", "a", count).success
                self.assertEqual(len(numbers), count)
                cursors = [number >> 22 << 12 | number & 4095 for number in numbers]
                self.assertEqual(cursors, list(range(cursors[0], cursors[0] + count)))
                self.assertEqual(len({number >> 12 & 1023 for number in numbers}), 1)

    def test_counts_out_of_range(self):
        for count in (0, -1, -5, MAX_BATCH + 1, 2**31 - 1, -2**31):
            with self.subTest(count):
                reply = self.call("get_ids", "a", count)
                self.assertEqual(reply.kind, REPLY, reply)
                self.assertIsNone(reply.value.success)
                self.assertIn(str(count), reply.value.count_error.message)
                self.assertIn(str(MAX_BATCH), reply.value.count_error.message)
        self.assertIsNotNone(self.call("get_ids", "a", None).value.count_error)

    def test_the_worker_describes_itself(self):
        self.call("get_id", "a")
        worker = self.call("get_worker").success
        self.assertEqual(worker.datacenter_id, self.call("get_datacenter_id").success)
        self.assertEqual(worker.worker_id, self.call("get_worker_id").success)
        self.assertRegex(worker.address, r".+:\d+$")
        self.assertEqual(str(uuid.UUID(worker.nonce)), worker.nonce)
        self.assertEqual(worker.state, "serving")
        now = self.call("get_timestamp").success
        self.assertTrue(0 < worker.claimed_at_ms <= now)
        self.assertGreater(worker.reserved_until_ms, worker.claimed_at_ms)

    def test_a_server_without_others_lists_itself(self):
        if ELSEWHERE:
            self.skipTest("it may have others")
        self.call("get_id", "a")
        workers = self.call("get_workers").success
        self.assertEqual(len(workers), 1)
        worker = self.call("get_worker").success
        for field in ("datacenter_id", "worker_id", "address", "nonce", "claimed_at_ms", "state"):
            self.assertEqual(getattr(workers[0], field), getattr(worker, field))
        self.assertLessEqual(workers[0].reserved_until_ms, worker.reserved_until_ms)

    def test_counters(self):
        if ELSEWHERE:
            self.skipTest("others may be counted too")
        before = self.call("get_counters").success
        self.call("get_id", "a")
        self.call("get_ids", "a", 100)
        self.call("get_id", "1")
        self.call("get_ids", "a", 0)
        after = self.call("get_counters").success
        self.assertEqual(after["ids_generated"] - before["ids_generated"], 101)
        self.assertEqual(after["exceptions"] - before["exceptions"], 2)
        self.assertTrue(all(re.fullmatch("[a-z0-9_]+", name) for name in before), before)
        # the original service's values that are not counts, and those of an audit log
        self.assertEqual({name: after.get(name) for name in (
            "datacenter_id", "worker_id", "scribe_enqueue_failures", "reporter_flush_queue")},
            {"datacenter_id": self.call("get_datacenter_id").success,
             "worker_id": self.call("get_worker_id").success,
             "scribe_enqueue_failures": 0, "reporter_flush_queue": 0})

    def test_counters_of_agents(self):
        """The first 256 agents are counted separately, for all calls; all others together."""
        if ELSEWHERE:
            self.skipTest("others may be counted too")
        def count(agent):
            return self.call("get_counters").success.get(f"ids_generated_{agent}", 0)
        for agent, ids in (("foo-bar", 3), ("Foo-Bar", 2)):
            before = count(agent)
            self.call("get_id", agent)
            self.call("get_ids", agent, ids - 1)
            self.assertEqual(count(agent) - before, ids)
        before = count("other_agents")
        for number in range(300):
            self.call("get_id", f"agent-{number}")
        after = self.call("get_counters").success
        told = [name for name in after if name.startswith("ids_generated_")]
        self.assertEqual(len(told), 257)
        self.assertGreater(count("other_agents"), before + 300 - 256)
        self.assertEqual(sum(after[name] for name in told), after["ids_generated"])


class CallsOnTheGeneralPath(Calls):
    """The same tests without the fast path."""
    options = (*Calls.options, "--no-fast-path")
