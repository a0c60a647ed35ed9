# SPDX-License-Identifier: Apache-2.0
"""snowflakectl top, with --json and on a terminal: updates from ZooKeeper and servers, drawing, and
every way to end it."""
import datetime
import fcntl
import json
import os
import queue
import re
import select
import signal
import subprocess
import termios
import threading
import time
import unittest

from ctl import CtlTest, RegistryTest, has_signal
from fake_servers import NOBODY, Counting, now_ms
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SANITIZER, SNOWFLAKECTL, dead_address, wait_for
from terminal import CLEAR, Program, Terminal
from znodes import Registry, tick_in, time_of
from zookeeper import Standalone

FAR = 600
# servers that answer are never too slow
TOP = ("top", "--interval", "300", "--timeout", str(1000 * HANG_GUARD_S))


class Watch(Program):
    """A top that prints objects, and its output."""

    def __init__(self, *arguments, environment=None):
        self.process = subprocess.Popen(
            [SNOWFLAKECTL, *TOP, *map(str, arguments), "--json"], text=True,
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
        return json.loads(self.next_line())["workers"]

    def wait_list(self, condition):
        """Returns the first list from now on for which the condition is true."""
        while not condition(found := self.next_list()):
            pass
        return found

    def wait_complaint(self, words):
        """Returns the first message from now on that contains the words. Other messages are about
        servers that do not answer."""
        while words not in (complaint := self.next_line(self.complaints)):
            pass
        return complaint

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(HANG_GUARD_S)


class Watching(RegistryTest):
    has_layout = True

    def watch(self, *arguments):
        return Watch("--zookeeper", self.hosts, *arguments)

    def workers(self, found):
        return sorted((each["datacenter_id"], each["worker_id"]) for each in found)

    def test_each_change_is_a_list(self):
        with self.watch() as watch:
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

    def test_what_was_missing_is_watched_for(self):
        self.registry.create("datacenters/5")
        with self.watch() as watch:
            self.assertEqual(watch.next_list(), [])
            self.registry.claim(5, "h.invalid:1", 9)
            self.assertEqual(self.workers(watch.wait_list(len)), [(5, 9)])

    def registry_in(self, own):
        """Starts a registry in the test's own ZooKeeper."""
        registry = Registry(self.client(zookeeper=own), self.registry.root)
        registry.make_layout()
        return registry

    def test_without_zookeeper_its_servers_are_asked_all_the_same(self):
        with Standalone().start() as own:
            registry = self.registry_in(own)
            server = Counting()
            registry.claim(0, server.address, 0, server.said.nonce)
            registry.claim(0, dead_address(self), 1)
            with Watch("--zookeeper", own.connect_string + registry.root, "--timeout",
                       4000) as watch:
                self.assertEqual([each["indirect"] for each in watch.next_list()], [False, False])
                own.kill()
                watch.wait_complaint("trying again; the list is")
                watch.wait_list(lambda found: [each["indirect"] for each in found] ==
                                [False, True])
                server.said.state = "unavailable"
                watch.wait_list(lambda found: [each["state"] for each in found] ==
                                ["unavailable", "unreachable"])
                self.assertNotIn("trying again", str(list(watch.complaints.queue)))

    def test_a_list_is_as_old_as_what_zookeeper_has_said_last(self):
        with Standalone().start() as own:
            registry = self.registry_in(own)
            registry.claim(0, dead_address(self), 1)
            with Watch("--zookeeper", own.connect_string + registry.root, "--timeout",
                       2000) as watch:
                watch.next_list()
                own.pause()
                # ZooKeeper's client still considers it connected for some seconds
                complaint = watch.wait_complaint("trying again")
                complained_at = time.time()
                row, = watch.wait_list(lambda found: found[0]["indirect"])
                own.resume()
        told = int(re.search(r"the list is (\d+) s old", complaint)[1])
        as_of = datetime.datetime.fromisoformat(row["as_of"].replace("Z", "+00:00")).timestamp()
        # an answer may have been in transit when ZooKeeper was paused, but none is sent afterwards
        self.assertLess(as_of, complained_at - 1)
        self.assertGreaterEqual(told, 1)

    @unittest.skipIf(SANITIZER == "thread", "its _exit() waits for what is printed")
    def test_a_second_interrupt_ends_it_where_nobody_reads(self):
        for worker_id in range(32):
            self.registry.claim(0, "127.0.0.1:1", worker_id)
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", self.hosts, "--json", *TOP],
            env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_for(lambda: not select.select([], [writer], [], 0)[1], "the pipe to be full")
        process.send_signal(signal.SIGINT)
        # wait until it has received this one, because a second one could merge with it
        wait_for(lambda: not has_signal(process, "ShdPnd", signal.SIGINT), "it to be heard")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(HANG_GUARD_S), 0)
        os.close(reader)
        os.close(writer)

    def test_it_outlives_a_zookeeper_that_goes_and_comes_back(self):
        with Standalone().start() as own:
            registry = self.registry_in(own)
            self.hosts = own.connect_string + registry.root
            registry.make_datacenter(0)
            with self.watch("--timeout", 4000) as watch:
                self.assertEqual(watch.next_list(), [])
                own.kill()
                self.assertIn("trying again", watch.next_line(watch.complaints))
                own.restart()
                registry.kazoo.retry(registry.claim, 0, "127.0.0.1:1", 7)
                watch.wait_list(lambda found: self.workers(found) == [(0, 7)])
                own.pause()
                watch.wait_complaint("trying again")
                own.resume()
                watch.next_list()
                self.assertEqual(watch.interrupt(), 0)
                self.assertNotIn("trying again", str(list(watch.complaints.queue)))


