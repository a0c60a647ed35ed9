# SPDX-License-Identifier: Apache-2.0
"""The audit log contains the IDs that clients received, whatever happens to its sinks."""
import collections
import contextlib
import signal
import socket
import subprocess
import threading
import time
import unittest

import audit
import name_server
from audit import RESULT, Scribe
from harness import (CTL_ENVIRONMENT, SNOWFLAKECTL, ServerTest, may_mount, mount, scaled,
                     wait_for)
from name_server import NameServer
from wire import STRICT, Form

QUEUE_BYTES = 65536
DRAW_BYTES = 48  # size of a draw with an agent of up to 8 bytes
QUEUE_DRAWS = QUEUE_BYTES // DRAW_BYTES


def draw(connection, agent, draws):
    """Draws IDs with calls that are not answered together, so that each is a separate draw."""
    return [connection.call(STRICT, "get_id", agent).success for _ in range(draws)]


class AuditTest(ServerTest):
    def setUp(self):
        super().setUp()
        self.path = self.directory / "audit"

    def log_to(self, *sinks, options=()):
        return self.start(*(word for sink in sinks for word in ("--audit-log", sink)), *options)

    def assert_all_there(self, entries, issued):
        """Checks that each ID in `issued` ({agent: IDs}) has one entry, with a unique tag."""
        self.assertEqual(sorted((entry.agent, entry.id) for entry in entries),
                         sorted((agent, number) for agent in issued for number in issued[agent]))
        self.assertEqual(len({entry.tag for entry in entries}), len(entries))

    def assert_all_accounted_for(self, entries, numbers):
        """Checks that each of the IDs of one connection, in order, has an entry or is reported as
        missing at its place. Returns how many are missing."""
        place = 0
        for entry in entries:
            if (gap := audit.missing(entry)) is not None:
                self.assertGreater(gap, 0)
                place += gap
            else:
                self.assertEqual(entry.id, numbers[place])
                place += 1
        self.assertEqual(place, len(numbers))
        return sum(audit.missing(entry) or 0 for entry in entries)


