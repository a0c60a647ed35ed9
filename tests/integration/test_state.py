# SPDX-License-Identifier: Apache-2.0
"""The state directory of real servers: their messages, exit statuses and replies.
tests/simulation/simulation-directory.c tests all faults of a directory, a disk and an operator."""
import os
import unittest

from admin import LISTEN, Admin
from fake_clock import FakeClock
from harness import BUILD, SANITIZED, ServerTest, may_mount, mount, reserve_ahead, wait_for
from wire import EXCEPTION, STRICT

HALF_AN_HOUR_MS = 1800 * 1000


class Starts(ServerTest):
    def test_another_layout(self):
        self.start().call("get_id", "good")
        server = self.start("--layout", "discord", "--worker-id", 1, ready=False)
        self.assert_refused(server, 1, "event=failed", "1288834974657", "1420070400000",
                            str(self.state))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_below_a_directory_that_is_closed(self):
        """Root has made the directory for a server with another user."""
        user = 12345
        self.directory.chmod(0o711)
        self.state.mkdir(mode=0o700)
        os.chown(self.state, user, user)
        self.assertGreater(self.start(user=user).call("get_id", "good"), 0)

    def test_a_record_whose_clock_was_ahead(self):
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        waiting = server.wait_event("worker-waiting")
        self.assertRegex(waiting.fields["until"], r"^\d{4}-\d\d-\d\dT")
        self.assertIn("or use another --worker-id", waiting.fields["why"])
        with server.connect() as connection:
            reply = connection.call(STRICT, "get_id", "good")
            self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 6))
            self.assertRegex(reply.value.message, "^WorkerIdUnavailable: ")
            unavailable = connection.call(STRICT, "get_ids", "good", 2).value.worker
            self.assertGreater(unavailable.retry_after_ms, 3000 * 1000)
            self.assertLessEqual(unavailable.retry_after_ms, 3600 * 1000)
            self.assertEqual(connection.call(STRICT, "get_worker").success.state, "waiting")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)


class Disks(ServerTest):
    @classmethod
    def setUpClass(cls):
        if not may_mount():
            raise unittest.SkipTest("needs the right to mount")

    def fill(self):
        """Fills the state directory's disk. Returns the file whose removal frees space."""
        filler = self.state / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return filler

    def test_full_while_running(self):
        mount(self.state, "size=64k,mode=0700")
        server = self.start()
        numbers = []
        with server.connect() as connection:
            def draw():
                reply = connection.call(STRICT, "get_id", "good")
                if reply.kind == EXCEPTION:
                    return reply.value
                numbers.append(reply.value.success)
                return None

            wait_for(lambda: draw() is None)
            filler = self.fill()
            refusal = wait_for(draw, what="the reservation to run out")
            self.assertEqual(refusal.type, 6)
            self.assertRegex(refusal.message, "^WorkerIdUnavailable: ")
            server.wait_event("extend-failed")
            server.wait_event("reservation-spent")
            self.assertEqual(connection.call(STRICT, "get_worker").success.state, "unavailable")
            typed = connection.call(STRICT, "get_ids", "good", 2).value.worker
            self.assertGreater(typed.retry_after_ms, 0)
            filler.unlink()
            wait_for(lambda: draw() is None)
            server.wait_event("extend-recovered")
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        self.assertEqual(server.terminate(), 0)
        self.assertGreater(self.start().call("get_id", "good"), numbers[-1])


class Running(ServerTest):
    def test_the_disk_hangs(self):
        """The log and /readyz name the hanging call as long as it hangs."""
        if SANITIZED:
            self.skipTest("a sanitizer wants to be the first library")
        library = BUILD / "tests" / "integration" / "libhanging-disk.so"
        hangs = self.directory / "hangs"
        server = self.start(*LISTEN, environment={"LD_PRELOAD": str(library),
                                                  "DISK_HANGS_IF": str(hangs)})
        record = str(self.state / "worker-0-0.json")
        hangs.touch()
        with server.connect() as connection:
            def is_refused():
                return connection.call(STRICT, "get_id", "good").kind == EXCEPTION
            wait_for(is_refused, what="the end of the reservation")
            fields = server.wait_event("disk-hangs").fields
            self.assertEqual((fields["operation"], fields["path"]), ("replace", record))
            self.assertGreaterEqual(int(fields["for_ms"]), 3000)
            reply = Admin(server).ask("/readyz")
            self.assertEqual(reply.status, 503)
            self.assertIn(f'the disk hangs: "replace" {record} has taken', reply.text)
            hangs.unlink()
            fields = server.wait_event("disk-recovered").fields
            self.assertEqual((fields["operation"], fields["path"]), ("replace", record))
            wait_for(lambda: not is_refused(), what="an ID")
        self.assertEqual(server.terminate(), 0)

    def test_the_directory_goes_away(self):
        server = self.start()
        before = server.call("get_id", "good")
        self.state.rename(self.directory / "away")
        self.assertIn("worker-0-0.json is gone", server.wait_event("worker-lost").fields["error"])
        self.assertGreater(server.call("get_id", "good"), before)
        self.assert_refused(self.start(ready=False), 1, "event=failed",
                            f"held by pid {server.pid}")
        self.assertEqual(server.terminate(), 0)


class Steps(ServerTest):
    def test_a_step_back_is_refused_until_the_clock_has_caught_up(self):
        if SANITIZED:
            self.skipTest("libfaketime does not go with a sanitizer")
        clock = FakeClock(self.directory)
        server = self.start("--max-clock-skew", 2 * HALF_AN_HOUR_MS, environment=clock.environment)
        with server.connect() as connection:
            before = connection.call(STRICT, "get_id", "good").success
            clock.step_ms(-HALF_AN_HOUR_MS)
            server.wait_event("clock-back")
            refused = connection.call(STRICT, "get_id", "good")
            self.assertEqual((refused.kind, refused.value.type), (EXCEPTION, 6))
            self.assertRegex(refused.value.message,
                             r"^InvalidSystemClock: Clock moved backwards.  Refusing to generate "
                             r"id for \d+ milliseconds$")
            typed = connection.call(STRICT, "get_ids", "good", 2).value
            self.assertRegex(typed.clock.message, "^Clock moved backwards.  Refusing to generate")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)
            self.assertEqual(server.counters()["clock_skew"], 2)
            clock.step_ms(HALF_AN_HOUR_MS)
            after = wait_for(lambda: self.id_or_none(connection))
        self.assertGreater(after, before)

    @staticmethod
    def id_or_none(connection):
        reply = connection.call(STRICT, "get_id", "good")
        return None if reply.kind == EXCEPTION else reply.success
