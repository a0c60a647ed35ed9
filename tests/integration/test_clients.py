# SPDX-License-Identifier: Apache-2.0
"""Official clients, over every form that each speaks: IDs arrive as IDs, and errors as errors."""
import official
from harness import ELSEWHERE, Parts, ServerTest, SharedServerTest, reserve_ahead, scaled

DATACENTER_ID, WORKER_ID = 7, 19


class Clients(SharedServerTest):
    options = ("--datacenter-id", DATACENTER_ID, "--worker-id", WORKER_ID)

    def over_every_form(self, clients, check):
        for client in clients:
            for form in client.forms:
                with self.subTest(client=client.name, form=str(form)):
                    check(client, form)

    def assert_ids(self, numbers, count):
        self.assertEqual(len(numbers), count)
        self.assertTrue(all(0 < a < b for a, b in zip(numbers, numbers[1:])), "not increasing")
        if not ELSEWHERE:
            self.assertEqual({(parts.datacenter_id, parts.worker_id)
                              for parts in map(Parts.of, numbers)}, {(DATACENTER_ID, WORKER_ID)})

    def test_a_hundred_thousand_ids_over_each_form(self):
        """By Python, one call an ID; three forms at a time, and no ID twice among any of them."""
        count = scaled(100_000, 1000)
        numbers = []
        for at in (0, 3):
            forms = official.PYTHON.forms[at:at + 3]
            running = [official.PYTHON.start(self.server.address, form, "get_id", "a", count)
                       for form in forms]
            for form, process in zip(forms, running):
                with self.subTest(str(form)):
                    got = official.finish(process)
                    self.assert_ids(got, count)
                    numbers += got
        self.assertEqual(len(set(numbers)), 6 * count)

    def test_ids(self):
        def check(client, form):
            numbers = client.call(self.server.address, form, "get_id", "infra-dm", 1000)
            self.assert_ids(numbers, 1000)
        self.over_every_form(official.CURRENT + official.OF_2010, check)

    def test_batches(self):
        def check(client, form):
            numbers = client.call(self.server.address, form, "get_ids", "infra-dm", 10000)
            self.assert_ids(numbers, 10000)
        self.over_every_form(official.CURRENT, check)

    def test_runs(self):
        def check(client, form):
            numbers = client.call(self.server.address, form, "get_id_runs", "infra-dm", 10000)
            self.assert_ids(numbers, 10000)
        self.over_every_form(official.CURRENT, check)

    def test_info(self):
        before = self.server.call("get_timestamp")

        def check(client, form):
            worker_id, datacenter_id, timestamp = client.call(self.server.address, form, "info")
            if not ELSEWHERE:
                self.assertEqual((worker_id, datacenter_id), (WORKER_ID, DATACENTER_ID))
            self.assertTrue(before <= timestamp <= self.server.call("get_timestamp"))
        self.over_every_form(official.CURRENT + official.OF_2010, check)

    def assert_error(self, client, form, words, *call):
        with self.assertRaises(official.ClientError) as caught:
            client.call(self.server.address, form, *call)
        self.assertEqual(caught.exception.numbers, [])
        self.assertIn(words, str(caught.exception))

    def test_a_bad_useragent_is_an_error(self):
        def check(client, form):
            self.assert_error(client, form, "InvalidUserAgentError: ", "get_id", "1bad", 1)
        self.over_every_form(official.CURRENT + official.OF_2010, check)

    def test_typed_errors(self):
        def check(client, form):
            self.assert_error(client, form, "InvalidUserAgentError", "get_ids", "1bad", 1)
            self.assert_error(client, form, "InvalidCount", "get_ids", "good", 0)
            self.assert_error(client, form, "InvalidCount", "get_id_runs", "good", 0)
        self.over_every_form(official.CURRENT, check)


class ClientsOfAServerWithoutAWorkerId(ServerTest):
    def test_it_is_an_error(self):
        """The worker ID is reserved for the next hour: no reservation, no ID; above all not 0."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        server.wait_event("worker-waiting")
        for client in official.CURRENT + official.OF_2010:
            for form in client.forms:
                with self.subTest(client=client.name, form=str(form)):
                    with self.assertRaises(official.ClientError) as caught:
                        client.call(server.address, form, "get_id", "good", 1)
                    self.assertEqual(caught.exception.numbers, [])
                    self.assertIn("WorkerIdUnavailable: ", str(caught.exception))
        for client in official.CURRENT:
            with self.subTest(client=client.name, typed=True):
                with self.assertRaisesRegex(official.ClientError, "WorkerIdUnavailable"):
                    client.call(server.address, client.forms[0], "get_ids", "good", 1)