class File(AuditTest):
    def test_every_id_of_every_call(self):
        for options in ((), ("--no-fast-path",)):
            with self.subTest(options):
                other = self.directory / "other"
                server = self.log_to(f"file:{self.path}", f"file:{other}",
                                     options=("--threads", 2, *options))
                issued = {"one": set(), "another-agent": set(), "a" * 256: set()}
                for framed in (True, False):
                    for protocol in ("strict", "unversioned", "compact"):
                        form = Form(framed, protocol)
                        with server.connect() as connection:
                            for agent, numbers in issued.items():
                                connection.send(form.call("get_id", agent) * 100)
                                numbers |= {connection.reply(form).success for _ in range(100)}
                                numbers |= set(connection.call(form, "get_ids", agent,
                                                               1000).success)
                                for run in connection.call(form, "get_id_runs", agent,
                                                           1000).success:
                                    numbers |= set(range(run.first, run.first + run.count))
                                connection.call(form, "get_id", "1")
                self.assertEqual(server.terminate(), 0)
                self.assert_all_there(audit.read(self.path), issued)
                self.assertEqual(collections.Counter(audit.read(other)),
                                 collections.Counter(audit.read(self.path)))
                self.path.unlink()
                other.unlink()

    def test_it_is_appended_to(self):
        numbers = []
        for _ in range(2):
            server = self.log_to(f"file:{self.path}")
            numbers += server.call("get_ids", "agent", 10)
            server.terminate()
        self.assert_all_there(audit.read(self.path), {"agent": numbers})
        self.assertEqual(self.path.stat().st_mode & 0o777 & ~0o640, 0)

    def test_rotated(self):
        server = self.log_to(f"file:{self.path}")
        numbers, old = [], []
        goes_on = threading.Event()
        goes_on.set()

        def draw_on():
            with server.connect() as connection:
                while goes_on.is_set():
                    numbers.extend(draw(connection, "agent", 20))

        thread = threading.Thread(target=draw_on)
        thread.start()
        try:
            for round_number in range(1, 6):
                count = len(numbers)
                wait_for(lambda: len(numbers) > count + 50 and self.path.stat().st_size > 0)
                old.append(self.path.rename(self.directory / f"audit.{round_number}"))
                server.send_signal(signal.SIGHUP)
                wait_for(lambda: server.count_events("audit-reopened") == round_number)
        finally:
            goes_on.clear()
            thread.join()
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(server.count_events("reload"), 5)
        self.assertTrue(all(path.stat().st_size > 0 for path in old))
        self.assert_all_there(audit.read(*old, self.path), {"agent": numbers})

    def test_rotated_while_the_server_starts(self):
        """The server waits for a DNS lookup. Afterwards it opens the files, and the signal is not
        lost."""
        name_server.skip_unless_possible()
        names = NameServer(self, "own.test")
        names.answer(after_s=0.5)
        server = self.start("--audit-log", f"file:{self.path}", "--listen", "own.test:0",
                            "--worker-id", 0,
                            ready=False, wrapper=names.wrapper())
        wait_for(lambda: names.queries > 0)
        server.send_signal(signal.SIGHUP)
        server.wait_event("reload")
        server.wait_ready()

    def test_it_cannot_be_opened_again(self):
        server = self.log_to(f"file:{self.path}")
        old = self.path.rename(self.directory / "old")
        self.path.mkdir()
        server.send_signal(signal.SIGHUP)
        self.assertIn(str(self.path), server.wait_event("audit-reopen-failed").fields["error"])
        number = server.call("get_id", "agent")
        server.terminate()
        self.assertEqual([entry.id for entry in audit.read(old)], [number])

    def test_it_cannot_be_opened(self):
        path = self.directory / "none" / "audit"
        server = self.launch("--state-directory", self.state, "--audit-log", f"file:{path}")
        self.assert_refused(server, 1, "event=failed", f"--audit-log: cannot open {path}",
                            "No such file or directory")

    def test_killed(self):
        server = self.log_to(f"file:{self.path}")
        numbers = []
        with server.connect() as connection:
            numbers += draw(connection, "agent", 1000)
            wait_for(lambda: server.counters()["reporter_flush_queue"] == 0)
            written = len(numbers)
            numbers += draw(connection, "agent", 1000)
            server.kill()
        text = self.path.read_bytes()
        entries = [audit.decode(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]
        self.assertGreaterEqual(len(entries), written)
        self.assertEqual([entry.id for entry in entries], numbers[:len(entries)])


class Load(AuditTest):
    """Under load, each ID has a line, or a line reports how many are missing."""

    def log_under_load(self, in_flight, calls):
        """Returns (number of IDs in the log, number of IDs reported as missing)."""
        server = self.log_to(f"file:{self.path}", options=("--stop-timeout", 60000))
        host, port = server.address
        subprocess.run([SNOWFLAKECTL, "bench", "--server", f"{host}:{port}", "--connections", "16",
                        "--in-flight", str(in_flight), "--calls", str(calls)],
                       env=CTL_ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(server.terminate(), 0)
        with open(self.path, "rb") as file:
            lines = collections.Counter(line.startswith(audit.MISSING_LINE) for line in file)
            file.seek(0)
            missing = sum(audit.missing(audit.decode(line.strip())) for line in file
                          if line.startswith(audit.MISSING_LINE))
        self.assertEqual(lines[False] + missing, calls)
        return lines[False], missing

    def test_one_call_in_flight_on_each_connection(self):
        _, missing = self.log_under_load(1, scaled(100000))
        self.assertEqual(missing, 0)

    def test_many(self):
        calls = scaled(3000000)
        written, _ = self.log_under_load(32, calls)
        self.assertGreaterEqual(written, 0.9 * calls)


class Full(AuditTest):
    @classmethod
    def setUpClass(cls):
        if not may_mount():
            raise unittest.SkipTest("needs the right to mount")

    def setUp(self):
        super().setUp()
        disk = self.directory / "disk"
        mount(disk, "size=64k")
        self.path = disk / "audit"
        self.filler = disk / "filler"

    def fill(self):
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def test_full(self):
        server = self.log_to(f"file:{self.path}", options=("--audit-queue", QUEUE_BYTES))
        with server.connect() as connection:
            numbers = draw(connection, "agent", 10)
            wait_for(lambda: self.path.stat().st_size > 0)
            self.fill()
            while server.find("audit-failed") is None:
                numbers += draw(connection, "agent", 10)
            numbers += draw(connection, "agent", 2 * QUEUE_DRAWS)
            counters = server.counters()
            self.assertGreater(counters["scribe_enqueue_failures"], 0)
            self.assertGreaterEqual(counters["reporter_flush_queue"], QUEUE_DRAWS)
            dropping = server.wait_event("audit-dropping")
            self.assertEqual(dropping.level, "warning")
            self.assertIn("No space left on device", dropping.fields["error"])
            self.filler.unlink()
            mount_larger(self.path.parent)
            recovered = server.wait_event("audit-recovered")
            self.assertEqual(recovered.fields["dropped_ids"],
                             str(counters["scribe_enqueue_failures"]))
            server.wait_event("audit-gap")
            numbers += draw(connection, "agent", 10)
        self.assertEqual(server.terminate(), 0)
        for name in ("audit-failed", "audit-recovered"):
            self.assertEqual(server.count_events(name), 1)
        self.assertEqual(self.assert_all_accounted_for(audit.read(self.path), numbers),
                         counters["scribe_enqueue_failures"])

    def test_full_at_the_end(self):
        server = self.log_to(f"file:{self.path}", options=("--stop-timeout", 0))
        self.fill()
        numbers = server.call("get_ids", "agent", 5000)
        server.wait_event("audit-failed")
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(server.find("audit-lost").fields["ids"], str(len(numbers)))


def mount_larger(directory):
    mount(directory, "remount,size=16m")


class ToScribe(AuditTest):
    def log_to_scribe(self, scribe, *options, category=""):
        return self.log_to(f"scribe://127.0.0.1:{scribe.port}{category}", options=options)

    def test_every_id(self):
        for strict in (False, True):  # Scribe's own server is not strict
            with self.subTest(strict=strict):
                scribe = Scribe(self, strict=strict)
                server = self.log_to_scribe(scribe, category="/ids" if strict else "")
                numbers = server.call("get_ids", "agent", 1000) + [server.call("get_id", "agent")]
                self.assertEqual(server.terminate(), 0)
                self.assert_all_there(scribe.entries(), {"agent": numbers})
                self.assertEqual(scribe.categories, {"ids" if strict else "snowflake"})
                self.assertTrue(all(len(batch) <= 100 for batch in scribe.batches))
                self.assertLess(len(scribe.batches), 20)

    def test_it_is_slow(self):
        """The server's log has few lines for many gaps; their sum is the number of missing IDs."""

        def answer():
            time.sleep(0.05)  # lint: allow sleep: a slow Scribe is the purpose
            return RESULT.OK

        scribe = Scribe(self, answer)
        server = self.log_to_scribe(scribe, "--audit-queue", QUEUE_BYTES)
        numbers = []

        def gaps():
            return sum(audit.missing(entry) is not None for entry in scribe.entries())

        with server.connect() as connection:  # the rate depends on the machine
            while gaps() <= 2 and len(numbers) < 40 * QUEUE_DRAWS:
                numbers += draw(connection, "agent", QUEUE_DRAWS)
        self.assertEqual(server.terminate(), 0)
        told = [int(event.fields["ids"]) for event in server.events if event.name == "audit-gap"]
        self.assertGreater(gaps(), 2)
        self.assertEqual(len(told), 2)
        self.assertEqual(sum(told), self.assert_all_accounted_for(scribe.entries(), numbers))

    def test_it_fails_now_and_then(self):
        """Frequent failures for more than a second count as one, whose end is logged when it is
        certain."""
        answers = [RESULT.OK, RESULT.TRY_LATER] * 25
        scribe = Scribe(self, lambda: answers.pop() if answers else RESULT.OK)
        server = self.log_to_scribe(scribe)
        numbers = server.call("get_ids", "agent", 3000)
        recovered = server.wait_event("audit-recovered")
        self.assertIn("TRY_LATER", server.find("audit-failed").fields["error"])
        self.assertEqual(answers, [])
        self.assertGreater(int(recovered.fields["failed_ms"]), 1000)
        self.assertEqual(int(recovered.fields["failures"]), 25)
        self.assertEqual(server.terminate(), 0)
        for name in ("audit-failed", "audit-recovered"):
            self.assertEqual(server.count_events(name), 1)
        self.assert_all_there(scribe.entries(), {"agent": numbers})

    def test_it_dies_and_comes_back(self):
        answers = [None, RESULT.OK, RESULT.OK]
        scribe = Scribe(self, lambda: answers.pop() if answers else RESULT.OK)
        server = self.log_to_scribe(scribe)
        numbers = server.call("get_ids", "agent", 1000)
        scribe.wait(lambda: scribe.tries > 3, "another try")
        scribe.stop()
        wait_for(lambda: server.find("audit-failed"))
        numbers += server.call("get_ids", "agent", 1000)
        scribe.listen()
        self.assertEqual(server.terminate(), 0)
        self.assert_once_or_more(scribe.entries(), numbers)

    def test_it_is_no_scribe(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def answer():
            with contextlib.suppress(ConnectionError), listener.accept()[0] as connection:
                connection.recv(1)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while connection.recv(65536):  # until the server has closed it
                    pass

        threading.Thread(target=answer, daemon=True).start()
        server = self.log_to(f"scribe://127.0.0.1:{listener.getsockname()[1]}",
                             options=("--stop-timeout", 0))
        server.call("get_id", "agent")
        self.assertEqual(server.wait_event("audit-failed").fields["error"],
                         "not a reply from a Scribe server")

    def test_it_is_another_one_meanwhile(self):
        scribe = Scribe(self)
        server = self.log_to_scribe(scribe)
        numbers = server.call("get_ids", "agent", 10)
        wait_for(lambda: server.counters()["reporter_flush_queue"] == 0)
        scribe.stop()
        scribe.listen()
        numbers += server.call("get_ids", "agent", 10)
        self.assertEqual(server.terminate(), 0)
        self.assertIsNone(server.find("audit-failed"))
        self.assert_all_there(scribe.entries(), {"agent": numbers})

    def assert_once_or_more(self, entries, numbers):
        """Checks that each ID has an entry; entries that were delivered twice count once."""
        self.assert_all_there(set(entries), {"agent": numbers})

    def test_it_is_not_there_yet(self):
        scribe = Scribe(self)
        scribe.stop()
        server = self.log_to_scribe(scribe)
        numbers = server.call("get_ids", "agent", 1000)
        server.wait_event("audit-failed")
        scribe.listen()
        server.wait_event("audit-recovered")
        server.terminate()
        self.assert_all_there(scribe.entries(), {"agent": numbers})

    def test_it_hangs(self):
        """Calls are answered. The stop is bounded, and reports the lost IDs. An attempt in progress
        does not delay it."""
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)

        def hang():
            goes_on.wait()

        scribe = Scribe(self, hang)
        server = self.log_to_scribe(scribe, "--stop-timeout", 200, "--audit-queue", QUEUE_BYTES)
        with server.connect() as connection:
            draw(connection, "agent", 10)
            scribe.wait(lambda: scribe.tries == 1, "a try")
            draws = 2 * QUEUE_DRAWS
            draw(connection, "agent", draws)
            self.assertGreater(server.counters()["scribe_enqueue_failures"], 0)
        self.assertEqual(server.terminate(), 0)
        # it would mean that the attempt has timed out
        self.assertIsNone(server.find("audit-failed"))
        self.assertEqual(server.find("audit-lost").fields["ids"], str(10 + draws))

    def test_it_hangs_for_a_while(self):
        """If it hangs longer than an attempt may take, the server tries again on another
        connection."""
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)
        first = [True]

        def hang_once():
            if first.pop() if first else False:
                goes_on.wait()
                return None
            return RESULT.OK

        scribe = Scribe(self, hang_once)
        server = self.log_to_scribe(scribe)
        numbers = server.call("get_ids", "agent", 150)
        self.assertIn("5000 ms", server.wait_event("audit-failed").fields["error"])
        server.wait_event("audit-recovered")
        server.terminate()
        self.assert_all_there(scribe.entries(), {"agent": numbers})
