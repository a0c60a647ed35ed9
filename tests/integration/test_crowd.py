# SPDX-License-Identifier: Apache-2.0
"""A server with many connections: their distribution to loops; for a full server, which are closed
or refused; and the memory after a flood."""
import contextlib
import selectors
import socket
import unittest

import wire
from harness import HANG_GUARD_S, LONG_WAIT_MS, SANITIZED, ServerTest, wait_for
from held_thread import held_thread
from wire import STRICT

HERE, THERE, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
CALL = STRICT.call("get_id", "good")


def is_closed(connection):
    """Whether the server has closed the connection; earlier bytes are discarded."""
    connection.socket.setblocking(False)
    try:
        return connection.socket.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        connection.socket.settimeout(HANG_GUARD_S)


class Crowd:
    """The connections of a full server: a few clients that call once a second, the others silent,
    all from one address. `first` is one of the former."""

    def __init__(self, test, server, size, active=5):
        self.server = server
        self.connections = [server.connect(source=HERE) for _ in range(size)]
        for connection in self.connections:
            test.addCleanup(connection.close)
        self.active, self.idle = self.connections[:active], self.connections[active:]
        for connection in self.connections[::2]:  # the others never send anything
            connection.call(STRICT, "get_id", "crowd")
        wait_for(lambda: self.counters()["connections_accepted"] == size)

    def counters(self):
        return self.active[0].call(STRICT, "get_counters").success

    def call(self):
        for connection in self.active:
            connection.call(STRICT, "get_id", "crowd")

    def closed(self):
        return sum(map(is_closed, self.connections))


def is_served(server, source):
    """Whether a new client from this address gets an answer."""
    with server.connect(source=source) as connection:
        try:
            return connection.call(STRICT, "get_id", "new").success > 0
        except (wire.Closed, OSError):
            return False


class Spread(ServerTest):
    def connect(self, server):
        """Connects, and waits until the server has accepted."""
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.call(STRICT, "get_id", "good")
        return connection

    def served_beside(self, server, index, connections, count):
        """Returns the first `count` connections that get an answer while a loop is stopped. Then
        the others get theirs."""
        served = []
        with held_thread(server.pid, "loop", index), selectors.DefaultSelector() as selector:
            for connection in connections:
                connection.send(CALL)
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            while len(served) < count:
                ready = selector.select(HANG_GUARD_S)
                self.assertTrue(ready, f"{len(served)} of {count} are served")
                for key, _ in ready:
                    selector.unregister(key.fileobj)
                    served.append(key.data)
        for connection in connections:
            connection.reply(STRICT)
        return served

    def test_the_loop_with_the_fewest_gets_it(self):
        server = self.start("--threads", 2)
        connections = [self.connect(server) for _ in range(6)]
        first = self.served_beside(server, 1, connections, 3)
        second = self.served_beside(server, 0, connections, 3)
        self.assertEqual({id(one) for one in first + second}, {id(one) for one in connections})
        for connection in first:
            connection.close()
        wait_for(lambda: server.open_connections() == 1 + 3, what="the closes to be noticed")
        new_clients = [self.connect(server) for _ in range(3)]
        self.served_beside(server, 1, new_clients, 3)

    def test_each_loop_hears_of_a_reservation(self):
        server = self.start("--threads", 2, "--max-wait", LONG_WAIT_MS)
        connections = [self.connect(server) for _ in range(2)]
        for connection in connections:
            wait_for(lambda: server.call("get_worker").reserved_until_ms == 0,
                     what="the end of the reservation")
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)