class WatchingServers(CtlTest):
    """Tests of --server, without ZooKeeper."""

    def test_what_changes_is_a_list(self):
        one, two = Counting(worker_id=1), Counting(worker_id=2)
        one.others = [one.of_another(0, worker_id=3)]
        with Watch("--server", one.address, "--server", two.address) as watch:
            self.assertEqual([each["state"] for each in watch.next_list()],
                             ["serving", "serving", "unreachable"])
            two.said.state = "draining"
            watch.wait_list(lambda found: found[1]["state"] == "draining")
            one.others = []
            watch.wait_list(lambda found: [each["worker_id"] for each in found] == [1, 2])
            one.others = [two.of_another(0, worker_id=4)]
            watch.wait_list(lambda found: [each["worker_id"] for each in found] == [1, 2, 4])
            self.assertEqual(watch.interrupt(), 0)
            # again after a list without the cause
            for _ in range(2):
                watch.wait_complaint(f"{NOBODY}: cannot connect")

    def test_what_is_amiss_is_said_once(self):
        one = Counting(worker_id=1)
        nobody = dead_address(self)
        old = one.of_another(0, as_of_ms=now_ms() - 60_000, worker_id=2)  # and getting older
        one.others = lambda: [old]
        with Watch("--server", one.address, "--server", nobody) as watch:
            self.assertEqual(len(watch.next_list()), 3)
            said = [watch.next_line(watch.complaints) for _ in range(3)]
            self.assertIn(nobody, said[0])
            self.assertIn("the list is", said[1])
            self.assertIn(f"{NOBODY}: cannot connect", said[2])
            asked = one.asked
            wait_for(lambda: one.asked > asked + 9, "to be asked three times more")
            self.assertTrue(watch.complaints.empty())

    def test_nobody_is_there_to_begin_with(self):
        with Watch("--server", dead_address(self)) as watch:
            self.assertEqual(watch.process.wait(HANG_GUARD_S), 1)
            self.assertIn("cannot connect", watch.next_line(watch.complaints))
            self.assertEqual(json.loads(watch.next_line())["kind"], "unreachable")

    def test_a_reader_that_has_had_enough_ends_it(self):
        server = Counting()
        reader, writer = os.pipe()
        with subprocess.Popen([SNOWFLAKECTL, "--json", "--server", server.address, *TOP],
                              env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer,
                              stderr=subprocess.PIPE) as process:
            os.close(writer)
            self.assertTrue(os.read(reader, 10))
            os.close(reader)
            # no further list would be printed
            self.assertEqual(process.wait(HANG_GUARD_S), 0)
            self.assertEqual(process.stderr.read(), b"")

    def test_what_is_half_printed_is_printed_to_its_end(self):
        server = Counting()
        # more than the pipe holds
        server.others = [server.of_another(0, worker_id=-1, address="") for _ in range(50)]
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM),
                               (signal.SIGHUP, -signal.SIGHUP)):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            process = subprocess.Popen(
                [SNOWFLAKECTL, "--server", server.address, "--json", *TOP],
                env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer,
                stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            wait_for(lambda: not select.select([], [writer], [], 0)[1], "the pipe to be full")
            os.close(writer)
            process.send_signal(number)
            with os.fdopen(reader) as output:
                text = output.read()
            self.assertEqual(process.wait(HANG_GUARD_S), status)
            self.assertTrue(text.endswith("}\n"))
            for line in text.splitlines():
                self.assertEqual(len(json.loads(line)["workers"]), 51)


class OnATerminal(CtlTest):
    def setUp(self):
        self.server = Counting(worker_id=1)

    def watching(self, *options, columns=80, rows=24):
        return Terminal([SNOWFLAKECTL, *TOP, *(options or ("--server", self.server.address))],
                        columns, rows)

    def drawn(self, n):
        return lambda output: output.count(CLEAR) > n

    def test_it_is_drawn_again_and_again(self):
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(1))
            self.server.said.state = "draining"
            terminal.wait_output(lambda output: "draining" in output)
            terminal.wait_output(self.drawn(6))  # lists of more than a second
            self.assertTrue(terminal.output.startswith(CLEAR))
            times = set()
            for screen in terminal.screens()[:-1]:
                lines = screen.splitlines()
                self.assertEqual(len(lines), 4, screen)
                self.assertRegex(lines[0], r"^\d{4}-\S+Z  \(by worker; .* q quit\)$")
                times.add(lines[0])
            self.assertGreater(len(times), 1)

    def test_a_long_table_is_cut_to_the_screen(self):
        self.server.others = [self.server.of_another(0, worker_id=worker_id, address="")
                              for worker_id in range(2, 32)]
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(1))
        lines = terminal.screens()[0].splitlines()
        self.assertEqual((len(lines), lines[-2]), (23, "... and 12 more"))

    def test_every_way_out_sets_the_terminal_back(self):
        for name, act, status in (
                ("q", lambda terminal: terminal.type("xq"), 0),
                ("Ctrl-C", lambda terminal: terminal.type("\x03"), 0),
                ("Ctrl-\\", lambda terminal: terminal.type("\x1c"), -signal.SIGQUIT),
                *((number.name, lambda terminal, number=number:
                   terminal.process.send_signal(number), -number)
                  for number in (signal.SIGTERM, signal.SIGHUP))):
            with self.subTest(name), self.watching() as terminal:
                terminal.wait_output(self.drawn(0))
                self.assertTrue(terminal.takes_keys())
                act(terminal)
                self.assertEqual(terminal.wait_end(), status)
                self.assertTrue(terminal.is_as_before())

    def test_an_error_sets_the_terminal_back(self):
        with self.watching("--server", dead_address(self)) as terminal:
            self.assertEqual(terminal.wait_end(), 1)
            self.assertTrue(terminal.is_as_before())
            self.assertIn("cannot connect", terminal.output)

    def hang(self):
        """Makes the server hang. Returns an event that is set with the next request."""
        waits = threading.Event()
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)

        def others():
            waits.set()
            goes_on.wait(60)
            return []

        self.server.others = others
        return waits

    def test_keys_end_it_while_it_waits_for_a_server(self):
        with self.watching("--server", self.server.address, "--interval", "3000") as terminal:
            terminal.wait_output(self.drawn(0))
            self.assertTrue(self.hang().wait(HANG_GUARD_S))
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())

    def test_before_the_first_list_the_key_is_an_interruption(self):
        self.hang()
        with self.watching("--server", self.server.address, "--interval",
                           "3600000") as terminal:
            wait_for(terminal.takes_keys)
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), -signal.SIGINT)
            self.assertTrue(terminal.is_as_before())

    def test_a_note_is_below_each_table(self):
        nobody = dead_address(self)
        with self.watching("--server", self.server.address, "--server", nobody) as terminal:
            terminal.wait_output(self.drawn(2))
        for screen in terminal.screens()[:-1]:
            self.assertIn(f"snowflakectl: {nobody}: cannot connect", screen.splitlines()[-1])

    def test_nothing_is_longer_than_the_screen_is_wide(self):
        self.server.others = [
            self.server.of_another(0, worker_id=2, address="a" * 120 + ".invalid:7609"),
            self.server.of_another(600_000, worker_id=31, datacenter_id=31)]
        nobody = dead_address(self)
        for columns, address in ((200, "a" * 120), (80, "a" * 18 + "..."), (40, "a" * 18 + "..."),
                                 (20, ">")):
            with self.subTest(columns), \
                    self.watching("--server", self.server.address, "--server", nobody,
                                  columns=columns) as terminal:
                terminal.wait_output(self.drawn(1))
                screen = terminal.screens()[0]
                self.assertTrue(terminal.fits(screen), screen)
                self.assertIn(address, screen.splitlines()[3])
                # an error is printed completely, on as many lines as needed
                self.assertIn(f"snowflakectl: {nobody}: cannot connect: Connection refused",
                              screen.replace("\n", ""))

    def test_a_screen_never_scrolls(self):
        self.server.others = [self.server.of_another(60_000, worker_id=worker_id)
                              for worker_id in range(2, 32)]
        options = [word for _ in range(8) for word in ("--server", dead_address(self))]
        for columns, rows in ((80, 24), (40, 24), (20, 12), (80, 5), (80, 3),
                              (80, 2)):
            with self.subTest(columns=columns, rows=rows), \
                    self.watching("--server", self.server.address, *options, columns=columns,
                                  rows=rows) as terminal:
                terminal.wait_output(self.drawn(1))
                lines = terminal.screens()[0].splitlines()
                self.assertEqual(len(lines), rows - 1)
                self.assertTrue(terminal.fits(terminal.screens()[0]), lines)
                if rows > 2:
                    self.assertRegex(" ".join(lines), r"\.\.\. and \d+ more")

    def test_a_resize_redraws_at_once(self):
        self.server.others = [self.server.of_another(0, worker_id=worker_id)
                              for worker_id in range(2, 32)]
        with self.watching("--server", self.server.address, "--interval",
                           "3600000") as terminal:
            terminal.wait_output(lambda output: " serving, " in output)
            title = terminal.screens()[-1].splitlines()[0]
            for columns, rows, head, last in ((40, 12, "address", "... and 27 more"),
                                              (200, 50, "left", "0/31 127.0.0.1:1 ")):
                seen = len(terminal.output)
                terminal.resize(columns, rows)
                terminal.wait_output(lambda output: last in output[seen:])
                screen = terminal.screens()[-1]
                self.assertTrue(terminal.fits(screen), screen)
                # the content is unchanged
                self.assertEqual(screen.splitlines()[0][:25], title[:25])
                self.assertIn(head, screen.splitlines()[1])
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)

    def test_an_orphaned_process_group_does_not_stop(self):
        """Without a shell, its process group is orphaned, so no job control could continue it."""
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(0))
            terminal.type("\x1a")
            terminal.wait_output(self.drawn(terminal.output.count(CLEAR) + 1))
            self.assertTrue(terminal.takes_keys())
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())


