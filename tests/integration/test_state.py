# SPDX-License-Identifier: Apache-2.0
"""The state directory: what makes it unusable is one clear line, and never an ID twice."""
import json
import os
import signal
import subprocess
import threading
import unittest

from harness import Parts, ServerTest, may_mount, mount, reserve_ahead, wait_for
from wire import EXCEPTION, STRICT, Closed


class Unusable(ServerTest):
    """The server does not start."""

    def assert_start_refused(self, *words, options=()):
        server = self.start(*options, ready=False)
        self.assert_refused(server, 1, "event=failed", *words)

    def test_another_layout(self):
        self.start().call("get_id", "good")
        self.assert_start_refused("1288834974657", "1420070400000", str(self.state),
                                  options=("--layout", "discord", "--worker-id", 1))

    def test_another_layout_and_no_identity(self):
        self.start().call("get_id", "good")
        (self.state / "directory.json").unlink()
        self.assert_start_refused("worker-0-0.json is there without directory.json",
                                  options=("--layout", "discord", "--worker-id", 1))
        self.assertFalse((self.state / "directory.json").exists())

    def test_another_machine(self):
        self.start().terminate()
        identity = self.state / "directory.json"
        fields = json.loads(identity.read_text())
        fields["machine_id"] = "0" * 32
        identity.write_text(json.dumps(fields))
        self.assert_start_refused("another machine", str(identity))

    def test_a_damaged_record(self):
        self.start().terminate()
        for text in ("", "{", "{}", '{"reserved_until_tick": "x"}', "\0", "[1]",
                     '{"reserved_until_tick": -1, "owner": "a", "address": "b"}',
                     '{"reserved_until_tick": 0506475077573, "owner": "a", "address": "b"}',
                     '{"reserved_until_tick": 5, "owner": "a", "address": "b", "more": 1}',
                     "[" * 100_000):
            with self.subTest(text[:100]):
                (self.state / "worker-0-0.json").write_text(text)
                self.assert_start_refused("worker-0-0.json is ")
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

    def test_a_directory_that_others_may_write(self):
        """One who can write there could plant a link, by which the server would write elsewhere."""
        self.state.mkdir()
        (self.directory / "precious").write_text("precious")
        (self.state / "worker-0-0.lock").symlink_to(self.directory / "precious")
        for mode in (0o770, 0o702, 0o1777):
            with self.subTest(oct(mode)):
                self.state.chmod(mode)
                self.assert_start_refused(f"mode {mode:04o}", "chmod go-w")
        self.state.chmod(0o755)
        self.assert_start_refused("worker-0-0.lock", "a symbolic link")
        self.assertEqual((self.directory / "precious").read_text(), "precious")

    def test_a_record_that_is_none(self):
        """Nobody writes into the other end of a FIFO, and 4 GiB are not read."""
        self.start().terminate()
        record = self.state / "worker-0-0.json"
        record.unlink()
        os.mkfifo(record)
        self.assert_start_refused(str(record), "not a regular file")
        record.unlink()
        record.touch()
        os.truncate(record, 4 << 30)
        self.assert_start_refused(str(record), "4294967296 bytes")

    def test_what_is_made_is_for_the_owner_only(self):
        self.start().call("get_id", "good")
        self.assertEqual(self.state.stat().st_mode & 0o777, 0o700)
        for path in self.state.iterdir():
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)

    def test_a_directory_that_is_not_ours_to_write(self):
        if os.geteuid() == 0:
            server = self.launch("--state-directory", "/sys/kernel/snowflaked")
            self.assert_refused(server, 1, "event=failed", "/sys/kernel")
        else:
            self.state.mkdir(mode=0o500)
            self.assert_start_refused(str(self.state))


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Prepared(ServerTest):
    """A directory that root made, for a server of another user."""
    USER = 12345

    def test_below_one_that_is_closed(self):
        self.directory.chmod(0o711)
        self.state.mkdir(mode=0o700)
        os.chown(self.state, self.USER, self.USER)
        self.assertGreater(self.start(user=self.USER).call("get_id", "good"), 0)


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
            self.assertGreater(unavailable.retry_after_ms, 3500 * 1000)
            self.assertLessEqual(unavailable.retry_after_ms, 3600 * 1000)
            self.assertEqual(connection.call(STRICT, "get_worker").success.state, "waiting")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)

    def test_it_is_waited_for(self):
        reserved_until_ms = reserve_ahead(self.state, seconds=2)
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
        mount(self.state, "ro,mode=0700")
        self.assert_start_refused("Read-only file system")

    def test_full(self):
        mount(self.state, "size=16k,mode=0700")
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
            before = len(numbers)
            wait_for(lambda: draw() is None and len(numbers) > before + 100)
            server.wait_event("extend-recovered")
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        last = numbers[-1]
        self.assertEqual(server.terminate(), 0)
        self.assertGreater(self.start().call("get_id", "good"), last)

    def test_full_at_the_end(self):
        """The hand-back fails: the next life waits instead, and no ID comes twice."""
        mount(self.state, "size=64k,mode=0700")
        server = self.start()
        last = server.call("get_ids", "good", 1000)[-1]
        filler = self.fill()
        server.terminate()
        filler.unlink()
        self.assertGreater(self.start().call("get_id", "good"), last)


