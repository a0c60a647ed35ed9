# SPDX-License-Identifier: Apache-2.0
"""A relay, whose servers start, stop, hang and send wrong replies."""
import concurrent.futures
import datetime
import functools
import pathlib
import re
import signal
import subprocess
import threading
import time

import audit
from admin import LISTEN as ADMIN, Admin
from fake_servers import Extended, Told, hanging, serve
from harness import (LONG_WAIT_MS, SNOWFLAKECTL, Parts, ServerTest, dead_address, own_address,
                     run_together, scaled, wait_for)
from python_client import PythonClient
from wire import FORMS, REPLY, STRICT, numbers_of

MAX_BATCH = 10000
DATACENTER = 5
ROUNDS = scaled(10, 2)
SLOW_MS = 100
FAR_MS = 5000
SLACK_MS = 200  # error of a relay's estimate of a server's clock
TOO_FAR_MS = 86400000


def text_of(address):
    return address if isinstance(address, str) else "%s:%d" % address


def worker_of(number):
    return Parts.of(number).worker_id


class RelayTest(ServerTest):
    def start_server(self, worker_id, *options):
        """Starts a server of the fleet, which must answer its pending calls when it stops."""
        return self.launch("--state-directory", self.directory / f"state-{worker_id}",
                           "--datacenter-id", DATACENTER, "--worker-id", worker_id,
                           "--max-wait", LONG_WAIT_MS, *options, listen=own_address(self))

    def start_fleet(self, size=2, *options):
        return [self.start_server(worker_id, *options).wait_ready()
                for worker_id in range(1, size + 1)]

    def start_relay(self, servers, *options, ready=True, **settings):
        addresses = ",".join(text_of(getattr(server, "address", server)) for server in servers)
        relay = self.launch("--relay", addresses, "--max-wait", LONG_WAIT_MS, *options, **settings)
        return relay.wait_ready() if ready else relay

    def start_again(self, server):
        return self.launch(*server.command[3:], listen=server.name)

    def assert_refused(self, reply, words):
        self.assertNotEqual(reply.kind, REPLY, reply)
        self.assertIn(words, reply.value.message)