class InAShell(CtlTest):
    """Job control: Ctrl-Z, bg, fg. dash never sets the terminal's modes."""

    BASH = ("/bin/bash", "--norc", "--noediting", "-i")
    DASH = ("/bin/dash", "-i")

    def begin(self, shell=BASH):
        self.server = Counting(worker_id=1)
        self.shell = Terminal(shell, environment={"PS1": "READY ", "HISTFILE": ""})
        self.enterContext(self.shell)
        self.shell.wait_output(lambda output: output.endswith("READY "))
        self.modes = self.shell.modes()

    def command(self, line, shown):
        """Types a line, and waits until the output after it contains `shown`."""
        seen = len(self.shell.output)
        self.shell.type(line)
        self.shell.wait_output(lambda output: shown in output[seen:])

    def start(self):
        self.command(f"{SNOWFLAKECTL} --server {self.server.address} {' '.join(TOP)}\n", CLEAR)
        wait_for(self.shell.takes_keys)

    def stop(self, number=None):
        """Stops the job by a key, or by a signal from another process."""
        seen = len(self.shell.output)
        if number is None:
            self.shell.type("\x1a")
        else:
            os.killpg(self.shell.foreground(), number)
        self.shell.wait_output(lambda output: "Stopped" in output[seen:])
        self.shell.wait_output(lambda output: output.endswith("READY "))
        self.assertEqual(self.shell.modes(), self.modes)

    def run_in_background(self, line):
        """Runs a line that moves the job to the background, where it stops. The shell tells this
        before its next prompt, or while it waits."""
        seen = len(self.shell.output)
        self.command(f"{line}\n", "READY ")
        self.shell.type("wait\n")
        self.shell.wait_output(lambda output: "topped" in output[seen:])

    def end(self):
        wait_for(self.shell.takes_keys)
        self.command("q", "READY ")
        self.assertEqual(self.shell.modes(), self.modes)
        self.command("echo status $?\n", "status 0\n")

    def test_it_is_stopped_and_goes_on(self):
        for shell in (self.BASH, self.DASH):
            with self.subTest(shell[0]):
                self.begin(shell)
                self.start()
                for number in (None, signal.SIGTSTP):
                    self.stop(number)
                    self.command("fg\n", CLEAR)
                    wait_for(self.shell.takes_keys)
                self.end()

    def test_it_stops_in_the_background(self):
        self.begin()
        self.start()
        self.stop()
        seen = len(self.shell.output)
        self.run_in_background("bg")
        self.assertEqual(self.shell.modes(), self.modes)
        self.assertNotIn(CLEAR, self.shell.output[seen:])
        self.command("fg\n", CLEAR)
        self.end()

    def test_a_signal_in_the_background_leaves_the_terminal(self):
        self.begin()
        self.start()
        watch = self.shell.foreground()
        # SIGSTOP cannot be handled
        self.stop(signal.SIGSTOP)
        self.command("stty -echoctl\n", "READY ")
        wait_for(lambda: self.shell.modes() == self.modes & ~termios.ECHOCTL)
        for number in (signal.SIGTERM, signal.SIGCONT):
            os.killpg(watch, number)
        wait_for(lambda: not os.path.exists(f"/proc/{watch}"))
        self.assertEqual(self.shell.modes(), self.modes & ~termios.ECHOCTL)

    def test_start_in_the_background(self):
        self.begin()
        self.run_in_background(
            f"{SNOWFLAKECTL} --server {self.server.address} {' '.join(TOP)} &")
        self.command("fg\n", CLEAR)
        self.end()

    def test_one_that_stopped_in_the_background_is_terminated(self):
        self.begin()
        self.start()
        watch = self.shell.foreground()
        self.stop()
        self.run_in_background("bg")
        self.command("kill %1\n", "READY ")
        wait_for(lambda: not os.path.exists(f"/proc/{watch}"))
        self.assertEqual(self.shell.modes(), self.modes)
