# SPDX-License-Identifier: Apache-2.0
"""Clients that do not read their replies, and stops while calls are in transit."""
import contextlib
import re
import select
import signal
import socket
import threading
import unittest

from bindings import ROOT
from harness import LONG_WAIT_MS, PARKING, PER_TICK, SANITIZED, ServerTest, wait_for
from wire import EXCEPTION, GET_ID, STRICT, Closed, Connection

# A layout with so many IDs in each tick that no call waits for the clock.
WIDE = ("--layout", "epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=0,"
        "worker_bits=0,sequence_bits=22")
AT_LEISURE = ("--stop-timeout", 300000)  # for tests that do not test the limit of a stop
GET_TIMESTAMP = STRICT.call("get_timestamp")
GET_COUNTERS = STRICT.call("get_counters")
REPLIES = 300  # replies to get_counters: more than the sockets hold, less than --max-pending
# Small buffers: by default, two sockets hold 4 MB and more.
HOLDS_LITTLE = ((socket.SOL_SOCKET, socket.SO_RCVBUF, 4096),
                (socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536))
LITTLE = 130_000  # bytes


def read_to_the_end(connection):
    with contextlib.suppress(Closed):
        while True:
            connection.frame()


class Pending(ServerTest):
    def test_calls_do_not_renew_the_write_timeout(self):
        """The write timeout is about unread replies, even if the client sends more calls."""
        server = self.start(*WIDE, "--write-timeout", 500, "--max-pending", 1 << 30)
        with server.connect() as greedy:
            greedy.send(STRICT.call("get_ids", "a", 10000) * 200)  # more than the sockets hold

            def closed():
                with contextlib.suppress(OSError):
                    greedy.send(GET_TIMESTAMP)
                return server.counters()["closed_write_timeout"] == 1
            wait_for(closed, what="the connection to be closed")

    @unittest.skipIf(SANITIZED, "memory of a sanitizer build is its own")
    def test_input_does_not_pile_up(self):
        server = self.start("--max-pending", 4096)
        with server.connect() as busy:
            busy.call(STRICT, "get_id", "a")
            before = server.resident_kib()
            reader = threading.Thread(target=read_to_the_end, args=(busy,))
            reader.start()
            for _ in range(50):
                busy.send(GET_COUNTERS * 1000)
            grown = server.resident_kib() - before
            busy.socket.shutdown(socket.SHUT_RDWR)
            reader.join()
        self.assertLess(grown, 4096)

    @unittest.skipIf(SANITIZED, "memory of a sanitizer build is its own")
    def test_unread_replies_stay_within_what_the_manual_says(self):
        manual = (ROOT / "docs" / "man" / "snowflaked.8").read_text()
        per_id = int(re.search(r"and (\d+) bytes [^.]*for each ID of", manual)[1])
        batch, pending, clients = 10_000, 4096, 20
        server = self.start("--max-batch", batch, "--max-pending", pending, "--threads", 1)
        call = STRICT.call("get_ulids", "a", batch)
        with contextlib.ExitStack() as stack:
            warm = stack.enter_context(server.connect())
            warm.send(call)
            warm.frame()
            before = server.resident_kib()
            for _ in range(clients):
                late = stack.enter_context(Connection(server.address, options=HOLDS_LITTLE))
                late.send(call * 3)
            wait_for(lambda: server.counters()["ulids_generated"] > clients * batch, what="replies")
            grown = server.resident_kib() - before
        self.assertLess(grown << 10, clients * (pending + (128 << 10) + per_id * batch))

    def test_replies_are_not_kept_back_by_a_call_that_waits(self):
        server = self.start(*PARKING, "--max-wait", 60000)
        with contextlib.ExitStack() as stack:
            late = stack.enter_context(Connection(server.address, options=HOLDS_LITTLE))
            answered = server.counters()["calls"]
            for _ in range(REPLIES):  # one by one, because a cut-off pass would not continue
                late.send(GET_COUNTERS)
                answered = wait_for(lambda least=answered + 2: self.calls_from(server, least))
            for _ in range(300):  # each of them takes a tick
                early = stack.enter_context(server.connect())
                early.send(STRICT.call("get_ids", "a", PER_TICK))
            parked = server.counters()["waits"]  # the early calls wait now
            late.send(STRICT.call("get_ids", "a", PER_TICK))
            wait_for(lambda: server.counters()["waits"] > parked, what="the last to be parked")
            self.assertGreater(sum(len(late.frame()) for _ in range(REPLIES)), 2 * LITTLE)
            self.assertFalse(select.select([late.socket], [], [], 0)[0], "the call did not wait")

    def calls_from(self, server, least):
        """Waits until the server has counted at least this many calls. Returns their number."""
        calls = server.counters()["calls"]
        return calls if calls >= least else None


class StopUnderPressure(ServerTest):
    def test_what_came_behind_a_call_that_waits(self):
        server = self.start(*PARKING, "--max-wait", 60000, *AT_LEISURE)
        with server.connect() as connection, server.connect() as other:
            connection.send(GET_ID * PER_TICK * 2)
            other.call(STRICT, "get_timestamp")  # now the first call is parked
            connection.send(GET_TIMESTAMP)
            server.send_signal(signal.SIGTERM)
            for _ in range(PER_TICK * 2 + 1):
                connection.reply(STRICT)
            self.assertEqual(connection.rest(), b"")
        self.assertEqual(server.wait_end(), 0)

    def test_what_came_behind_calls_whose_turn_is_not_yet(self):
        server = self.start("--threads", 1, *AT_LEISURE)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(30)]
            for client in clients:
                # all calls are read at once, and need more than ten milliseconds of work
                client.send(GET_COUNTERS * 1500)
            clients[0].frame()
            for client in clients:
                client.send(GET_TIMESTAMP * 100)
            server.send_signal(signal.SIGTERM)
            for number, client in enumerate(clients):
                for _ in range(1600 - (number == 0)):
                    client.frame()
                self.assertEqual(client.rest(), b"")
        self.assertEqual(server.wait_end(), 0)

    def test_the_limit_of_a_stop_holds_for_calls_that_wait(self):
        server = self.start(*PARKING, "--max-wait", 60000, "--stop-timeout", 300)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(3)]
            for client in clients:
                client.send(GET_ID * PER_TICK * 20)  # two seconds of IDs each
            clients[0].reply(STRICT)
            server.send_signal(signal.SIGTERM)
            replies = [client.reply(STRICT) for number, client in enumerate(clients)
                       for _ in range(PER_TICK * 20 - (number == 0))]
            for client in clients:
                self.assertEqual(client.rest(), b"")
        refused = sum(reply.kind == EXCEPTION for reply in replies)
        self.assertTrue(0 < refused < len(replies), refused)
        self.assertEqual(server.wait_end(), 0)

    def test_connections_that_were_not_accepted_yet(self):
        self.allow_descriptors()
        # after the pause, the calls wait for a reservation
        server = self.start(*AT_LEISURE, "--max-wait", LONG_WAIT_MS)
        server.pause()
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(Connection(server.address)) for _ in range(600)]
            for connection in waiting:
                connection.send(GET_ID)
            server.send_signal(signal.SIGTERM)
            server.send_signal(signal.SIGCONT)
            numbers = [connection.reply(STRICT).success for connection in waiting]
        self.assertEqual(len(set(numbers)), 600)
        self.assertEqual(server.wait_end(), 0)
