# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers --watch in a pipe: what is news, and every way out."""
import datetime
import fcntl
import json
import os
import queue
import re
import select
import signal
import subprocess
import threading
import time
import unittest

from ctl import CtlTest, RegistryTest, has_signal
from fake_servers import Told, now_ms
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SANITIZER, SNOWFLAKECTL, dead_address, wait_for
from terminal import Program
from znodes import Registry, tick_in, time_of
from zookeeper import Standalone

FAR = 600


class Watch(Program):
    """A snowflakectl that watches, and what it prints."""

    def __init__(self, *arguments, environment=None):
        self.process = subprocess.Popen(
            [SNOWFLAKECTL, *map(str, arguments)], text=True,
            env={**CTL_ENVIRONMENT, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.complaints = queue.Queue()
        for stream, lines in ((self.process.stdout, self.lines),
                              (self.process.stderr, self.complaints)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line.rstrip("\n"))
        stream.close()

    def next_line(self, lines=None):
        try:
            return (lines or self.lines).get(timeout=HANG_GUARD_S)
        except queue.Empty:
            raise AssertionError(f"no line from {self.process.args}") from None

    def next_list(self):
        return json.loads(self.next_line())

    def wait_list(self, condition):
        """The first list from here on that is as wanted."""
        while not condition(found := self.next_list()):
            pass
        return found

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(HANG_GUARD_S)


class Watching(RegistryTest):
    def watch(self, *arguments):
        return Watch("--zookeeper", self.hosts, *arguments)

    def workers(self, found):
        return sorted((each["datacenter_id"], each["worker_id"]) for each in found)

    def test_each_change_is_a_list(self):
        self.registry.make_layout()
        with self.watch("--json", "workers", "--watch") as watch:
            self.assertEqual(watch.next_list(), [])
            path, nonce = self.registry.claim(5, "h.invalid:1")
            self.assertEqual(self.workers(watch.wait_list(len)), [(5, -1)])
            self.registry.reserve(5, 9, (end := tick_in(FAR)), nonce)
            self.kazoo.set(path, self.registry.claim_data("h.invalid:1", 9))
            found, = watch.wait_list(lambda found: found[0]["worker_id"] == 9)
            self.assertEqual(found["reserved_until"], time_of(end))
            self.registry.set_reservation(5, 9, end + 5000, nonce)
            watch.wait_list(lambda found: found[0]["reserved_until"] == time_of(end + 5000))
            other, _ = self.registry.claim(6, "h.invalid:1", 1)
            watch.wait_list(lambda found: self.workers(found) == [(5, 9), (6, 1)])
            self.kazoo.delete(path)
            watch.wait_list(lambda found: self.workers(found) == [(6, 1)])
            self.kazoo.delete(other)
            watch.wait_list(lambda found: found == [])
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.complaints.empty())

    def test_reservations_are_watched_too(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        with self.watch("--json", "workers", "--reservations", "--watch") as watch:
            self.assertEqual(watch.next_list()[0]["free"], 32)
            self.registry.reserve(0, 5, tick_in(FAR))
            watch.wait_list(lambda found: found[0]["quarantined"] == 1)
            self.registry.set_reservation(0, 5, tick_in(-FAR))
            watch.wait_list(lambda found: found[0]["free"] == 32)
            self.registry.set_floor(0, tick_in(FAR))
            watch.wait_list(lambda found: found[0]["free"] == 0)

    def test_what_was_missing_is_watched_for(self):
        self.registry.make_layout()
        self.registry.create("datacenters/5")
        with self.watch("--json", "workers", "--watch") as watch:
            self.assertEqual(watch.next_list(), [])
            self.registry.claim(5, "h.invalid:1", 9)
            self.assertEqual(self.workers(watch.wait_list(len)), [(5, 9)])

    def test_a_burst_is_seen_together(self):
        self.registry.make_layout()
        end = tick_in(FAR)
        self.registry.reserve(0, 3, end)
        with self.watch("--json", "workers", "--reservations", "--watch") as watch:
            watch.next_list()
            began = time.monotonic()
            for i in range(1, 301):
                self.registry.set_reservation(0, 3, end + i)
            last, lists = time_of(end + 300), 1
            while watch.next_list()[0]["reservations"][0]["reserved_until"] != last:
                lists += 1
            # it waits for 50 ms without a change before it looks
            self.assertLessEqual(lists, (time.monotonic() - began) / 0.05)

    def test_nothing_is_printed_while_nothing_changes(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        path, _ = self.registry.claim(0, "127.0.0.1:1", 1)
        with self.watch("--json", "workers", "--watch") as watch:
            watch.next_list()
            data, stat = self.kazoo.get(path)
            self.registry.reserve(0, 20, tick_in(FAR))  # nobody's who lives
            self.kazoo.create(f"{self.registry.root}/other", data)
            self.kazoo.set(path, self.registry.claim_data("127.0.0.1:1", 2), stat.version)
            self.assertEqual(self.workers(watch.next_list()), [(0, 2)])
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.lines.empty())

    def test_tables_have_their_time_and_an_empty_line_between(self):
        self.registry.make_layout()
        path, _ = self.registry.claim(0, "127.0.0.1:1", 1)
        began = int(time.time())
        with self.watch("workers", "--watch") as watch:
            first = [watch.next_line() for _ in range(3)]
            self.kazoo.set(path, self.registry.claim_data("127.0.0.1:1", 2))
            second = [watch.next_line() for _ in range(4)]
        self.assertEqual([second[0], second[2]], ["", first[1]])
        self.assertEqual((first[2].split()[1], second[3].split()[1]), ("1", "2"))
        for line in (first[0], second[1]):
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")
            drawn = time.mktime(time.strptime(line[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
            self.assertTrue(began <= drawn <= time.time())

    def test_what_servers_say_is_news_without_a_change_in_zookeeper(self):
        self.registry.make_layout()
        server = Told()
        self.registry.claim(0, server.address, 0, server.said.nonce)
        with self.watch("--json", "workers", "--watch") as watch:
            self.assertEqual(watch.next_list()[0]["state"], "serving")
            server.said.state = "draining"
            self.assertEqual(watch.next_list()[0]["state"], "draining")
            # how long an answer takes, and what that makes of the clock, is none
            asked = server.asked
            for step in range(1, 4):
                server.ahead_ms = (-1) ** step * 20
                wait_for(lambda: server.asked > asked + step, "to be asked again")
            self.assertTrue(watch.lines.empty())
            server.ahead_ms = 5000
            self.assertGreater(watch.next_list()[0]["clock_skew_us"], 4_000_000)
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.complaints.empty())

    def test_a_quarantine_ends_though_nothing_is_written(self):
        self.registry.make_layout()
        self.registry.reserve(0, 5, tick_in(2))
        with self.watch("--json", "workers", "--reservations", "--watch") as watch:
            self.assertEqual(watch.next_list()[0]["quarantined"], 1)
            self.assertEqual(watch.next_list()[0]["free"], 32)

    def registry_in(self, own):
        """One in a ZooKeeper of the test's own."""
        kazoo = own.client()
        self.addCleanup(kazoo.close)
        self.addCleanup(kazoo.stop)
        registry = Registry(kazoo, self.registry.root)
        registry.make_layout()
        return registry

    def test_without_zookeeper_its_servers_are_asked_all_the_same(self):
        with Standalone().start() as own:
            registry = self.registry_in(own)
            server = Told()
            registry.claim(0, server.address, 0, server.said.nonce)
            registry.claim(0, dead_address(self), 1)
            with Watch("--zookeeper", own.connect_string + registry.root, "--timeout", 500,
                       "--json", "workers", "--watch") as watch:
                self.assertEqual([each["hearsay"] for each in watch.next_list()], [False, False])
                own.kill()
                self.assertIn("trying again; the list is", watch.next_line(watch.complaints))
                self.assertEqual([each["hearsay"] for each in watch.next_list()], [False, True])
                server.said.state = "unavailable"
                self.assertEqual([each["state"] for each in watch.next_list()],
                                 ["unavailable", "unreachable"])
                self.assertTrue(watch.complaints.empty())

    def test_a_list_is_as_old_as_what_zookeeper_has_said_last(self):
        with Standalone().start() as own:
            registry = self.registry_in(own)
            registry.claim(0, dead_address(self), 1)
            with Watch("--zookeeper", own.connect_string + registry.root, "--timeout", 2000,
                       "--json", "workers", "--watch") as watch:
                watch.next_list()
                own.pause()
                # ZooKeeper's client takes it for connected for seconds more
                complaint = watch.next_line(watch.complaints)
                complained_at = time.time()
                row, = watch.next_list()
                own.resume()
        told = int(re.search(r"the list is (\d+) s old", complaint)[1])
        as_of = datetime.datetime.fromisoformat(row["as_of"].replace("Z", "+00:00")).timestamp()
        # an answer can have been on its way when ZooKeeper was paused, but none is sent then
        self.assertLess(as_of, complained_at - 1)
        self.assertGreaterEqual(told, 1)

    @unittest.skipIf(SANITIZER == "thread", "its _exit() waits for what is printed")
    def test_a_second_interrupt_ends_it_where_nobody_reads(self):
        self.registry.make_layout()
        for worker_id in range(32):
            self.registry.claim(0, "127.0.0.1:1", worker_id)
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", self.hosts, "--json", "workers", "--watch"],
            env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_for(lambda: not select.select([], [writer], [], 0)[1], "the pipe to be full")
        process.send_signal(signal.SIGINT)
        # until it has heard this one, a second one is the same
        wait_for(lambda: not has_signal(process, "ShdPnd", signal.SIGINT), "it to be heard")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(HANG_GUARD_S), 0)
        os.close(reader)
        os.close(writer)

    def test_it_outlives_a_zookeeper_that_goes_and_comes_back(self):
        with Standalone() as own:
            own.start()
            kazoo = own.client()
            self.addCleanup(kazoo.close)
            self.addCleanup(kazoo.stop)
            registry = Registry(kazoo, self.registry.root)
            self.hosts = own.connect_string + registry.root
            registry.make_layout()
            registry.make_datacenter(0)
            with self.watch("--timeout", 500, "--json", "workers", "--watch") as watch:
                self.assertEqual(watch.next_list(), [])
                own.kill()
                self.assertIn("trying again", watch.next_line(watch.complaints))
                own.restart()
                self.assertEqual(watch.next_list(), [])
                kazoo.retry(registry.claim, 0, "127.0.0.1:1", 7)
                watch.wait_list(lambda found: self.workers(found) == [(0, 7)])
                own.pause()
                self.assertIn("trying again", watch.next_line(watch.complaints))
                own.resume()
                watch.next_list()
                self.assertEqual(watch.interrupt(), 0)
                self.assertTrue(watch.complaints.empty())


class WatchingServers(CtlTest):
    """--server: there is no ZooKeeper that would tell of changes."""

    def test_what_changes_is_a_list(self):
        one, two = Told(worker_id=1), Told(worker_id=2)
        one.others = [one.of_another(0, worker_id=3)]
        with Watch("--server", one.address, "--server", two.address, "--json", "workers",
                   "--watch") as watch:
            self.assertEqual([each["state"] for each in watch.next_list()],
                             ["serving", "serving", "unreachable"])
            two.said.reserved_until_ms += 1000
            found = watch.next_list()[1]["reserved_until"]
            self.assertEqual(int(found[-4:-1]), two.said.reserved_until_ms % 1000)
            one.others = []
            self.assertEqual([each["worker_id"] for each in watch.next_list()], [1, 2])
            one.others = [two.of_another(0, worker_id=4)]
            self.assertEqual([each["worker_id"] for each in watch.next_list()], [1, 2, 4])
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.complaints.empty())

    def test_what_is_amiss_is_said_once(self):
        one = Told(worker_id=1)
        nobody = dead_address(self)
        old = one.of_another(0, as_of_ms=now_ms() - 60_000, worker_id=2)  # and ever older
        one.others = lambda: [old]
        with Watch("--server", one.address, "--server", nobody, "--json", "workers",
                   "--watch") as watch:
            self.assertEqual(len(watch.next_list()), 2)
            said = [watch.next_line(watch.complaints) for _ in range(2)]
            self.assertIn(nobody, said[0])
            self.assertIn("the list is", said[1])
            asked = one.asked
            wait_for(lambda: one.asked > asked + 9, "to be asked three times more")
            self.assertTrue(watch.complaints.empty())

    def test_nobody_is_there_to_begin_with(self):
        with Watch("--server", dead_address(self), "workers", "--watch") as watch:
            self.assertEqual(watch.process.wait(HANG_GUARD_S), 1)
            self.assertIn("cannot connect", watch.next_line(watch.complaints))
            self.assertTrue(watch.lines.empty())

    def test_a_reader_that_has_had_enough_ends_it(self):
        server = Told()
        reader, writer = os.pipe()
        with subprocess.Popen([SNOWFLAKECTL, "--server", server.address, "workers", "--watch"],
                              env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer,
                              stderr=subprocess.PIPE) as process:
            os.close(writer)
            self.assertTrue(os.read(reader, 10))
            os.close(reader)
            # nothing more would be printed
            self.assertEqual(process.wait(HANG_GUARD_S), 0)
            self.assertEqual(process.stderr.read(), b"")

    def test_what_is_half_printed_is_printed_to_its_end(self):
        server = Told()
        # more than the pipe holds
        server.others = [server.of_another(0, worker_id=-1, address="") for _ in range(50)]
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM),
                               (signal.SIGHUP, -signal.SIGHUP)):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            process = subprocess.Popen(
                [SNOWFLAKECTL, "--server", server.address, "--json", "workers", "--watch"],
                env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer,
                stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            wait_for(lambda: not select.select([], [writer], [], 0)[1], "the pipe to be full")
            os.close(writer)
            process.send_signal(number)
            with os.fdopen(reader) as output:
                text = output.read()
            self.assertEqual(process.wait(HANG_GUARD_S), status)
            self.assertTrue(text.endswith("]\n"))
            for line in text.splitlines():
                self.assertEqual(len(json.loads(line)), 51)
