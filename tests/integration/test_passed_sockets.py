# SPDX-License-Identifier: Apache-2.0
"""Sockets that listen before the server starts, passed as systemd passes them."""
import shutil
import socket
import unittest
import urllib.request

import wire
from certificates import Authority
from harness import HANG_GUARD_S, SANITIZED, split_address, wait_for
from passed import PassedTest
from wire import STRICT


class PassedSockets(PassedTest):
    def test_they_are_served_and_not_listen(self):
        kept = [self.listen(), self.listen(), self.listen("::1")]
        for names in (None, ("a", "", "thrift")):
            with self.subTest(names), self.listen() as free:
                unused = "%s:%d" % free.getsockname()
                free.close()
                server = self.start(listen=unused, **self.passing(*kept, names=names))
                self.assertEqual(server.find("sockets-passed").fields["count"], "3")
                self.assertEqual(server.addresses, [each.getsockname()[:2] for each in kept])
                for address in server.addresses:
                    with wire.Connection(address) as connection:
                        self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(split_address(unused))
                self.assertEqual(server.call("get_worker").address,
                                 "%s:%d" % kept[0].getsockname())
                self.assertEqual(server.terminate(), 0)

    def test_not_without_tls_where_that_was_asked_for(self):
        pair = Authority(self.directory).issue("server")
        server = self.launch("--state-directory", self.state, "--tls-certificate",
                             pair.certificate, "--tls-key", pair.key, listen="tls:127.0.0.1:0",
                             **self.passing(self.listen()))
        self.assert_refused(server, 2, "tls: has no effect on passed sockets")

    def test_a_worker_id_where_other_machines_reach_it(self):
        kept = self.listen("::")
        server = self.launch("--state-directory", self.state, **self.passing(kept))
        address = "[::]:%d" % kept.getsockname()[1]
        self.assert_refused(server, 2, f"other machines can reach the passed socket {address}",
                            "set worker-id")

    def test_where_it_is_reached(self):
        kept = self.listen("::")
        port = kept.getsockname()[1]
        self.start("--worker-id", 0, **self.passing(kept))
        with wire.Connection(("::1", port)) as connection:
            self.assertEqual(connection.call(STRICT, "get_worker").success.address,
                             f"{socket.gethostname()}:{port}")

    def test_one_for_http(self):
        kept, admin = self.listen(), self.listen()
        for sockets, names in (((kept, admin), ("thrift", "admin")), ((admin,), ("admin",))):
            with self.subTest(names):
                server = self.start("--admin-host", "ids.example",
                                    **self.passing(*sockets, names=names))
                self.assertEqual(len(server.addresses), 1)
                self.assertEqual(server.addresses[0] == kept.getsockname(), kept in sockets)
                self.assertGreater(server.call("get_id", "good"), 0)
                with urllib.request.urlopen("http://%s:%d/ping" % admin.getsockname()) as answer:
                    self.assertEqual(answer.read(), b"pong\n")
                self.hang_up(server, "reload")
                self.assertEqual(server.terminate(), 0)

    def room_for_clients(self, name, *options, wrapper=(), **passing):
        """Returns for how many Thrift clients a server with few descriptors has room."""
        server = self.launch("--state-directory", self.directory / name, *options,
                             wrapper=(*wrapper, "prlimit", "--nofile=400:400"),
                             **passing).wait_ready()
        return int(server.wait_event("limits").fields["max_connections"])

    def test_one_for_http_has_its_descriptors(self):
        passing = self.passing(self.listen(), names=("admin",))
        own = self.room_for_clients("own", "--admin-listen", "127.0.0.1:0")
        self.assertEqual(self.room_for_clients("passed", **passing), own)

    def test_those_of_another_process(self):
        kept = self.listen()
        server = self.start(**self.passing(kept, pid=1))
        self.assertIsNone(server.find("sockets-passed"))
        self.assertNotEqual(server.address, kept.getsockname())
        self.assertGreater(server.call("get_id", "good"), 0)

    def test_what_is_no_socket_to_serve_on(self):
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        silent = socket.socket()
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(self.directory / "socket"))
        local.listen()
        mute = socket.socket(socket.AF_UNIX)
        good = self.listen()
        for sockets, names, words in (
                ((datagrams,), None,
                 ("descriptor 3", "not a listening TCP or local stream socket")),
                ((good, silent), ("a", "b b\n"), ("descriptor 4", '\\"b b\\\\x0a\\"')),
                ((mute,), None, ("descriptor 3", "only ListenStream= with a port or a path")),
                ((good, local), ("a", "admin"), ("descriptor 4", "not a listening TCP socket",
                                                 "only ListenStream= with a port")),
                ((good,), ("a", "b"), ("LISTEN_FDNAMES",)),
        ):
            with self.subTest(words):
                server = self.launch("--state-directory", self.state,
                                     **self.passing(*sockets, names=names))
                self.assert_refused(server, 1, "event=failed", *words)
        for each in (datagrams, silent, local, mute):
            each.close()
        server = self.launch("--state-directory", self.state, **self.passing(count="many"))
        self.assert_refused(server, 1, "event=failed", "LISTEN_FDS")

    def test_who_has_connected_waits_for_the_next_server(self):
        kept = self.listen()
        server = self.start(**self.passing(kept))
        server.terminate()
        waiting = wire.Connection(kept.getsockname(), HANG_GUARD_S)
        self.addCleanup(waiting.close)
        waiting.send(STRICT.call("get_id", "good"))
        self.start(**self.passing(kept))
        self.assertGreater(waiting.reply(STRICT).success, 0)

    @unittest.skipIf(SANITIZED, "systemd's tool passes no options of sanitizers")
    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "needs systemd-socket-activate")
    def test_systemd_starts_it_with_the_first_connection(self):
        with self.listen() as free:
            address = "%s:%d" % free.getsockname()
        server = self.launch("--state-directory", self.state, listen=None, wrapper=(
            "systemd-socket-activate", "--listen", address, "--"))
        wait_for(lambda: server.strange, what="what the tool says of its socket")
        with wire.Connection(split_address(address)) as connection:
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
        server.wait_ready()
        self.assertEqual(server.find("sockets-passed").fields["count"], "1")
        self.assertEqual(server.terminate(), 0)
        server.strange.clear()  # output of the tool
