# SPDX-License-Identifier: Apache-2.0
"""Servers on local sockets: replacing the file, refusals, and access."""
import grp
import os
import pwd
import signal
import socket
import subprocess
import unittest
import uuid

import official
import wire
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, ServerTest, scaled, wait_for
from passed import PassedTest
from wire import FORMS, STRICT

OTHER = pwd.getpwnam("daemon")
ROUNDS, AT_ONCE = scaled(8, 2), 4
IS_ROOT = os.geteuid() == 0


def mode_of(path):
    return path.lstat().st_mode & 0o7777


class LocalTest(ServerTest):
    def setUp(self):
        super().setUp()
        self.path = self.directory / "ids"
        self.address = f"unix:{self.path}"

    def start_local(self, *options, listen=None, state=None, **settings):
        return self.launch("--state-directory", state or self.state, *options,
                           listen=listen or self.address, **settings)

    def serve(self, *options, **settings):
        return self.start_local(*options, **settings).wait_ready()

    def refused(self, *words, status=1, state="other", **settings):
        """Checks that a server fails to start, with these words."""
        server = self.start_local(state=self.directory / state, **settings)
        self.assert_refused(server, status, "cannot listen on unix:" if status == 1 else "", *words)

    def connect(self, address=None):
        connection = wire.Connection(address or self.address, HANG_GUARD_S)
        self.addCleanup(connection.close)
        return connection

    def leave_stale(self):
        """Leaves a stale file, like a killed process."""
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(self.path))

    def assert_serves(self, address=None):
        with wire.Connection(address or self.address, HANG_GUARD_S) as connection:
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)


