# SPDX-License-Identifier: Apache-2.0
"""Each reply goes to the client that made the call, whatever other clients do: their connections
share the memory of a loop. wire.Connection compares every reply with its call."""
import contextlib
import random
import socket
import threading
import time

from harness import HANG_GUARD_S, ServerTest, wait_for
from wire import FORMS, STRICT, WrongReply

LASTS_S = 1.5
RUDE, POLITE = 3, 3
CALLS = (("get_id", "a"), ("get_ids", "a", 3), ("get_ids", "a", 1000),
         ("get_id_runs", "a", 5000), ("get_timestamp",), ("get_worker_id",), ("get_counters",),
         ("get_id", "1"), ("nope",))


def some_calls(form, chance):
    calls = form.call("get_timestamp")
    for _ in range(chance.randrange(4)):
        calls += form.call(*chance.choice(CALLS)) * chance.randrange(1, 30)
    return calls


class Rude(threading.Thread):
    """Repeatedly sends calls, reads some or none of the replies, and resets the connection."""

    def __init__(self, server, seed, over):
        super().__init__()
        self.server = server
        self.chance = random.Random(seed)
        self.over = over
        self.resets = 0
        self.start()

    def run(self):
        while not self.over.is_set():
            with self.server.connect() as connection:
                with contextlib.suppress(TimeoutError):
                    for _ in range(self.chance.randrange(1, 4)):
                        self.speak(connection)
                connection.reset()
                self.resets += 1

    def speak(self, connection):
        connection.send(some_calls(self.chance.choice(FORMS[:3]), self.chance))
        if self.chance.random() < 0.5:
            connection.socket.settimeout(self.chance.random() * 0.001)
            connection.socket.recv(self.chance.randrange(1, 2000))
            connection.socket.settimeout(HANG_GUARD_S)


class Polite(threading.Thread):
    """Counts the replies to its calls, and its connections that received a wrong one."""

    def __init__(self, server, form, seed, over):
        super().__init__()
        self.server = server
        self.form = form
        self.chance = random.Random(seed)
        self.over = over
        self.answered = 0
        self.wrong = []
        self.start()

    def run(self):
        while not self.over.is_set():
            try:
                self.speak()
            # a reply in another form is not parsed as one; a lost reply is a timeout
            except Exception as error:
                self.wrong.append(repr(error))

    def speak(self):
        with self.server.connect() as connection:
            for _ in range(20):
                calls = some_calls(self.form, self.chance)
                connection.send(calls)
                for _ in calls:
                    connection.reply(self.form)
                    self.answered += 1
            connection.socket.shutdown(socket.SHUT_WR)
            if said := connection.rest():
                raise WrongReply(f"{len(said)} bytes more than the replies")


class Replies(ServerTest):
    path = ()  # an option that chooses how calls are answered

    def test_what_could_not_be_sent_goes_to_nobody_else(self):
        """The loop handles a reset just before a call of another client."""
        server = self.start("--threads", 1, *self.path)
        for form in FORMS:
            with (self.subTest(str(form)), server.connect() as gone,
                  server.connect() as other):
                gone.call(form, "get_id", "a")
                other.call(STRICT, "get_timestamp")
                server.pause()
                gone.send(form.call("get_id", "a"))
                gone.reset()
                other.send(STRICT.call("get_timestamp"))
                server.resume()
                self.assertGreater(other.reply(STRICT).success, 0)
                self.assertEqual(other.call(STRICT, "get_id", "1").value.type, 6)
                self.assertGreater(other.call(STRICT, "get_timestamp").success, 0)

    def test_among_clients_that_reset(self):
        self.assert_polite_ones_are_answered(threads=1)

    def test_among_clients_that_reset_on_two_loops(self):
        self.assert_polite_ones_are_answered(threads=2)

    def assert_polite_ones_are_answered(self, threads):
        server = self.start("--threads", threads, *self.path)
        over = threading.Event()
        until = time.monotonic() + LASTS_S
        rude = [Rude(server, seed, over) for seed in range(RUDE)]
        polite = [Polite(server, form, str(form), over) for form in FORMS[:POLITE]]
        with contextlib.suppress(AssertionError):  # the received part is checked below
            wait_for(lambda: time.monotonic() > until and sum(one.resets for one in rude) > 20
                     and sum(one.answered for one in polite) > 100)
        over.set()
        for thread in rude + polite:
            thread.join()
        wrong = [one for thread in polite for one in thread.wrong]
        answered = sum(thread.answered for thread in polite)
        resets = sum(thread.resets for thread in rude)
        self.assertEqual(len(wrong), 0, f"{answered} right replies, {resets} resets, first "
                         f"wrong reply: {wrong[:1]}")
        self.assertGreater(resets, 20)
        self.assertGreater(answered, 100)


class RepliesOnTheGeneralPath(Replies):
    """The same tests without the fast path."""
    path = ("--no-fast-path",)