class Promises(RelayTest):
    def test_who_it_is(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server])
        own, said = relay.call("get_worker"), server.call("get_worker")
        self.assertEqual((own.kind, own.server), ("relay", server.name))
        self.assertEqual((own.datacenter_id, own.worker_id), (DATACENTER, 1))
        self.assertEqual((own.state, own.address), ("serving", relay.name))
        self.assertEqual((own.claimed_at_ms, own.reserved_until_ms), (0, 0))
        self.assertNotEqual(own.nonce, said.nonce)
        self.assertIsNone(said.server)
        self.assertEqual(relay.call("get_worker_id"), 1)
        self.assertEqual(relay.call("get_datacenter_id"), DATACENTER)

    def test_whose_the_last_id_was(self):
        one, other = self.start_fleet()
        relay = self.start_relay([one, other])
        for _ in range(scaled(30, 3)):
            number = relay.call("get_id", "a")
            self.assertEqual(relay.call("get_worker_id"), worker_of(number))
            number = relay.call("get_ids", "a", 3)[-1]
            self.assertEqual(relay.call("get_worker_id"), worker_of(number))
        asked = relay.call("get_worker").server
        last = worker_of(relay.call("get_id", "a"))
        (one if one.name == asked else other).kill()
        wait_for(lambda: relay.call("get_worker").server != asked, what="another server")
        self.assertEqual(relay.call("get_worker_id"), last)

    def test_every_call_in_every_form(self):
        relay = self.start_relay(self.start_fleet())
        numbers = []
        for form in FORMS:
            with self.subTest(str(form)), relay.connect() as connection:
                numbers.append(connection.call(form, "get_id", "a").success)
                for count in (1, 2, 4096, 4097, MAX_BATCH):
                    ids = connection.call(form, "get_ids", "a", count).success
                    runs = connection.call(form, "get_id_runs", "a", count).success
                    for batch in (ids, numbers_of(runs)):
                        self.assertEqual((len(batch), sorted(set(batch))), (count, batch))
                        self.assertEqual(len({worker_of(number) for number in batch}), 1)
                        numbers += batch
                    for run in runs:
                        self.assertEqual(Parts.of(run.first).time_ms,
                                         Parts.of(run.first + run.count - 1).time_ms)
                for method in ("get_uuids", "get_ulids"):
                    for count in (1, 100):
                        wide = connection.call(form, method, "a", count).success
                        self.assertEqual((len(wide), sorted(set(wide))), (count, wide))
        self.assertEqual(len(set(numbers)), len(numbers))

    def test_ids_are_of_the_present(self):
        relay = self.start_relay(self.start_fleet())
        for count in (None, 3):
            began_ms = time.time() * 1000
            number = relay.call("get_ids", "a", count)[0] if count else relay.call("get_id", "a")
            self.assertGreaterEqual(Parts.of(number).time_ms, began_ms - 1000 - 1)

    def test_the_clock_is_the_servers(self):
        """The relay's clock follows its server's, even if that is set while no call is made."""
        server = Told()
        relay = self.start_relay([server.address])

        def agrees(now_ms):
            before = now_ms()
            return before - SLACK_MS < relay.call("get_timestamp") < now_ms() + SLACK_MS
        for server.ahead_ms in (0, -FAR_MS, FAR_MS):
            wait_for(lambda: agrees(server.now_ms), f"a clock that is {server.ahead_ms} ms ahead")
        for server.ahead_ms in (TOO_FAR_MS, -TOO_FAR_MS, 10**14, -10**14):
            asked = server.asked
            wait_for(lambda: server.asked > asked + 1, what="an answer")
            wait_for(lambda: agrees(lambda: time.time() * 1000), what="its own clock")

    def test_agents_are_the_relays_to_check(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server], "--relay-agent", "the-relay")
        with relay.connect() as connection:
            for agent in ("", "1a", "a b", "a" * 257, None):
                self.assert_refused(connection.call(STRICT, "get_id", agent),
                                    "InvalidUserAgentError")
                for method in ("get_ids", "get_id_runs"):
                    reply = connection.call(STRICT, method, agent, 2)
                    self.assertIsNotNone(reply.value.agent)
            connection.call(STRICT, "get_ids", "caller", 7)
            connection.call(STRICT, "get_id", "caller")
        self.assertEqual(relay.counters()["ids_generated_caller"], 8)
        counters = server.counters()
        self.assertNotIn("ids_generated_caller", counters)
        self.assertEqual(counters["ids_generated_the-relay"], counters["ids_generated"])

    def test_the_audit_log_names_the_caller(self):
        path = self.directory / "audit"
        relay = self.start_relay(self.start_fleet(1), "--audit-log", f"file:{path}")
        with relay.connect() as connection:
            numbers = [connection.call(STRICT, "get_id", "one").success]
            numbers += connection.call(STRICT, "get_ids", "many", MAX_BATCH).success
        self.assertEqual(relay.terminate(), 0)
        entries = audit.read(path)
        self.assertEqual([entry.id for entry in entries], numbers)
        self.assertEqual([entry.agent for entry in entries], ["one"] + ["many"] * MAX_BATCH)

    def test_who_there_is(self):
        servers = self.start_fleet()
        relay = self.start_relay(servers)
        listed = relay.call("get_workers")
        self.assertEqual(listed[0].kind, "relay")
        # each of them only knows itself
        self.assertEqual(len(listed), 2)
        asked = next(server for server in servers
                     if server.name == listed[1].address)
        self.assertEqual(listed[1].nonce, asked.call("get_worker").nonce)

    def test_a_relay_of_a_relay(self):
        server, = self.start_fleet(1)
        outer = self.start_relay([self.start_relay([server])], *ADMIN)
        numbers = []
        for count in (MAX_BATCH, 2) * scaled(10, 2):
            numbers += outer.call("get_ids", "a", count)
            numbers += [outer.call("get_id", "a") for _ in range(5)]
        self.assertEqual(len(set(numbers)), len(numbers))
        self.assertEqual({worker_of(number) for number in numbers}, {1})
        # prefetched IDs of the inner relay are older than its batches, which must not cause a
        # failover
        self.assertEqual(Admin(outer).json("/status.json")["relay"]["failovers"], 0)

    def test_many_clients_get_no_id_twice(self):
        servers = self.start_fleet()
        relay = self.start_relay(servers, "--threads", 3)
        lists = [[] for _ in range(8)]

        def draw(numbers, seed):
            with relay.connect() as connection:
                for i in range(scaled(400, 40)):
                    if (i + seed) % 3:
                        numbers.append(connection.call(STRICT, "get_id", "a").success)
                    else:
                        numbers += connection.call(STRICT, "get_ids", "a", 1 + i * 7).success
        run_together(*(functools.partial(draw, numbers, seed)
                       for seed, numbers in enumerate(lists)))
        numbers = sum(lists, [])
        self.assertGreater(len(numbers), 8 * scaled(400, 40))
        self.assertEqual(len(set(numbers)), len(numbers))


