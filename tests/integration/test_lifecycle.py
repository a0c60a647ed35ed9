# SPDX-License-Identifier: Apache-2.0
"""Start, readiness, stop, and events that affect the whole process."""
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time

import default_port
import wire
from harness import (BUILD, ENVIRONMENT, HANG_GUARD_S, SANITIZED, SLOW, SNOWFLAKED, VERSION, Parts,
                     ServerTest, reserve_ahead, wait_for)
from held_thread import held_thread
from wire import STRICT
from zookeeper import HOST, free_port

CALL = STRICT.call("get_id", "good")
NOBODY = 65534


class Start(ServerTest):
    def without_options(self, **environment):
        """Starts a server without options, as a user without access to /var/lib."""
        user = NOBODY if os.geteuid() == 0 else None
        program = self.directory / "snowflaked"  # in a directory that this user may read
        shutil.copy(SNOWFLAKED, program)
        if user is not None:
            os.chown(self.directory, user, user)
        server = self.launch(listen=None, program=program, user=user, environment={
            name: str(self.directory / path) for name, path in environment.items()})
        server.wait_ready()
        self.assertEqual(server.address, ("127.0.0.1", 7609))
        parts = Parts.of(server.call("get_id", "good"))
        self.assertEqual((parts.datacenter_id, parts.worker_id), (0, 0))
        server.wait_event("unique-in-directory")
        self.assertEqual(server.terminate(), 0)

    def test_without_options(self):
        default_port.borrow(self)
        try:
            socket.create_server(("127.0.0.1", 7609)).close()
        except OSError:
            self.skipTest("port 7609 is taken")
        for variable, place in (("XDG_STATE_HOME", "xdg"), ("HOME", "home/.local/state")):
            with self.subTest(variable):
                self.without_options(**{variable: place.partition("/")[0]})
                self.assertTrue((self.directory / place / "snowflaked/worker-0-0.json").exists())

    def test_the_state_directory_of_systemd(self):
        server = self.launch(environment={"STATE_DIRECTORY": str(self.state)})
        server.wait_ready()
        server.call("get_id", "good")
        self.assertTrue((self.state / "worker-0-0.json").exists())

    def test_sequences_that_continue(self):
        server = self.start("--sequence-start", "continue")
        sequences = [Parts.of(server.call("get_id", "good")).sequence for _ in range(20)]
        self.assertEqual(sequences, list(range(20)))

    def test_several_addresses(self):
        server = self.start("--listen", "[::1]:0", "--listen", "127.0.0.1:0")
        self.assertEqual([host for host, _ in server.addresses], ["127.0.0.1", "::1", "127.0.0.1"])
        for address in server.addresses:
            with wire.Connection(address) as connection:
                self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)

    def test_an_address_that_cannot_be_bound(self):
        address = self.start().name
        for listen, words in ((address, (*address.split(":"), "in use")),
                              ("192.0.2.1:0", ("192.0.2.1",))):
            second = self.launch("--state-directory", self.directory / "other", "--worker-id", 0,
                                 listen=listen)
            self.assert_refused(second, 1, "event=failed", *words)

    def test_config_file(self):
        config = self.directory / "snowflaked.conf"
        config.write_text("[snowflaked]\ndatacenter-id=3\nworker-id=4\nmax-batch=7\n"
                          f"listen=127.0.0.1:0;[::1]:0\nstate-directory={self.state}\n")
        server = self.launch("--config", config, "--worker-id", 5, listen=None)
        server.wait_ready()
        self.assertEqual(len(server.addresses), 2)
        parts = Parts.of(server.call("get_id", "good"))
        self.assertEqual((parts.datacenter_id, parts.worker_id), (3, 5))
        self.assertIsNone(server.find("unique-in-directory"))
        with server.connect() as connection:
            self.assertIsNotNone(connection.call(STRICT, "get_ids", "good", 8).value.count_error)

    def test_the_printed_config_is_a_config(self):
        config = self.directory / "snowflaked.conf"
        config.write_text(self.output("--print-config"))
        server = self.start("--config", config, "--admin-listen", "127.0.0.1:0")
        self.assertGreater(server.call("get_id", "good"), 0)

    def output(self, *options):
        done = subprocess.run([SNOWFLAKED, *options], env=ENVIRONMENT, capture_output=True,
                              text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_help_and_version(self):
        self.assertRegex(self.output("--version"), rf"^snowflaked {VERSION}\n$")
        for option in ("--listen", "--datacenter-id", "--state-directory", "--max-ahead"):
            self.assertIn(option, self.output("--help"))
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([SNOWFLAKED, "--help"], env=ENVIRONMENT, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_wrong_use(self):
        """Each error is one line. The unit test options tests all refused options."""
        for options, words in ((("--nonsense",), ("--nonsense",)),
                               (("--worker-id", "32"), ("worker", "32", "31")),
                               (("--max-ahead", "60001"), ("max-ahead", "60001", "60000")),
                               (("--config", self.directory / "missing"), ("missing",))):
            with self.subTest(options):
                server = self.start(*options, ready=False)
                self.assert_refused(server, 2, *words)
                self.assertEqual(len(server.lines), 1, server.log)
        self.assertFalse(self.state.exists(), "wrong use left something behind")


class Readiness(ServerTest):
    def setUp(self):
        super().setUp()
        path = str(self.directory / "notify")
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notifications.close)
        self.notifications.settimeout(HANG_GUARD_S)
        self.notifications.bind(path)
        self.environment = {"NOTIFY_SOCKET": path}

    def wait_notification(self, *wanted):
        while True:
            if set(wanted) <= set(self.notifications.recv(4096).decode().splitlines()):
                return

    def test_ready_and_stopping(self):
        server = self.start("--drain-delay", 100, "--stop-timeout", 2000, ready=False,
                            environment=self.environment)
        self.wait_notification("READY=1")
        self.assertGreater(server.call("get_id", "good"), 0)
        server.process.terminate()
        extend_us = 1000 * (100 + 2000 + 5000)
        self.wait_notification("STOPPING=1", f"EXTEND_TIMEOUT_USEC={extend_us}")
        self.assertEqual(server.wait_end(), 0)

    def reload_while_it_drains(self, drain_ms):
        """Returns the reload's event, or None if the drain ended before the reload."""
        config = self.directory / "snowflaked.conf"
        config.write_text("[snowflaked]\nstop-timeout=2000\n")
        server = self.start("--config", config, "--drain-delay", drain_ms,
                            environment=self.environment)
        server.begin_stop()
        config.write_text("[snowflaked]\nstop-timeout=60000\n")
        server.send_signal(signal.SIGHUP)
        self.assertEqual(server.wait_end(), 0)
        return server.find("reload", changed="stop-timeout")

    def test_a_stop_that_is_given_more_time(self):
        """A reload during the drain also extends the time limit of the service manager. If the
        drain ended before the reload, the next attempt drains for longer."""
        drains_ms = (1000 * 4 ** attempt for attempt in itertools.count())
        wait_for(lambda: self.reload_while_it_drains(next(drains_ms)), "a reload within the drain")
        self.wait_notification("STOPPING=1", "EXTEND_TIMEOUT_USEC=65000000")

    def test_not_ready_before_an_id_can_be_drawn(self):
        """The reservation of an earlier run ends 1.5 s from now; no ID can be issued before."""
        reserved_until_ms = reserve_ahead(self.state, seconds=1.5)
        server = self.start(ready=False, environment=self.environment)
        self.wait_notification("READY=1")
        self.assertGreater(time.time() * 1000, reserved_until_ms - 100)
        number = server.call("get_id", "good")
        self.assertGreater(Parts.of(number).time_ms, reserved_until_ms)

    def test_the_watchdog_hears_that_all_loops_go_round(self):
        """Idle loops also count. While one loop hangs, there is no notification."""
        server = self.start("--threads", 2,
                            environment={**self.environment, "WATCHDOG_USEC": "200000"})
        for index in range(2):
            for _ in range(3):
                self.wait_notification("WATCHDOG=1")
            with held_thread(server.pid, "loop", index):
                wait_for(self.is_silent, "the end of earlier notifications")

    def is_silent(self):
        """Whether no notification arrives for five intervals of the watchdog."""
        self.notifications.settimeout(0.5)
        try:
            return not self.notifications.recv(4096)
        except TimeoutError:
            return True
        finally:
            self.notifications.settimeout(HANG_GUARD_S)


class Surroundings(ServerTest):
    """The environment that a server inherits."""

    def test_without_standard_descriptors(self):
        """Output to a closed standard error does not end up in a socket or a record."""
        address = (HOST, free_port())
        server = self.start(wrapper=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"), ready=False,
                            listen=f"{address[0]}:{address[1]}")
        server.addresses.append(address)

        def id_of_server():
            try:
                return server.call("get_id", "good")
            except OSError:
                return None
        self.assertGreater(wait_for(id_of_server), 0)
        self.assertEqual([os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in range(3)],
                         ["/dev/null"] * 3)
        self.assertEqual(server.terminate(), 0)

    def test_a_log_that_nobody_reads_any_more(self):
        reader = 'exec "$@" 2> >(sed -u /event=ready/q >&2)'
        server = self.start(wrapper=("bash", "-c", reader, "bash"))
        for _ in range(3):
            server.send_signal(signal.SIGUSR1)
            self.assertGreater(server.call("get_id", "good"), 0)
        self.assertEqual(server.terminate(), 0)
        self.assertIsNone(server.find("stopped"))


class Stop(ServerTest):
    def test_what_was_sent_is_answered(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            with self.subTest(signal.Signals(number).name):
                server = self.start()
                with server.connect() as connection:
                    connection.send(CALL * 1000)
                    first = connection.reply(STRICT).success
                    server.expect_end = True
                    server.send_signal(number)
                    numbers = [first] + [connection.reply(STRICT).success for _ in range(999)]
                    self.assertEqual(len(set(numbers)), 1000)
                    self.assertEqual(connection.rest(), b"")
                self.assertEqual(server.wait_end(), 0)
                server.wait_event("worker-released")
                stopped = server.wait_event("stopped").fields
                self.assertEqual([stopped[name] for name in ("ids", "calls", "exceptions")],
                                 ["1000", "1000", "0"])
                self.assertLessEqual(int(stopped["uptime_s"]), time.monotonic() - server.started)

    def test_several_signals_at_once(self):
        server = self.start()
        server.pause()
        server.expect_end = True
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
            server.send_signal(number)
        self.assertEqual(server.wait_end(), 0)
        server.wait_event("worker-released")

    def test_signals_that_mean_nothing(self):
        numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
                   signal.SIGIO, signal.SIGPWR, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGRTMIN,
                   signal.SIGRTMAX, 16)  # SIGSTKFLT, for which Python has no name
        server = self.start()
        with server.connect() as connection:
            for number in numbers:
                with self.subTest(number):
                    server.send_signal(number)
                    self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
        ignored = server.wait_event("signal-ignored")
        self.assertEqual(ignored.fields["pid"], str(os.getpid()))
        self.assertEqual(server.terminate(), 0)
        server.wait_event("worker-released")

    def test_a_loop_that_cannot_go_on(self):
        if SANITIZED:
            self.skipTest("a sanitizer wants to be the first library")
        library = BUILD / "tests" / "integration" / "libfailing-epoll.so"
        fails = self.directory / "fails"
        server = self.start("--threads", 2, environment={"LD_PRELOAD": str(library),
                                                         "EPOLL_FAILS_IF": str(fails)})
        with server.connect() as connection:
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
            fails.touch()
            server.expect_end = True
            connection.send(CALL)  # wakes the server
            self.assertEqual(server.wait_end(), 1)
        failed = server.wait_event("failed")
        self.assertIn("an event loop cannot wait for events", failed.fields["error"])
        server.wait_event("worker-released")

    def test_a_stop_without_time(self):
        server = self.occupy(self.start(*SLOW, "--stop-timeout", 0))
        self.assertEqual(server.terminate(), 0)
        server.wait_event("worker-released")

    def test_a_keeper_that_hangs(self):
        server = self.start("--stop-timeout", 300)
        server.expect_end = True
        with held_thread(server.pid, "keeper"):
            server.process.terminate()
            wait_for(lambda: server.state() == "Z", what="its end, with the thread held")
        self.assertEqual(server.wait_end(), 1)
        self.assertIn("not released in time", server.find("failed").fields["error"])
        self.assertIn("within 1000 ms", server.find("release-failed").fields["error"])
