# SPDX-License-Identifier: Apache-2.0
"""The state directory: what makes it unusable is one clear line, and never an ID twice."""
import ctypes
import json
import os
import subprocess
import time
import unittest

from harness import Parts, ServerTest, reserve_ahead, wait_for
from wire import EXCEPTION, STRICT

CLONE_NEWNS = 0x00020000


def may_mount():
    """Moves this process, once, to a mount namespace of its own, whose mounts end with it."""
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


def mount(directory, options):
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)


class Unusable(ServerTest):
    """The server does not start."""

    def assert_start_refused(self, *words, options=()):
        server = self.start(*options, ready=False)
        self.assert_refused(server, 1, "event=failed", *words)

    def test_another_layout(self):
        self.start().call("get_id", "good")
        self.assert_start_refused("1288834974657", "1420070400000", str(self.state),
                                  options=("--layout", "discord", "--worker-id", 1))

    def test_another_machine(self):
        self.start().terminate()
        identity = self.state / "directory.json"
        fields = json.loads(identity.read_text())
        fields["machine_id"] = "0" * 32
        identity.write_text(json.dumps(fields))
        self.assert_start_refused("another machine", str(identity))

    def test_a_damaged_record(self):
        for text in ("", "{", "{}", '{"reserved_until_tick": "x"}', "\0", "[1]",
                     '{"reserved_until_tick": -1, "owner": "a", "address": "b"}',
                     '{"reserved_until_tick": 0506475077573, "owner": "a", "address": "b"}',
                     '{"reserved_until_tick": 5, "owner": "a", "address": "b", "more": 1}',
                     "[" * 100_000):
            with self.subTest(text[:100]):
                self.state.mkdir(exist_ok=True)
                (self.state / "worker-0-0.json").write_text(text)
                self.assert_start_refused("worker-0-0.json")
                self.assertEqual((self.state / "worker-0-0.json").read_text(), text)

    def test_not_a_directory(self):
        self.state.write_text("")
        self.assert_start_refused(str(self.state))
        self.state.unlink()
        (self.directory / "file").write_text("")
        self.state = self.directory / "file" / "state"
        self.assert_start_refused(str(self.directory / "file"))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_owner(self):
        self.state.mkdir()
        os.chown(self.state, 12345, 12345)
        self.assert_start_refused(str(self.state), "12345")

    def test_a_directory_that_is_not_ours_to_write(self):
        if os.geteuid() == 0:
            server = self.launch("--state-directory", "/sys/kernel/snowflaked")
            self.assert_refused(server, 1, "event=failed", "/sys/kernel")
        else:
            self.state.mkdir(mode=0o500)
            self.assert_start_refused(str(self.state))


class Ahead(ServerTest):
    """A record from a life whose clock was ahead."""

    def test_it_is_named_with_the_remedy(self):
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
            self.assertGreater(unavailable.retry_after_ms, 0)
            self.assertLessEqual(unavailable.retry_after_ms, 3600 * 1000)
            self.assertEqual(connection.call(STRICT, "get_worker").success.state, "waiting")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)

    def test_it_is_waited_for(self):
        reserve_ahead(self.state, seconds=2)
        reserved_until_ms = time.time() * 1000 + 1990
        number = self.start().call("get_id", "good")
        self.assertGreater(Parts.of(number).time_ms, reserved_until_ms)


class Disks(ServerTest):
    @classmethod
    def setUpClass(cls):
        if not may_mount():
            raise unittest.SkipTest("needs the right to mount")

    def assert_start_refused(self, *words):
        self.assert_refused(self.start(ready=False), 1, "event=failed", str(self.state), *words)

    def test_read_only(self):
        mount(self.state, "ro")
        self.assert_start_refused("Read-only file system")

    def test_full(self):
        mount(self.state, "size=16k")
        self.fill()
        self.assert_start_refused("No space left on device")

    def fill(self):
        """Leaves no room on the state directory's disk; returns what to remove for some."""
        filler = self.state / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return filler

    def test_full_while_running(self):
        """It serves what it has reserved, refuses, and goes on when there is room again."""
        mount(self.state, "size=64k")
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
            before = len(numbers)
            wait_for(lambda: draw() is None and len(numbers) > before + 100)
            server.wait_event("extend-recovered")
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        last = numbers[-1]
        self.assertEqual(server.terminate(), 0)
        self.assertGreater(self.start().call("get_id", "good"), last)

    def test_full_at_the_end(self):
        """The hand-back fails: the next life waits instead, and no ID comes twice."""
        mount(self.state, "size=64k")
        server = self.start()
        last = server.call("get_ids", "good", 1000)[-1]
        filler = self.fill()
        server.terminate()
        filler.unlink()
        self.assertGreater(self.start().call("get_id", "good"), last)


class Running(ServerTest):
    """What can happen to the directory of a server that runs."""

    def test_the_directory_goes_away_and_comes_back(self):
        server = self.start()
        last = server.call("get_id", "good")
        away = self.directory / "away"
        self.state.rename(away)
        refused = wait_for(lambda: self.refusal(server), what="the reservation to run out")
        self.assertRegex(refused.message, "^WorkerIdUnavailable: ")
        away.rename(self.state)
        wait_for(lambda: not self.refusal(server), what="IDs again")
        self.assertGreater(server.call("get_id", "good"), last)

    @staticmethod
    def refusal(server):
        with server.connect() as connection:
            reply = connection.call(STRICT, "get_id", "good")
            return reply.value if reply.kind == EXCEPTION else None
