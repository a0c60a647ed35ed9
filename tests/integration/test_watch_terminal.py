# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers --watch on a terminal: what is drawn, for which size, and whose it is."""
import os
import signal
import termios
import threading

from ctl import CtlTest
from fake_servers import Told
from harness import HANG_GUARD_S, SNOWFLAKECTL, dead_address, wait_for
from terminal import CLEAR, Terminal


class OnATerminal(CtlTest):
    def setUp(self):
        self.server = Told(worker_id=1)

    def watching(self, *options, columns=80, rows=24):
        return Terminal([SNOWFLAKECTL, *(options or ("--server", self.server.address)), "workers",
                         "--watch"], columns, rows)

    def drawn(self, n):
        return lambda output: output.count(CLEAR) > n

    def test_it_is_drawn_again_and_again(self):
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(1))
            self.server.said.state = "draining"
            terminal.wait_output(lambda output: "draining" in output)
            terminal.wait_output(self.drawn(terminal.output.count(CLEAR) + 1))
            self.assertTrue(terminal.output.startswith(CLEAR))
            times = set()
            for screen in terminal.screens()[:-1]:
                lines = screen.splitlines()
                self.assertEqual(len(lines), 3, screen)
                self.assertRegex(lines[0], r"^\d{4}-\S+\+00:00  \(q ends it\)$")
                times.add(lines[0])
            self.assertGreater(len(times), 1)

    def test_a_long_table_is_cut_to_the_screen(self):
        self.server.others = [self.server.of_another(0, worker_id=worker_id, address="")
                              for worker_id in range(2, 32)]
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(1))
        lines = terminal.screens()[0].splitlines()
        self.assertEqual((len(lines), lines[-1]), (23, "... and 11 more"))

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
        """The server answers no more; returns what is set once it is asked."""
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
        with self.watching("--server", self.server.address, "--timeout", "60000") as terminal:
            terminal.wait_output(self.drawn(0))
            self.assertTrue(self.hang().wait(HANG_GUARD_S))
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())

    def test_before_the_first_list_the_key_is_an_interruption(self):
        self.hang()
        with self.watching("--server", self.server.address, "--timeout", "60000") as terminal:
            wait_for(terminal.takes_keys)
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), -signal.SIGINT)
            self.assertTrue(terminal.is_as_before())

    def test_a_note_stands_below_the_table_each_time(self):
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
                # what is wrong is said to its end, in as many lines as it takes
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

    def test_another_size_is_drawn_for_at_once(self):
        self.server.others = [self.server.of_another(0, worker_id=worker_id)
                              for worker_id in range(2, 32)]
        with self.watching("--server", self.server.address, "--timeout", "60000") as terminal:
            terminal.wait_output(self.drawn(0))
            self.assertTrue(self.hang().wait(HANG_GUARD_S))
            title = terminal.screens()[-1].splitlines()[0]
            for columns, rows, head, last in ((40, 12, "dc", "... and 23 more"),
                                              (200, 50, "datacenter", " 31  127.0.0.1:1 ")):
                seen = len(terminal.output)
                terminal.resize(columns, rows)
                terminal.wait_output(lambda output: last in output[seen:])
                screen = terminal.screens()[-1]
                self.assertTrue(terminal.fits(screen), screen)
                # it is what was seen then
                self.assertEqual(screen.splitlines()[0], title)
                self.assertIn(head, screen.splitlines()[1])
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)

    def test_where_nobody_would_have_it_go_on_it_does_not_stop(self):
        """It has no shell: its process group is orphaned."""
        with self.watching() as terminal:
            terminal.wait_output(self.drawn(0))
            terminal.type("\x1a")
            terminal.wait_output(self.drawn(terminal.output.count(CLEAR) + 1))
            self.assertTrue(terminal.takes_keys())
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())


class InAShell(CtlTest):
    """Job control: Ctrl-Z, bg, fg. dash never sets the terminal's modes; bash, which has no editor
    of lines here, does not send SIGCONT to a job that runs when it comes to the front."""

    BASH = ("/bin/bash", "--norc", "--noediting", "-i")
    DASH = ("/bin/dash", "-i")

    def begin(self, shell=BASH):
        self.server = Told(worker_id=1)
        self.shell = Terminal(shell, environment={"PS1": "READY ", "HISTFILE": ""})
        self.enterContext(self.shell)
        self.shell.wait_output(lambda output: output.endswith("READY "))
        self.modes = self.shell.modes()

    def command(self, line, shown):
        """Types it, and waits for what comes then."""
        seen = len(self.shell.output)
        self.shell.type(line)
        self.shell.wait_output(lambda output: shown in output[seen:])

    def start(self):
        self.command(f"{SNOWFLAKECTL} --server {self.server.address} workers --watch\n", CLEAR)
        wait_for(self.shell.takes_keys)

    def stop(self, number=None):
        """By a key, or by a signal from elsewhere."""
        seen = len(self.shell.output)
        if number is None:
            self.shell.type("\x1a")
        else:
            os.killpg(self.shell.foreground(), number)
        self.shell.wait_output(lambda output: "Stopped" in output[seen:])
        self.shell.wait_output(lambda output: output.endswith("READY "))
        self.assertEqual(self.shell.modes(), self.modes)

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

    def test_it_comes_back_from_the_background(self):
        self.begin()
        self.start()
        self.stop()
        seen = len(self.shell.output)
        self.command("bg\n", "READY ")
        # the screen is the shell's
        asked = self.server.asked
        wait_for(lambda: self.server.asked > asked + 4, "to be asked twice more")
        self.assertEqual(self.shell.modes(), self.modes)
        self.assertNotIn(CLEAR, self.shell.output[seen:])
        self.command("fg\n", CLEAR)
        self.end()

    def test_who_is_ended_behind_another_job_leaves_it_the_terminal(self):
        self.begin()
        self.start()
        watch = self.shell.foreground()
        # it cannot know
        self.stop(signal.SIGSTOP)
        self.command("stty -echoctl\n", "READY ")
        wait_for(lambda: self.shell.modes() == self.modes & ~termios.ECHOCTL)
        for number in (signal.SIGTERM, signal.SIGCONT):
            os.killpg(watch, number)
        wait_for(lambda: not os.path.exists(f"/proc/{watch}"))
        self.assertEqual(self.shell.modes(), self.modes & ~termios.ECHOCTL)

    def test_it_is_begun_in_the_background(self):
        self.begin()
        self.command(f"{SNOWFLAKECTL} --server {self.server.address} workers --watch &\n", "READY ")
        asked = self.server.asked
        wait_for(lambda: self.server.asked > asked + 4, "to be asked twice")
        self.command("fg\n", CLEAR)
        self.end()
