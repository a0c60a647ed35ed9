# SPDX-License-Identifier: Apache-2.0
"""Official clients, with both contracts and every form that each supports: IDs, other results and
errors arrive as the server sent them."""
import contextlib

import client_table
import official
from harness import (ELSEWHERE, Parts, ServerTest, SharedServerTest, dead_address, reserve_ahead,
                     scaled)

DATACENTER_ID, WORKER_ID = 7, 19
BATCH = 10000
FOR_EVER_MS = 3600000
# a layout of another time, so that no clock is within its range
FAR_LAYOUT = ("epoch_ms=4102444800000,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"
              "sequence_bits=12")
EVERY = official.LATER + official.OF_2010


def runs_of(lines):
    """Returns the IDs in the output of get_id_runs."""
    for run in map(fields_of, lines):
        yield from range(int(run["first"]), int(run["first"]) + int(run["count"]))


def fields_of(line):
    return dict(field.split("=", 1) for field in line.split(" "))


def counters_of(lines):
    return {name: int(number) for name, number in (line.split(" ") for line in lines)}


class ClientTest:
    def over_every_form(self, clients, address, check):
        """Calls check(client, session) with a connection in each form. One process makes all of
        them."""
        for client in clients:
            with client.session() as session:
                for form in client.forms:
                    with self.subTest(client=client.name, form=str(form)):
                        session.open(address, form)
                        check(client, session)

    def assert_error(self, session, words, *call):
        with self.assertRaises(official.ClientError) as caught:
            session.call(*call)
        self.assertEqual(caught.exception.lines, [])
        self.assertRegex(str(caught.exception), words)

    def assert_typed(self, session, name, *call):
        """Checks for an exception of the contract. C's class has a prefix before its name."""
        self.assert_error(session, f"^(Sf)?{name}(Type 0)?: .*\\w", *call)