class Drawer:
    """Draws from a server without a pause, on a connection of its own, until that ends."""

    def __init__(self, server):
        self.numbers = []
        self._connection = server.connect()
        self._stopped = False
        self._thread = threading.Thread(target=self._draw)
        self._thread.start()

    def _draw(self):
        with self._connection as connection:
            while not self._stopped:
                try:
                    reply = connection.call(STRICT, "get_id", "good")
                except (Closed, OSError):
                    return
                if reply.kind != EXCEPTION:
                    self.numbers.append(reply.value.success)

    def wait_for_more(self):
        before = len(self.numbers)
        wait_for(lambda: len(self.numbers) > before + 100, what="IDs")

    def stop(self):
        self._stopped = True
        self._thread.join()
        return self.numbers


class Running(ServerTest):
    """What can happen to the directory of a server that runs."""

    def start_drawing(self, server):
        drawer = Drawer(server)
        self.addCleanup(drawer.stop)
        drawer.wait_for_more()
        return drawer

    def assert_within_record(self, drawer):
        """No ID is of a tick that the record in the old directory does not reserve."""
        record = json.loads((self.directory / "away" / "worker-0-0.json").read_text())
        self.assertLess(drawer.stop()[-1] >> 22, record["reserved_until_tick"])

    def test_the_directory_goes_away(self):
        """It is made anew, for the server that runs."""
        server = self.start()
        drawer = self.start_drawing(server)
        self.state.rename(self.directory / "away")
        lost = server.wait_event("worker-lost")
        self.assertIn("worker-0-0.json is gone", lost.fields["error"])
        drawer.wait_for_more()
        second = self.start(ready=False)
        self.assert_refused(second, 1, "event=failed", f"held by pid {server.pid}")
        numbers = drawer.stop()
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        self.assertEqual(server.terminate(), 0)
        self.assertGreater(self.start().call("get_id", "good"), numbers[-1])

    def test_the_record_goes_away(self):
        server = self.start()
        drawer = self.start_drawing(server)
        (self.state / "worker-0-0.json").unlink()
        server.wait_event("worker-lost")
        drawer.wait_for_more()
        numbers = drawer.stop()
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))

    def test_a_server_that_is_idle_notices(self):
        server = self.start()
        self.state.rename(self.directory / "away")
        server.wait_event("worker-lost")

    def test_a_second_server_starts_in_another_directory_of_that_name(self):
        """The first one is stopped meanwhile, so that it cannot be there before the second. What it
        issues from there on, the second may issue too: its record ends that."""
        first = self.start()
        drawer = self.start_drawing(first)
        first.send_signal(signal.SIGSTOP)
        self.state.rename(self.directory / "away")
        second = self.start()
        other = self.start_drawing(second)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait_end(), 1, first.log)
        self.assertIn("is now of", first.wait_event("worker-lost").fields["error"])
        self.assertIn(f"held by pid {second.pid}", first.wait_event("failed").fields["error"])
        other.wait_for_more()
        self.assert_within_record(drawer)

    def test_a_snapshot_of_hard_links(self):
        """The server that runs goes on; the next start says what to do."""
        server = self.start()
        drawer = self.start_drawing(server)
        snapshot = self.directory / "snapshot"
        snapshot.mkdir()
        for name in ("directory.json", "worker-0-0.lock", "worker-0-0.json"):
            os.link(self.state / name, snapshot / name)
        record = self.state / "worker-0-0.json"
        before = record.read_text()
        wait_for(lambda: record.read_text() != before, what="an extension")
        drawer.wait_for_more()
        drawer.stop()
        self.assertIsNone(server.find("worker-lost"))
        self.assertEqual(server.terminate(), 0)
        refused = self.start(ready=False)
        self.assert_refused(refused, 1, "event=failed", "directory.json", "it has 2 links",
                            "cp -p FILE x && mv x FILE")
        for path in self.state.iterdir():
            subprocess.run(["cp", "-p", path, self.state / "x"], check=True)
            (self.state / "x").rename(path)
        self.assertGreater(self.start().call("get_id", "good"), drawer.numbers[-1])

    def test_it_is_gone_and_cannot_be_made_again(self):
        server = self.start()
        drawer = self.start_drawing(server)
        self.state.rename(self.directory / "away")
        self.state.touch()
        self.assertEqual(server.wait_end(), 1, server.log)
        self.assertIn("is gone", server.wait_event("worker-lost").fields["error"])
        self.assertIn("is not a directory", server.wait_event("failed").fields["error"])
        self.assert_within_record(drawer)