class Full(ServerTest):
    def start(self, *options, **settings):
        self.state = self.directory / f"state-{len(list(self.directory.iterdir()))}"
        return super().start(*options, **settings)

    def test_connections_that_are_not_idle_stay(self):
        """Calls can wait for so long here that no connection counts as idle."""
        for size in (20, 110):
            crowd = Crowd(self, self.start("--max-connections", size, "--max-wait", LONG_WAIT_MS),
                          size)
            for source in (HERE, THERE) * 5:
                self.assertFalse(is_served(crowd.server, source))
            self.assert_refusal_told(crowd.server, f"{size} connections", size)
            self.assertEqual(crowd.closed(), 0)

    def test_idle_connections_make_room(self):
        crowds = one, two, rush = [
            Crowd(self, self.start("--threads", threads, "--max-connections", size), size)
            for threads, size in ((1, 20), (2, 20), (2, 110))]

        def has_room(crowd):
            for each in crowds:
                each.call()
            return is_served(crowd.server, THERE)
        for crowd in crowds:
            wait_for(lambda crowd=crowd: has_room(crowd), what="room, after some silence")
        for crowd in (one, two):
            self.assert_room_is_made(crowd)
        self.assert_room_for_many(rush, 45)
        for crowd in crowds:
            crowd.call()

    def assert_refusal_told(self, server, words, connections):
        event = server.wait_event("connection-refused")
        self.assertEqual(event.level, "error")
        self.assertIn(words, event.fields["reason"])
        self.assertIn("idle", event.fields["reason"])
        self.assertIn("--max-connections", event.fields["remedy"])
        self.assertEqual(event.fields["address"], HERE)
        self.assertEqual(int(event.fields["connections"]), connections)
        self.assertEqual(sum(event.name == "connection-refused" for event in server.events), 1)

    def assert_room_is_made(self, crowd):
        """Checks that a new client is served after the last one disconnects."""
        before = crowd.counters()
        with contextlib.ExitStack() as stack:
            new_clients = [stack.enter_context(crowd.server.connect(source=ELSEWHERE))
                         for _ in range(4)]
            for new_client in new_clients:
                self.assertGreater(new_client.call(STRICT, "get_id", "new").success, 0)
        counters = crowd.counters()
        self.assertEqual(counters["connections_refused"], before["connections_refused"])
        self.assertIn(counters["closed_for_room"] - before["closed_for_room"], (3, 4))
        wait_for(lambda: crowd.closed() == counters["closed_for_room"])
        event = crowd.server.wait_event("connection-closed")
        self.assertIn("replaced", event.fields["reason"])
        self.assertTrue(event.fields["peer"].startswith(HERE + ":"))

    def assert_room_for_many(self, crowd, count):
        before = crowd.counters()["closed_for_room"]
        with contextlib.ExitStack() as stack:
            new_clients = [stack.enter_context(crowd.server.connect(source=THERE))
                         for _ in range(count)]
            for new_client in new_clients:
                new_client.send(CALL)
            for new_client in new_clients:
                self.assertGreater(new_client.reply(STRICT).success, 0)
            closed = crowd.counters()["closed_for_room"]
            self.assertIn(closed - before, (count - 1, count))
            wait_for(lambda: crowd.closed() == closed)

    def test_connections_of_one_address(self):
        for threads in (1, 2):
            server = self.start("--threads", threads, "--max-connections-per-address", 3)
            with contextlib.ExitStack() as stack:
                held = [stack.enter_context(server.connect(source=HERE)) for _ in range(3)]
                for connection in held:
                    connection.call(STRICT, "get_id", "a")
                for _ in range(5):
                    self.assertFalse(is_served(server, HERE))
                self.assertTrue(is_served(server, THERE))
                event = server.wait_event("address-refused")
                self.assertEqual(event.level, "error")
                self.assertIn("3 connections from one address", event.fields["reason"])
                self.assertEqual(event.fields["address"], HERE)
                self.assertEqual(event.fields["connections"], "3")
                self.assertEqual(held[0].call(STRICT, "get_counters").success[
                    "connections_refused"], 5)
                held.pop().close()
                wait_for(lambda s=server: is_served(s, HERE), what="room for one more")


@unittest.skipIf(SANITIZED, "memory of a sanitizer build is its own")
class Memory(ServerTest):
    def setUp(self):
        super().setUp()
        self.allow_descriptors()

    def assert_given_back(self, clients, length, took_kib, may_stay_kib):
        """Lets this many clients send `length` bytes of a message and disconnect. Checks that the
        memory is returned."""
        beginning = bytes(STRICT.call("get_id", "a" * (length + 1)))[:length]
        server = self.start("--threads", 2, "--max-frame", 1 << 20)
        server.call("get_id", "a")
        before = server.resident_kib()
        with contextlib.ExitStack() as stack:
            for _ in range(clients):
                stack.enter_context(server.connect()).send(beginning)
            wait_for(lambda: server.resident_kib() > before + took_kib, what="the flood")
        wait_for(lambda: server.resident_kib() < before + may_stay_kib,
                 what="the memory of the flood to go back")

    def test_large_buffers(self):
        self.assert_given_back(20, 300_000, 5000, 1024)

    def test_large_replies(self):
        """A loop frees the memory for a large reply although its client stays connected."""
        server = self.start("--threads", 1, "--max-batch", 1000000, "--max-ahead", 60000)
        with server.connect() as connection:
            connection.call(STRICT, "get_ids", "good", 1)
            before = server.resident_kib()
            connection.send(STRICT.call("get_ids", "good", 1000000))
            connection.frame()
            wait_for(lambda: server.resident_kib() < before + 2048,
                     what="the memory of 8 MB of IDs to go back")
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)

    def test_small_buffers_of_many(self):
        self.assert_given_back(1000, 30000, 20000, 2048)
