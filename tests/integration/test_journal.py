# SPDX-License-Identifier: Apache-2.0
"""The log in the journal of a real journald, and as JSON."""

import json
import signal
import uuid

import wire
from admin import LISTEN, Admin
from harness import LONG_WAIT_MS, SLOW, ServerTest, split_address, wait_for
from journal import Journal, skip_unless_possible

NAMESPACE = uuid.UUID("411c39f6-c277-48bd-9fa5-a82c1512df5a")

# More than the stopped journald's sockets can buffer: about ten datagrams, and a stream's buffer.
MANY = 3000

HOSTILE = ('"}\n{"level":"error"', "two\nlines \t\x01\x7f", "\u2028 \u009b[31m \u202e", "=a b\\")


def message_id(event):
    return uuid.uuid5(NAMESPACE, event).hex


class InTheJournal(ServerTest):
    def setUp(self):
        skip_unless_possible()
        super().setUp()
        self.journal = Journal()
        self.addCleanup(self.journal.close)

    def start_logging(self, *options, stream=True):
        server = self.start(*options, ready=False, wrapper=self.journal.wrapper(stream))
        entry = self.journal.wait_entry(SNOWFLAKE_EVENT="listening")
        server.addresses.append(split_address(entry["SNOWFLAKE_ADDRESS"]))
        self.journal.wait_entry(SNOWFLAKE_EVENT="ready")
        return server

    def test_fields(self):
        server = self.start_logging("--worker-id", 7)
        claimed = self.journal.wait_entry(MESSAGE_ID=message_id("worker-claimed"))
        until = claimed["SNOWFLAKE_RESERVED_UNTIL"]
        for key, value in {
                "MESSAGE": "event=worker-claimed datacenter_id=0 worker_id=7 "
                           f"first={claimed['SNOWFLAKE_FIRST']} reserved_until={until}",
                "PRIORITY": "6", "SYSLOG_IDENTIFIER": "snowflaked", "_TRANSPORT": "journal",
                "SNOWFLAKE_EVENT": "worker-claimed", "SNOWFLAKE_WORKER_ID": "7",
                "SNOWFLAKE_DATACENTER_ID": "0", "_PID": str(server.pid)}.items():
            self.assertEqual(claimed[key], value, key)
        server.send_signal(signal.SIGUSR1)
        ignored = self.journal.wait_entry(SNOWFLAKE_EVENT="signal-ignored")
        self.assertEqual(ignored["PRIORITY"], "4")
        self.assertEqual(server.terminate(), 0)
        entries = self.journal.entries(_PID=server.pid)
        self.assertEqual(entries[0]["SNOWFLAKE_EVENT"], "starting")
        self.assertEqual(entries[-1]["SNOWFLAKE_EVENT"], "stopped")
        self.assertEqual(len(entries), len({entry["MESSAGE"] for entry in entries}))

    def test_hostile_values(self):
        for number, text in enumerate(HOSTILE):
            with self.subTest(text=text):
                directory = self.directory / f"{number} {text}"
                server = self.launch("--state-directory", directory,
                                     wrapper=self.journal.wrapper(stream=True))
                entry = wait_for(lambda: self.journal.entries(  # pylint: disable=cell-var-from-loop
                    SNOWFLAKE_EVENT="unique-in-directory", _PID=server.pid))[0]
                self.assertEqual(entry["SNOWFLAKE_STATE_DIRECTORY"], str(directory))
                self.assertNotIn("\n", entry["MESSAGE"])
                self.journal.wait_entry(SNOWFLAKE_EVENT="ready", _PID=server.pid)
                self.assertEqual(server.terminate(), 0)

    def test_it_takes_nothing(self):
        server = self.start_logging("--log-level", "debug", "--max-wait", LONG_WAIT_MS)
        self.journal.stop()
        for _ in range(MANY):
            self.assertGreater(server.call("get_id", "good"), 0)  # more than two events
        self.journal.go_on()
        lost = wait_for(lambda: server.call("get_id", "good") and [
            entry for entry in self.journal.entries(_PID=server.pid)
            if "SNOWFLAKE_LOST_LINES" in entry])
        self.assertGreater(int(lost[0]["SNOWFLAKE_LOST_LINES"]), MANY)
        # entries for which the datagram socket had no room arrive as lines of the stream
        lines = [entry for entry in self.journal.entries(_PID=server.pid)
                 if entry["_TRANSPORT"] == "stdout"]
        self.assertTrue(lines)
        self.assertTrue(all(entry["MESSAGE"].startswith("event=") and entry["PRIORITY"] == "7"
                            for entry in lines), lines[:3])
        self.journal.stop()
        self.assertEqual(server.terminate(), 0)

    def test_it_is_away(self):
        """--log-format journal without a journal: the log goes to standard error."""
        self.journal.close()
        server = self.start("--log-format", "journal")
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("stopped"))