class Clients(ClientTest, SharedServerTest):
    options = ("--datacenter-id", DATACENTER_ID, "--worker-id", WORKER_ID)

    def assert_ids(self, numbers, count):
        self.assertEqual(len(numbers), count)
        self.assertTrue(all(0 < a < b for a, b in zip(numbers, numbers[1:])), "not increasing")
        if not ELSEWHERE:
            self.assertEqual({(parts.datacenter_id, parts.worker_id)
                              for parts in map(Parts.of, numbers)}, {(DATACENTER_ID, WORKER_ID)})

    def test_a_hundred_thousand_ids_over_each_form(self):
        client = official.PYTHON[official.IDL_LATER]
        forms = [form for form in client.forms if "accelerated" not in form.protocol]
        count = scaled(100_000, 1000)
        numbers = []
        for at in (0, 3):
            with contextlib.ExitStack() as stack:
                sessions = [stack.enter_context(client.session(self.server.address, form))
                            for form in forms[at:at + 3]]
                for session in sessions:
                    session.send("get_id", "a", count)
                for form, session in zip(forms[at:], sessions):
                    with self.subTest(str(form)):
                        got = [int(line) for line in session.answer()]
                        self.assert_ids(got, count)
                        numbers += got
        self.assertEqual(len(set(numbers)), 6 * count)

    def test_the_calls_of_2010(self):
        def check(_, session):
            self.assert_ids(session.numbers("get_id", "infra-dm", 100), 100)
            if not ELSEWHERE:
                self.assertEqual(session.numbers("get_worker_id"), [WORKER_ID])
                self.assertEqual(session.numbers("get_datacenter_id"), [DATACENTER_ID])
            before = self.server.call("get_timestamp")
            self.assertTrue(before <= session.numbers("get_timestamp")[0]
                            <= self.server.call("get_timestamp"))
            self.assert_error(session, "InvalidUserAgentError: ", "get_id", "1bad", 1)
            self.assert_ids(session.numbers("get_id", "infra-dm", 1), 1)
        self.over_every_form(EVERY, self.server.address, check)

    def test_the_calls_since(self):
        def check(_, session):
            self.assert_ids(session.numbers("get_ids", "infra-dm", BATCH), BATCH)
            self.assert_ids(list(runs_of(session.call("get_id_runs", "infra-dm", BATCH))), BATCH)
            for method in ("get_ulids", "get_uuids"):
                wide = session.call(method, "infra-dm", 100)
                self.assertEqual(sorted(set(wide)), wide)
                self.assertEqual({len(bytes.fromhex(each)) for each in wide}, {16})
                self.assertEqual(len(wide), 100)
            self.assert_describes(session)
        self.over_every_form(official.LATER, self.server.address, check)

    def assert_describes(self, session):
        before = self.server.call("get_worker")
        worker, = session.call("get_worker")
        worker, after = fields_of(worker), self.server.call("get_worker")
        self.assertEqual(worker.keys(), {name for name, value in vars(before).items()
                                         if value is not None})
        for name, text in worker.items():
            low, high = getattr(before, name), getattr(after, name)
            if isinstance(low, int):
                self.assertTrue(low <= int(text) <= high, name)
            else:
                self.assertEqual(text, low, name)
        listed = [fields_of(line) for line in session.call("get_workers")]
        self.assertIn(worker["nonce"], [each["nonce"] for each in listed])
        self.assertEqual(set(worker), set(listed[0]))
        before = self.server.counters()
        counters, after = counters_of(session.call("get_counters")), self.server.counters()
        self.assertEqual(counters.keys(), before.keys())
        for name in ("ids_generated", "exceptions", "answered_get_worker"):
            self.assertTrue(before[name] <= counters[name] <= after[name], name)

    def test_errors(self):
        def check(_, session):
            self.assert_typed(session, "InvalidUserAgentError", "get_ids", "1bad", 1)
            for method in ("get_ids", "get_id_runs", "get_ulids", "get_uuids"):
                self.assert_typed(session, "InvalidCount", method, "good", 0)
            self.assert_error(session, "(?i)application.*Invalid method name: 'get_later'",
                              "get_later")
            self.assert_ids(session.numbers("get_ids", "good", 3), 3)
        self.over_every_form(official.LATER, self.server.address, check)


class ClientsOfServersThatRefuse(ClientTest, ServerTest):
    def test_without_a_worker_id(self):
        """The worker ID is reserved by another owner for the next hour. Without a reservation,
        clients get no ID, and above all not 0."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        server.wait_event("worker-waiting")

        def check(client, session):
            self.assert_error(session, "WorkerIdUnavailable: ", "get_id", "good", 1)
            if client in official.LATER:
                self.assert_typed(session, "WorkerIdUnavailable", "get_ids", "good", 1)
        self.over_every_form(EVERY, server.address, check)

    def test_with_a_clock_out_of_range(self):
        server = self.start("--layout", FAR_LAYOUT, ready=False)
        server.wait_event("listening")

        def check(client, session):
            self.assert_error(session, "InvalidSystemClock: ", "get_id", "good", 1)
            if client in official.LATER:
                self.assert_typed(session, "InvalidSystemClock", "get_ids", "good", 1)
        self.over_every_form(EVERY, server.address, check)

    def test_with_another_layout_and_no_registry(self):
        server = self.launch("--zookeeper", dead_address(self), "--datacenter-id", 0,
                             "--layout", "js-safe", "--connect-timeout", FOR_EVER_MS)
        server.wait_event("listening")

        def check(_, session):
            self.assert_typed(session, "UnsupportedLayout", "get_uuids", "good", 1)
            self.assert_typed(session, "RegistryUnavailable", "get_workers")
        self.over_every_form(official.LATER, server.address, check)


class Table(ServerTest):
    def test_the_document_says_what_is_seen(self):
        self.maxDiff = None
        self.assertEqual(client_table.document(), client_table.DOCUMENT.read_text(),
                         "client_table.py --write writes it again")