class Serving(LocalTest):
    def test_every_form(self):
        abstract = f"unix:@test-{uuid.uuid4()}"
        server = self.serve("--listen", abstract)
        self.assertEqual(server.addresses, [self.address, abstract])
        for address in server.addresses:
            connections = {form: self.connect(address) for form in FORMS}
            for form, connection in connections.items():
                with self.subTest(address=address, form=str(form)):
                    connection.send(form.call("get_id", "good") * 1000)
                    ids = [connection.reply(form).success for _ in range(1000)]
                    self.assertEqual(ids, sorted(set(ids)))
                    self.assertEqual(len(connection.call(form, "get_ids", "good", 10000).success),
                                     10000)
        self.assertEqual(server.terminate(), 0)
        self.assertFalse(self.path.exists())

    def test_replies_that_wait(self):
        self.serve("--max-ahead", 1000)
        connection = self.connect()
        connection.send(STRICT.call("get_ids", "good", 10000) * 50)
        ids = [number for _ in range(50) for number in connection.reply(STRICT).success]
        self.assertEqual(len(set(ids)), 500_000)

    def test_who_comes_and_goes_is_logged(self):
        server = self.serve("--log-level", "debug")
        connection = self.connect()
        peer = f"unix:uid={os.geteuid()},pid={os.getpid()}"
        connection.call(STRICT, "get_id", "good")
        connection.close()
        self.assertEqual(server.wait_event("connection-accepted").fields["peer"], peer)
        self.assertEqual(server.wait_event("connection-ended").fields, {"peer": peer})
        rude = self.connect()
        rude.send(b"GET / HTTP/1.1\r\n\r\n")
        rude.rest()
        self.assertEqual(server.wait_event("connection-closed").fields["peer"], peer)
        self.assert_serves()

    def test_where_it_is_reached(self):
        for listen, expected in ((("127.0.0.1:0",), None), ((), self.address)):
            with self.subTest(expected):
                server = self.serve(*(word for each in listen for word in ("--listen", each)))
                told = self.connect().call(STRICT, "get_worker").success.address
                self.assertEqual(told, expected or "%s:%d" % server.addresses[1])
                server.terminate()

    def test_the_tool(self):
        self.serve()
        done = subprocess.run([SNOWFLAKECTL, "--server", self.address, "bench", "--calls", "100",
                               "--connections", "3", "--check"], env=CTL_ENVIRONMENT,
                              capture_output=True, text=True, check=True)
        self.assertIn("no duplicates", done.stdout)
        for command in (("id",), ("ping", "--count", "1"), ("workers",), ("status",)):
            with self.subTest(command):
                done = subprocess.run([SNOWFLAKECTL, "--server", self.address, *command],
                                      env=CTL_ENVIRONMENT, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_official_clients(self):
        abstract = f"unix:@test-{uuid.uuid4()}"
        self.serve("--listen", abstract)
        for address, clients in ((self.address, official.LOCAL), (abstract, [
                language[official.IDL_2010] for language in
                (official.PYTHON, official.GO, official.CPP)])):
            for client in clients:
                with client.session() as session:
                    for form in client.forms:
                        with self.subTest(client=client.name, form=str(form)):
                            session.open(address, form)
                            numbers = session.numbers("get_id", "infra-dm", 100)
                            self.assertEqual(len(set(numbers)), 100)
                            self.assertGreater(min(numbers), 0)


class TheFile(LocalTest):
    def test_of_a_server_that_was_killed_it_is_taken_over(self):
        for _ in range(3):
            server = self.serve()
            self.assert_serves()
            server.kill()
            self.assertTrue(self.path.is_socket())
        self.serve()
        self.assert_serves()

    def test_where_somebody_listens_it_is_refused(self):
        first = self.serve()
        said = ("another process is already listening there", str(self.path))
        self.refused(*said)
        with self.subTest("one that is stopped"):
            first.send_signal(signal.SIGSTOP)
            self.refused(*said)
            first.send_signal(signal.SIGCONT)
        self.assert_serves()

    def test_of_those_that_start_at_once_one_wins(self):
        for number in range(ROUNDS):
            with self.subTest(number, stale=number % 2):
                if number % 2:
                    self.leave_stale()
                servers = [self.start_local(state=self.directory / f"{number}-{i}")
                           for i in range(AT_ONCE)]
                wait_for(lambda: all(each.find("ready") or each.find("failed")
                                     for each in servers))
                won = [each for each in servers if each.find("ready")]
                self.assertEqual(len(won), 1, [each.log for each in servers])
                for each in servers:
                    if each is not won[0]:
                        self.assert_refused(each, 1, "another process is already listening there")
                self.assert_serves()
                won[0].terminate()
                self.assertFalse(self.path.exists())

    def test_of_a_start_that_fails_nothing_is_left(self):
        server = self.start_local("--listen", f"unix:{self.directory}/missing/ids")
        self.assert_refused(server, 1, "the directory ")
        self.assertFalse(self.path.exists())

    def test_who_has_connected_is_served_at_the_end(self):
        server = self.serve()
        server.send_signal(signal.SIGSTOP)
        waiting = [self.connect() for _ in range(20)]
        for connection in waiting:
            connection.send(STRICT.call("get_id", "good"))
        server.process.terminate()
        server.send_signal(signal.SIGCONT)
        for connection in waiting:
            self.assertGreater(connection.reply(STRICT).success, 0)
            self.assertEqual(connection.rest(), b"")
        self.assertEqual(server.wait_end(), 0)

    def test_its_mode(self):
        for mode, expected in ((None, 0o666), ("0600", 0o600), ("0", 0), ("660", 0o660)):
            for mask in ("000", "777"):
                with self.subTest(mode=mode, mask=mask):
                    options = () if mode is None else ("--socket-mode", mode)
                    server = self.serve(*options, wrapper=(
                        "sh", "-c", f'mkdir -p {self.state}; umask {mask}; exec "$0" "$@"'))
                    self.assertEqual(mode_of(self.path), expected)
                    server.terminate()

    @unittest.skipUnless(IS_ROOT, "only root can be another user")
    def test_its_group(self):
        group = grp.getgrgid(OTHER.pw_gid)
        for text in (group.gr_name, group.gr_gid):
            with self.subTest(text):
                server = self.serve("--socket-group", text, "--socket-mode", "0660")
                self.assertEqual((self.path.lstat().st_gid, mode_of(self.path)),
                                 (group.gr_gid, 0o660))
                server.terminate()
        server = self.start_local("--socket-group", "no-such-group")
        self.assert_refused(server, 2,
                            '--socket-group: the group \\"no-such-group\\" does not exist')


class Refusals(LocalTest):
    def test_with_zookeeper_others_must_reach_it(self):
        options = ("--zookeeper", "127.0.0.1:1", "--datacenter-id", 1, "--connect-timeout", 100)
        server = self.launch(*options, listen=self.address)
        self.assert_refused(server, 2, f"cannot reach this server at {self.address}; "
                            "add --listen HOST:PORT")
        for more in (("--advertise", "127.0.0.1:7609"), ("--listen", "127.0.0.1:0")):
            with self.subTest(more):
                server = self.launch(*options, *more, listen=self.address)
                self.assertEqual(server.wait_end(), 1)
                self.assertNotIn("cannot reach this server", server.log)


class WhoConnects(LocalTest):
    def as_another(self, *command):
        return subprocess.run(command, user="daemon", group=OTHER.pw_gid, extra_groups=[],
                              env=CTL_ENVIRONMENT, capture_output=True, text=True, cwd="/",
                              timeout=HANG_GUARD_S)

    def ask_as_another(self):
        script = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(60);"
                  "s.connect(sys.argv[1]); s.sendall(bytes.fromhex(sys.argv[2]));"
                  "sys.exit(0 if s.recv(1) else 9)")
        call = bytes(STRICT.call("get_id", "good")).hex()
        return self.as_another("/usr/bin/python3", "-c", script, str(self.path), call)

    @unittest.skipUnless(IS_ROOT, "only root can be another user")
    def test_whoever_may_write_the_file(self):
        self.directory.chmod(0o755)
        for options, allowed in (((), True), (("--socket-mode", "0600"), False),
                                 (("--socket-mode", "0660"), False),
                                 (("--socket-mode", "0660", "--socket-group", OTHER.pw_gid),
                                  True)):
            with self.subTest(options):
                server = self.serve(*options)
                done = self.ask_as_another()
                self.assertEqual(done.returncode == 0, allowed, done.stderr)
                self.assertEqual("PermissionError" in done.stderr, not allowed)
                server.terminate()

    @unittest.skipUnless(IS_ROOT, "only root can be another user")
    def test_the_limit_of_a_user(self):
        self.directory.chmod(0o755)
        server = self.serve("--max-connections-per-address", 2)
        mine = [self.connect() for _ in range(2)]
        for connection in mine:
            connection.call(STRICT, "get_id", "good")
        with self.connect() as third:
            with self.assertRaises((wire.Closed, OSError)):
                third.call(STRICT, "get_id", "good")
        refused = server.wait_event("address-refused").fields
        self.assertEqual(refused["address"], f"unix:uid={os.geteuid()}")
        self.assertEqual(refused["reason"], "more than 2 connections from one user")
        self.assertEqual(self.ask_as_another().returncode, 0)
        mine.pop().close()
        wait_for(self._is_served)

    def _is_served(self):
        try:
            self.assert_serves()
            return True
        except (wire.Closed, OSError):
            return False

    def test_who_is_idle_makes_room(self):
        server = self.serve("--max-connections", 3)
        # the oldest connection is examined first
        busy, *silent = (self.connect() for _ in range(3))
        for connection in (busy, *silent):
            connection.call(STRICT, "get_id", "good")

        def somebody_left():
            busy.call(STRICT, "get_id", "good")
            return self._is_served() and server.find("connection-closed")
        left = wait_for(somebody_left)
        self.assertEqual(left.fields["reason"], "idle, and replaced by a new connection")
        self.assertGreater(busy.call(STRICT, "get_id", "good").success, 0)