class Fleets(RelayTest):
    def test_one_that_allows_less_at_once(self):
        relay = self.start_relay(self.start_fleet(1, "--max-batch", 4000))
        with relay.connect() as connection:
            reply = connection.call(STRICT, "get_ids", "a", 5000)
            self.assertEqual(reply.value.count_error.message,
                             "count 5000 is out of range, 1 to 4000")
            self.assertEqual(len(connection.call(STRICT, "get_ids", "a", 4000).success), 4000)
            self.assertGreater(connection.call(STRICT, "get_id", "a").success, 0)

    def test_many_lists_at_once(self):
        """Each loop has its own copy of the list."""
        relay = self.start_relay(self.start_fleet(1), "--threads", 2)

        def ask():
            with relay.connect() as connection:
                for _ in range(100):
                    listed = connection.call(STRICT, "get_workers").success
                    self.assertEqual([worker.kind for worker in listed], ["relay", "server"])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for asked in [pool.submit(ask) for _ in range(8)]:
                asked.result()

    def test_one_that_is_slow(self):
        handler, calls = Extended(), []

        def get_ids(useragent, count):
            calls.append(count)
            time.sleep(3 * SLOW_MS / 1000)  # lint: allow sleep: the server must be slow
            return Extended.get_ids(handler, useragent, count)
        handler.get_ids = get_ids
        relay = self.start_relay([serve(handler, lacks=("get_id_runs",))], "--relay-max-age",
                                 SLOW_MS, "--relay-prefetch", SLOW_MS // 2)
        self.assertEqual(len(relay.call("get_ids", "a", 9)), 9)
        self.assertEqual(calls.count(9), 1)

    def test_another_layout(self):
        server, = self.start_fleet(1, "--datacenter-id", 0, "--layout", "machine-10")
        relay = self.start_relay([server], "--layout", "js-safe")
        with relay.connect() as connection:
            reply = connection.call(STRICT, "get_ids", "a", MAX_BATCH)
            self.assertEqual(reply.value.count_error.message,
                             f"count {MAX_BATCH} is out of range, 1 to 1")
            number = connection.call(STRICT, "get_id", "a").success
        relay.wait_event("relay-layout-differs")
        self.assertEqual(number >> 12 & 31, 1)

    def test_it_starts_before_its_fleet(self):
        server, = self.start_fleet(1)
        server.kill()
        relay = self.start_relay([server], *ADMIN, "--max-wait", 100, ready=False)
        wait_for(lambda: relay.find("listening"), what="a port")
        why = f"{server.name}: cannot connect: Connection refused"
        relay.wait_event("relay-no-server", error=why)
        wait_for(lambda: why in Admin(relay).ask("/readyz").text, what="the reason")
        self.assertEqual(Admin(relay).ask("/readyz").status, 503)
        self.assertEqual(relay.call("get_worker").state, "starting")
        with relay.connect() as connection:
            self.assert_refused(connection.call(STRICT, "get_id", "a"), "WorkerIdUnavailable")
            self.assert_refused(connection.call(STRICT, "get_worker_id"), "WorkerIdUnavailable")
        self.assertIsNone(relay.find("ready"))
        again = self.start_again(server)
        relay.wait_ready()
        self.assertEqual(Admin(relay).ask("/readyz").status, 200)

        def draw():
            with relay.connect() as connection:
                reply = connection.call(STRICT, "get_id", "a")
            return reply.kind == REPLY and reply.value.success
        # its disk may take longer than a call waits here
        self.assertEqual(worker_of(wait_for(draw, what="an ID")), 1)

        again.kill()
        wait_for(lambda: why in Admin(relay).ask("/readyz").text, what="the reason")
        self.start_again(server)
        wait_for(lambda: Admin(relay).ask("/readyz").status == 200, what="the server")
        times = [datetime.datetime.fromisoformat(line[:23]) for line in relay.log.splitlines()
                 if "event=relay-no-server" in line and why in line]
        for earlier, later in zip(times, times[1:]):
            # logged at most once a minute
            self.assertGreater((later - earlier).total_seconds(), 59)

    def test_why_it_has_no_server(self):
        _, silent = hanging(self)
        plain, = self.start_fleet(1)
        own = own_address(self)
        itself = own.replace("127.0.0.1", "localhost")
        for servers, why in (
                ([f"tls:{plain.name}"], f"tls:{plain.name}: cannot connect: "),
                (["no-such-host.invalid:7609"],
                 "no-such-host.invalid:7609: cannot resolve the name: "),
                ([silent], f"{silent}: no answer within "),
                ([itself], f"{itself} (127.0.0.1): this address is the relay itself; remove it "
                           "from --relay")):
            with self.subTest(why):
                relay = self.start_relay(servers, ready=False, listen=own)
                # before it listens, a relay that connects to itself is refused
                wait_for(lambda: any(event.name == "relay-no-server"
                                     and event.fields["error"].startswith(why)
                                     for event in list(relay.events)), what=why)
                relay.kill()

    def test_it_ends_without_a_fleet(self):
        relay = self.start_relay([dead_address(self)], ready=False)
        wait_for(lambda: relay.find("listening"), what="a port")
        with relay.connect() as connection:
            connection.send(STRICT.call("get_id", "a"))
            self.assertEqual(relay.terminate(), 0)

    def test_what_it_shows(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server], *ADMIN)
        numbers = [relay.call("get_id", "a") for _ in range(3)]
        self.assertTrue(numbers)
        status = Admin(relay).json("/status.json")
        self.assertEqual((status["kind"], status["reservation"], status["session"]),
                         ("relay", None, None))
        self.assertEqual((status["relay"]["server"], status["relay"]["connected"]),
                         (server.name, True))
        self.assertGreater(status["relay"]["refills"], 0)
        page = (pathlib.Path(__file__).parents[2] / "admin" / "page" / "status.js").read_text()
        for name in re.findall(r"(\w+)(?:: \w+)?", re.search(r"showRelay\(\{(.*?)\}", page)[1]):
            self.assertIn(name, status["relay"])
        metrics = Admin(relay).ask("/metrics").text
        self.assertIn("\nsnowflake_relay_connected 1\n", metrics)
        self.assertIn(f'snowflake_relay_server_info{{server="{server.name}"}} 1\n',
                      metrics)
        for name in ("snowflake_reservation_left_seconds", "snowflake_worker_info"):
            self.assertNotIn(name, metrics)
        # a request over HTTP does not wait for a list
        wait_for(lambda: Admin(relay).ask("/workers.json").status == 200, what="a list")
        workers = Admin(relay).json("/workers.json")
        self.assertEqual([worker["kind"] for worker in workers["workers"]], ["relay", "server"])
        self.assertFalse(workers["quarantined_known"])
        self.assertEqual(len(Admin(relay).json("/ids?agent=a&n=5")["ids"]), 5)