class Debugging(ServerTest):
    def test_connections(self):
        server = self.start("--log-level", "debug")
        with server.connect() as connection:
            sent = connection.encode(wire.STRICT.call("get_id", "good"))
            connection.send(sent)
            connection.reply(wire.STRICT)
            peer = "{}:{}".format(*connection.socket.getsockname())
        server.wait_event("connection-accepted", peer=peer, connections="1")
        ended = server.wait_event("connection-ended", peer=peer)
        # the kernel may also count the end of file
        self.assertIn(int(ended.fields["received_bytes"]) - len(sent), (0, 1))
        self.assertGreater(int(ended.fields["sent_bytes"]), 0)

    def test_requests_over_http(self):
        server, quiet = (self.launch("--state-directory", self.directory / level, *LISTEN,
                                     "--log-level", level).wait_ready()
                         for level in ("debug", "info"))
        admin = Admin(server)
        for path, method, status, shown in (
                ("/ping", "GET", 200, "/ping"),
                ("/ping", "HEAD", 200, "/ping"),
                ("/ids?agent=good&n=3", "POST", 200, "/ids"),
                ("/id?agent=1", "POST", 400, "/id"),
                ("/ping", "POST", 405, "/ping"),
                ("/a%20%22event=failed", "GET", 404, "/a \"event=failed")):
            with self.subTest(path=path, method=method):
                connection = admin.connect()
                connection.connect()
                peer = "{}:{}".format(*connection.sock.getsockname())
                self.assertEqual(admin.ask(path, method, connection).status, status)
                connection.close()
                event = server.wait_event("admin-request", peer=peer)
                self.assertEqual((event.level, event.fields["method"], event.fields["path"],
                                  event.fields["status"]),
                                 ("debug", method, shown, str(status)))
                self.assertLess(int(event.fields["took_us"]), 20_000_000)
        self.assertEqual(Admin(quiet).ask("/ping").status, 200)
        self.assertEqual(quiet.terminate(), 0)
        self.assertIsNone(quiet.find("admin-request"))

    def test_a_request_that_has_to_wait(self):
        """A waiting request logs one event with its waiting time. Each request takes a tick of 100
        ms."""
        server = self.start("--log-level", "debug", *LISTEN, *SLOW)
        admin, asked = Admin(server), []

        def has_waited():
            asked.append(admin.ask("/ids?agent=good&n=16").status)
            wait_for(lambda: server.count_events("admin-request") == len(asked), "an event")
            event = [event for event in server.events if event.name == "admin-request"][-1]
            return event.fields["status"] == "200" and int(event.fields["took_us"]) > 5000
        wait_for(has_waited, "a request that has to wait")
        self.assertEqual(set(asked), {200})


class AsJson(ServerTest):
    def test_hostile_values(self):
        """Each line is a strictly valid object with the original value."""
        for number, text in enumerate(HOSTILE):
            with self.subTest(text=text):
                directory = self.directory / f"{number} {text}"
                server = self.launch("--state-directory", directory, "--log-format", "json",
                                     "--log-level", "debug")
                wait_for(lambda: any('"ready"' in line  # pylint: disable=cell-var-from-loop
                                     for line in list(server.lines)))
                self.assertEqual(server.terminate(), 0)
                objects = [json.loads(line, parse_constant=self.fail) for line in server.lines]
                server.strange.clear()
                for one in objects:
                    self.assertEqual(list(one)[:3], ["time", "level", "event"])
                by_event = {one["event"]: one for one in objects}
                self.assertEqual(by_event["unique-in-directory"]["state_directory"], str(directory))
                self.assertIsInstance(by_event["ready"]["startup_ms"], int)
                self.assertEqual(by_event["worker-claimed"]["worker_id"], 0)
                options = {one["name"]: one["value"] for one in objects
                           if one["event"] == "option"}
                self.assertEqual(options, {
                    "listen": "127.0.0.1:0", "state-directory": str(directory),
                    "log-format": "json", "log-level": "debug"})