class Passed(PassedTest, LocalTest):
    def listen_locally(self, name=None):
        kept = socket.socket(socket.AF_UNIX)
        self.addCleanup(kept.close)
        kept.bind(name or str(self.path))
        kept.listen()
        return kept

    def test_they_are_served_and_left_alone(self):
        kept = self.listen_locally()
        for _ in range(2):
            server = self.start(**self.passing(kept))
            self.assertEqual(server.addresses, [self.address])
            self.assert_serves()
            self.assertEqual(server.terminate(), 0)
            self.assertTrue(self.path.is_socket())
        waiting = self.connect()
        waiting.send(STRICT.call("get_id", "good"))
        self.start(**self.passing(kept))
        self.assertGreater(waiting.reply(STRICT).success, 0)

    def test_beside_a_port(self):
        local, port = self.listen_locally(), self.listen()
        server = self.start(**self.passing(local, port))
        self.assertEqual(server.addresses, [self.address, port.getsockname()])
        self.assertEqual(self.connect().call(STRICT, "get_worker").success.address,
                         "%s:%d" % port.getsockname())

    def test_an_abstract_one(self):
        name = f"test-{uuid.uuid4()}"
        server = self.start(**self.passing(self.listen_locally(f"\0{name}")))
        self.assertEqual(server.addresses, [f"unix:@{name}"])
        self.assert_serves(f"unix:@{name}")