class Failures(RelayTest):
    def begin(self, relay, clients=2):
        load = [PythonClient([relay.address], keeps=i % 2 == 0) for i in range(clients)]
        self.addCleanup(lambda: [client.finish() for client in load])
        self.wait_progress(load)
        return load

    def wait_progress(self, load, ids=20):
        seen = [len(client.numbers) for client in load]
        wait_for(lambda: any(client.has_failed() for client in load) or all(
            len(client.numbers) >= before + ids for client, before in zip(load, seen)),
            "IDs of each client")

    def end(self, load, numbers=()):
        self.assertEqual([client.finish() for client in load], [""] * len(load))
        numbers = sum((client.numbers for client in load), list(numbers))
        self.assertEqual(len(set(numbers)), len(numbers))

    def test_servers_restarted_one_by_one(self):
        servers = self.start_fleet()
        relay = self.start_relay(servers)
        load = self.begin(relay)
        numbers, ends, failures = [], threading.Event(), []

        def draw_batches():
            try:
                with relay.connect() as connection:
                    while not ends.is_set():
                        numbers.extend(connection.call(STRICT, "get_ids", "b", 5000).success)
            except Exception as error:
                failures.append(error)
        batches = threading.Thread(target=draw_batches)
        batches.start()
        for i in range(ROUNDS):
            at = i % 2
            self.assertEqual(servers[at].terminate(), 0)
            self.wait_progress(load)
            servers[at] = self.start_again(servers[at]).wait_ready()
            self.wait_progress(load)
        ends.set()
        batches.join()
        self.assertEqual(failures, [])
        self.end(load, numbers)

    def test_the_fleet_away_and_back(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server], *ADMIN, "--max-wait", 200)
        self.assertGreater(relay.call("get_id", "a"), 0)
        server.kill()
        relay.wait_event("relay-disconnected")

        def refused(method, *arguments):
            with relay.connect() as connection:
                reply = connection.call(STRICT, method, *arguments)
            return reply if reply.kind != REPLY or reply.value.success is None else None

        reply = wait_for(lambda: refused("get_id", "a"), what="an empty prefetch buffer")
        self.assert_refused(reply, "WorkerIdUnavailable: no prefetched IDs: ")
        reply = wait_for(lambda: refused("get_ids", "a", 2), what="no batch")
        self.assertGreater(reply.value.worker.retry_after_ms, 0)
        self.assertEqual(Admin(relay).ask("/readyz").status, 503)
        self.assertEqual(Admin(relay).ask("/livez").status, 200)
        self.assertEqual(relay.call("get_worker").state, "unavailable")
        self.assertGreater(len(relay.call("get_ulids", "a", 1)), 0)
        again = self.start_again(server).wait_ready()
        wait_for(lambda: not refused("get_id", "a"), what="an ID")
        wait_for(lambda: not refused("get_ids", "a", 10), what="a batch")
        self.assertEqual(again.call("get_worker").state, "serving")

    def test_a_server_that_repeats_ids(self):
        server = Told(lacks=("get_id_runs",))
        server.get_ids = lambda _agent, count: list(range(1000, 1000 + count))
        relay = self.start_relay([server.address], *ADMIN, "--max-wait", 100)
        with relay.connect() as connection:
            numbers = wait_for(lambda: connection.call(STRICT, "get_ids", "a", 5).value.success,
                               what="IDs")
            self.assertEqual(numbers, list(range(1000, 1005)))
            reply = connection.call(STRICT, "get_ids", "a", 5)
        self.assertIn("ID 1000, which", reply.value.worker.message)
        event = relay.wait_event("relay-server-excluded")
        self.assertEqual([event.fields[name] for name in ("server", "nonce", "first_sender")],
                         [server.address, server.said.nonce, server.address])
        self.assertIn("\nsnowflake_relay_excluded_servers_total 1\n",
                      Admin(relay).ask("/metrics").text)

    def test_servers_with_two_state_directories_and_one_worker_id(self):
        """Their first IDs are of different ticks, so no ID would show it soon."""
        servers = [self.launch("--state-directory", self.directory / name, "--datacenter-id",
                               DATACENTER, "--worker-id", 5).wait_ready() for name in "ab"]
        relay = self.start_relay(servers, *ADMIN)
        event = relay.wait_event("relay-server-excluded")
        self.assertEqual({event.fields["server"], event.fields["first_sender"]},
                         {server.name for server in servers})
        self.assertIn(f"both are worker 5 of datacenter {DATACENTER}, but of different registries",
                      event.fields["error"])
        self.assertIn("\nsnowflake_relay_excluded_servers_total 1\n",
                      Admin(relay).ask("/metrics").text)
        self.assertGreater(relay.call("get_id", "a"), 0)

    def test_servers_that_repeat_each_other(self):
        """Each excluded server is logged, even if several are excluded within a second."""
        servers = [Told(worker_id=number, lacks=("get_id_runs",)) for number in range(3)]
        for server in servers:
            server.get_ids = lambda _agent, count: list(range(1000, 1000 + count))
        relay = self.start_relay([server.address for server in servers], *ADMIN,
                                 "--max-wait", 100)

        def all_are_excluded():
            with relay.connect() as connection:
                connection.call(STRICT, "get_ids", "a", 5)
            return "\nsnowflake_relay_excluded_servers_total 3\n" in \
                Admin(relay).ask("/metrics").text

        wait_for(all_are_excluded, what="all servers to be excluded")
        for server in servers:
            relay.wait_event("relay-server-excluded", server=server.address)
        self.assertEqual(relay.count_events("relay-server-excluded"), len(servers))

    def test_whoever_waits_is_answered_when_it_is_back(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server])
        server.kill()
        relay.wait_event("relay-disconnected")
        with relay.connect() as single, relay.connect() as batch, relay.connect() as other:
            single.send(STRICT.call("get_id", "a"))
            batch.send(STRICT.call("get_ids", "a", 7))
            # meanwhile, other calls are answered
            other.call(STRICT, "get_timestamp")
            self.start_again(server)
            self.assertGreater(single.reply(STRICT).success, 0)
            self.assertEqual(len(batch.reply(STRICT).success), 7)

    def test_single_ids_do_not_wait_for_a_batch(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server], *ADMIN, "--relay-prefetch", 10000, "--relay-max-age",
                                 60000)

        def n_prefetched():
            for _ in range(20):
                relay.call("get_id", "a")
            return Admin(relay).json("/status.json")["relay"]["prefetched_ids"]
        wait_for(lambda: n_prefetched() > 100, "prefetched IDs")
        server.send_signal(signal.SIGSTOP)
        with relay.connect() as batch, relay.connect() as single:
            batch.send(STRICT.call("get_ids", "a", 7))
            # the loop has received it, so later calls on another connection are answered later
            wait_for(lambda: relay.counters()["waits"] > 0, what="a batch that waits")
            numbers = [single.call(STRICT, "get_id", "a").success for _ in range(50)]
            self.assertEqual(sorted(set(numbers)), numbers)
            server.send_signal(signal.SIGCONT)
            self.assertEqual(len(batch.reply(STRICT).success), 7)

    def test_a_batch_of_somebody_who_has_gone(self):
        server, = self.start_fleet(1)
        relay = self.start_relay([server])
        for count in (7, 8):
            waits = relay.counters()["waits"]
            server.send_signal(signal.SIGSTOP)
            with relay.connect() as gone:
                gone.send(STRICT.call("get_ids", "a", 7))
                wait_for(lambda: relay.counters()["waits"] > waits, what="a call that waits")
            server.send_signal(signal.SIGCONT)
            one = relay.call("get_ids", "a", count)
            other = relay.call("get_ids", "a", count)
            self.assertEqual((len(one), len(other)), (count, count))
            self.assertFalse(set(one) & set(other))

    def test_a_restart_of_the_relay(self):
        servers = self.start_fleet()
        relay = self.start_relay(servers, listen=own_address(self))
        numbers = [relay.call("get_id", "a") for _ in range(10)]
        relay.kill()
        relay = self.launch(*relay.command[3:], listen=relay.name).wait_ready()
        numbers += [relay.call("get_id", "a") for _ in range(10)]
        self.assertEqual(len(set(numbers)), len(numbers))


class Local(RelayTest):
    def test_on_local_sockets_both_ways(self):
        path = f"unix:{self.directory}/fleet"
        server = self.launch("--state-directory", self.state, "--listen", path).wait_ready()
        own = f"unix:{self.directory}/ids"
        relay = self.start_relay([path], "--listen", own)
        self.assertEqual(relay.call("get_worker").server, path)
        shown = subprocess.run([SNOWFLAKECTL, "--server", own,
                                "id", "-n", "3"], capture_output=True, text=True, check=True)
        self.assertEqual(len(set(shown.stdout.split())), 3)
        self.assertGreaterEqual(server.counters()["ids_generated"], 3)
