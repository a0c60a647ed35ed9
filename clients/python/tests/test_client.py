# SPDX-License-Identifier: Apache-2.0
"""With real servers."""
import ctypes
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from collections import deque
from unittest import mock

from support import LONG_S, PACKAGE, Call, Case

from snowflake_client import (ClosedError, InvalidAgentError, Snowflake, SnowflakeError,
                              UnavailableError, UnreachableError)
from snowflake_client.turn import Ticket, Turn

CLONE_NEWPID = 0x20000000
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
END_OF_REFILLER = ("client._bell.put(False)", "client._refiller.join()")

FORKS_AT_EACH_LINE = """
import ctypes, os, sys
from snowflake_client import Snowflake, SnowflakeError, client as package

def forks_at(line):
    child = None

    def trace(frame, event, arg):
        nonlocal line, child
        if not frame.f_code.co_filename.startswith(os.path.dirname(package.__file__)):
            return None
        is_over = frame.f_code in OVER and lines[frame.f_lineno - 1].startswith(RETURN)
        if event == "line" and not is_over:
            line -= 1
            if line == 0:
                child = {fork}()
                if child != 0:
                    os.waitpid(child, 0)
        return trace

    client = Snowflake(sys.argv[1], agent="test", timeout_ms={long_ms})
    while client._hand._left() < 20:
        client.next_id()
    client._bell.put(False)
    client._refiller.join()
    if {is_empty}:
        client._hand.take_many(1000)
    client.timeout_ms = 3000  # which a call in both processes may wait for in vain
    sys.settrace(trace)
    try:
        ids = {call}
    except SnowflakeError:
        ids = []
    sys.settrace(None)
    client.timeout_ms = {long_ms}
    if child is not None:
        ids += [*client.next_ids(2), client.next_id(), client.next_id()]
        print("parent" if child else "child", *ids, flush=True)
    if child == 0:
        os._exit(0)
    return child is not None

with open(package.__file__) as file:
    lines = file.readlines()
RETURN = " " * 16 + "return "  # behind it, no handler is called
OVER = [Snowflake.next_id.__code__, Snowflake.next_ids.__code__]
line = 1
while forks_at(line):
    line += {step}
"""


class Programs(Case):
    def run_program(self, text, *within):
        """What a program of its own prints, which is given the address of a real server."""
        return subprocess.run(
            [*within, sys.executable, "-W", "error", "-c", text, self.server()], check=True,
            timeout=5 * LONG_S, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)}).stdout


class Calls(Case):
    def test_many_ids(self):
        client = self.client(self.server())
        for count in (1, 3, 10000, 10001, 25000):
            self.assert_ids(client.next_ids(count), count)

    def test_ids_of_both_calls_increase(self):
        client, ids = self.client(self.server()), []
        for count in range(1, 300):
            ids.append(client.next_id())
            ids += client.next_ids(count % 7 + 1)
        self.assert_ids(ids, len(ids))

    def test_a_server_with_small_batches(self):
        client = self.client(self.server("--max-batch", "7"))
        self.assert_ids(client.next_ids(100), 100)
        self.assert_ids([client.next_id() for _ in range(1000)], 1000)

    def test_the_default_is_the_server_of_this_machine(self):
        with self.assertRaises(SnowflakeError) as caught, Snowflake(agent="test") as client:
            client.next_id()
            raise SnowflakeError("there is one", [("127.0.0.1:7609", "")])
        self.assertEqual(caught.exception.attempts[0][0], "127.0.0.1:7609")

    def test_ways_to_a_server(self):
        with tempfile.TemporaryDirectory() as directory:
            for listen in (f"unix:{directory}/ids", f"unix:@snowflake-test-{os.getpid()}",
                           "[::1]:0", "127.0.0.1:0"):
                with self.subTest(listen=listen):
                    client = self.client(self.server(listen=listen))
                    self.assert_ids([client.next_id() for _ in range(10)], 10)

    def test_a_name(self):
        port = self.server().rpartition(":")[2]
        self.assert_ids(self.client(f"localhost:{port}").next_ids(10), 10)

    def test_a_server_without_a_worker_id_is_unavailable(self):
        address = self.waiting_server()
        for prefetch_ms in (50, 0):
            client = self.client(address, prefetch_ms=prefetch_ms)
            error = self.failure(client.next_id)
            self.assertIsInstance(error, UnavailableError)
            self.assertEqual(error.attempts[0].server, address)
        error = self.failure(client.next_ids, 5)
        self.assertIsInstance(error, UnavailableError)
        self.assertGreater(error.retry_after_ms, 0)


class Ends(Programs):
    def test_a_program_ends_with_a_client_open(self):
        program = ("import sys; from snowflake_client import Snowflake\n"
                   "client = Snowflake(sys.argv[1], agent='test')\n"
                   "for _ in range(1000): client.next_id()\n")
        self.run_program(program)

    def test_a_client_that_is_forgotten_leaves_nothing(self):
        client = Snowflake(self.server(), agent="test")
        for _ in range(1000):
            client.next_id()
        refiller, reference = client._refiller, weakref.ref(client)
        self.assertIsNotNone(refiller)
        del client
        refiller.join(LONG_S)
        gc.collect()
        self.assertFalse(refiller.is_alive())
        self.assertIsNone(reference())


class Threads(Case):
    def test_none_comes_twice(self):
        server = self.server()
        for prefetch_ms, count in ((50, 8000), (0, 400)):
            client = self.client(server, prefetch_ms=prefetch_ms)
            taken = [[] for _ in range(8)]

            def take(mine):
                for _ in range(count // 8):
                    mine.append(client.next_id())
                mine += client.next_ids(50)

            threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
            for mine in taken:
                self.assert_ids(mine, count // 8 + 50)
            ids = sum(taken, [])
            self.assertEqual(len(set(ids)), len(ids))


class Descriptors(Case):
    def test_none_is_left(self):
        client = self.client(self.server())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with self.assertRaisesRegex(UnreachableError, "Too many open files"):
                client.next_id()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assert_ids([client.next_id()], 1)


class Fork(Programs):
    def test_parent_and_child_have_their_own(self):
        self.assert_own("os.fork()")

    def test_a_child_that_c_code_makes(self):
        """No hook of Python's is called then. A library that is called so keeps the interpreter's
        lock, which the child has to have; nor may another thread be about to ask for that lock, or
        the interpreter of the child waits for it for ever. So the thread that refills ends first,
        and there is no other in a program of its own."""
        self.assert_own("ctypes.PyDLL(None).fork()", *END_OF_REFILLER)

    @unittest.skipIf(subprocess.run([*NAMESPACE, "true"], check=False, stderr=subprocess.DEVNULL)
                     .returncode, "there can be no namespace of process IDs")
    def test_a_child_with_the_process_id_of_its_parent(self):
        """Each is the first in a namespace of its own."""
        self.assert_own("ctypes.PyDLL(None).fork()", *END_OF_REFILLER, "own = os.getpid()",
                        f"assert ctypes.PyDLL(None).unshare({CLONE_NEWPID}) == 0",
                        behind="assert os.getpid() == own", within=NAMESPACE)

    def assert_own(self, fork, *before, behind="", within=()):
        program = ["import ctypes, os, sys", "from snowflake_client import Snowflake",
                   f"client = Snowflake(sys.argv[1], agent='test', timeout_ms={LONG_S * 1000})",
                   "while client._hand._left() < 100: client.next_id()", *before,
                   f"child = {fork}", behind,
                   "ids = [client.next_id() for _ in range(2000)] + client.next_ids(100)",
                   "assert child == 0 or os.waitpid(child, 0)[1] == 0",
                   "print(*ids, flush=True)"]
        said = self.run_program("\n".join(program), *within).splitlines()
        self.assertEqual(len(said), 2)
        of_child, of_parent = ([int(word) for word in line.split()] for line in said)
        self.assert_ids(of_parent, 2100)
        self.assert_ids(of_child, 2100)
        self.assertFalse(set(of_parent) & set(of_child))

    def test_a_child_at_each_line_of_a_call(self):
        """Made by a signal handler, say, and both go on with the call. One that C code forks may
        take the reply off its parent's connection, so there it is only tried with IDs in hand."""
        for fork, is_empty, call, step in (("os.fork", False, "[client.next_id()]", 1),
                                           ("os.fork", False, "client.next_ids(3)", 1),
                                           ("os.fork", True, "[client.next_id()]", 3),
                                           ("os.fork", True, "client.next_ids(3)", 3),
                                           ("ctypes.PyDLL(None).fork", False,
                                            "[client.next_id()]", 1)):
            with self.subTest(fork=fork, is_empty=is_empty, call=call):
                said = self.run_program(FORKS_AT_EACH_LINE.format(
                    fork=fork, is_empty=is_empty, call=call, step=step,
                    long_ms=LONG_S * 1000)).splitlines()
                ids = [int(word) for line in said for word in line.split()[1:]]
                self.assertGreater(len(said), 16)
                self.assertEqual([line.split()[0] for line in said],
                                 ["child", "parent"] * (len(said) // 2))
                self.assertGreaterEqual(len(ids), 4 * len(said) - 20)  # a call may fail
                self.assertEqual(len(set(ids)), len(ids))

    def test_a_child_of_a_call_under_way(self):
        peer = self.peer(lambda call: peer.hang())
        client = self.client(peer.address, prefetch_ms=0)
        thread = threading.Thread(target=self.failure, args=(client.next_id,))
        thread.start()
        self.wait_until(lambda: peer.calls)
        child = os.fork()
        if child == 0:  # the turn is nobody's here, and the socket is closed
            is_free = client._turn.acquire(Ticket(), 0.0)
            os._exit(0 if is_free and client._servers._link is None else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.close()
        thread.join(LONG_S)


class Closing(Case):
    def test_in_a_child_that_c_code_forks(self):
        """The connection is its parent's too."""
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch_ms=0)
        client.next_id()
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            client.close()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.next_id()
        self.assertEqual(peer.connections, 1)


class _Interrupting(deque):
    """Raises once, after so many of its operations."""

    def __init__(self, kind, step):
        super().__init__()
        self.kind, self.left = kind, step

    def _pass(self, result):
        self.left -= 1
        if self.left == 0:
            raise self.kind
        return result

    def __contains__(self, one):
        return self._pass(super().__contains__(one))

    def __getitem__(self, number):
        return self._pass(super().__getitem__(number))

    def popleft(self):
        return self._pass(super().popleft())


class Signals(Case):
    """What a handler does comes at the worst moment."""

    def handle(self, handler):
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def signalling_peer(self):
        """It hangs, and the handler is called while the call waits for it."""
        return self.peer(lambda call: os.kill(os.getpid(), signal.SIGALRM) or call.peer.hang())

    def test_a_handler_that_raises(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        self.handle(stop)
        client = self.client(self.server(), prefetch_ms=0)
        ids, stops = [], 0
        for number in range(500):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + number % 40 * 0.00001)
                for _ in range(1000):  # where Python ignores what is raised, it does not come
                    ids.append(client.next_id())
            except Stop:
                stops += 1
            except SnowflakeError:
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise
        ids += [client.next_id() for _ in range(10)]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertGreater(stops, 300)

    def test_what_it_raises_is_what_comes(self):
        """Whatever it is, and not at the end of the call's time."""
        hanging = self.signalling_peer()
        client = self.client([hanging.address, hanging.address], prefetch_ms=0)
        for kind in (RuntimeError, OSError, TimeoutError, ValueError, KeyError, TypeError):
            def stop(_, frame, kind=kind):
                """Raises only in a socket operation of wire._Socket.do()."""
                if (frame.f_code.co_name, frame.f_back.f_code.co_name) == ("<lambda>", "do"):
                    raise kind("the handler's")
                signal.setitimer(signal.ITIMER_REAL, 0.001)  # the call does not wait yet

            self.handle(stop)
            error = self.failure(client.next_id)
            self.assertEqual((type(error), error.args), (kind, ("the handler's",)))

    def test_handing_over_that_is_interrupted(self):
        """At each of its steps: who waits gets the turn."""
        class Stop(Exception):
            pass

        for step in range(6):
            turn, mine, other = Turn(), Ticket(), Ticket()
            turn.acquire(mine, 0)
            turn._waiting = _Interrupting(Stop, step)
            turn._waiting.append(other)
            try:
                turn.release(mine)
            except Stop:
                turn.release(mine)
            self.assertIs(turn._holder, other)
            self.assertFalse(other.comes.locked())
            self.assertEqual(list(turn._waiting), [])

    def test_a_handler_that_calls_while_its_thread_waits(self):
        hanging = self.peer(lambda call: call.peer.hang())
        client = self.client(hanging.address, prefetch_ms=0)
        thread = threading.Thread(target=self.failure, args=(client.next_id,))
        thread.start()
        self.wait_until(lambda: hanging.calls)
        told = []

        def call(*_):
            told.append(self.failure(client.next_id))
            client.close()

        self.handle(call)

        def interrupt():
            self.wait_until(lambda: client._turn._waiting)
            os.kill(os.getpid(), signal.SIGALRM)

        threading.Thread(target=interrupt).start()
        self.assertIsInstance(self.failure(client.next_id), SnowflakeError)
        thread.join(LONG_S)
        self.assertIn("a call within a call", str(told[0]))

    def test_a_handler_that_calls(self):
        ids, refused = [], []

        def call(*_):
            try:
                ids.append(client.next_id())
            except SnowflakeError as error:
                refused.append(str(error))

        self.handle(call)
        client = self.client(self.server(), prefetch_ms=0)
        ids += client.next_ids(10)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        began = time.monotonic()
        while not refused:
            ids.append(client.next_id())
            self.assertLess(time.monotonic() - began, LONG_S)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(set(refused),
                         {"a call within a call of the same thread, by a signal handler"})
        ids += [client.next_id() for _ in range(10)]
        self.assertEqual(len(set(ids)), len(ids))

    def test_a_handler_that_closes(self):
        client = self.client(self.signalling_peer().address, prefetch_ms=0)
        self.handle(lambda *_: client.close())
        error = self.failure(client.next_id)
        self.assertIsInstance(error, ClosedError)


class Arguments(Case):
    def test_agents(self):
        for agent in ("", "9", "-a", "a b", "a\n", "é", "a" * 257, None, b"a"):
            with self.subTest(agent=agent), self.assertRaises(InvalidAgentError):
                Snowflake(agent=agent)
        Snowflake(agent="a" * 256)
        Snowflake(agent="a-9Z")

    def test_servers(self):
        for server in ("", "a:", "a:0", "a:65536", "a:b", "::1", "[::1", "[a]:1", "a b", "unix:",
                       "unix:ids", "unix:/" + "a" * 107, "tls:", "tls:unix:/ids", "http://a",
                       "[fe80::7%]", "[fe80::7%a/b]", "[fe80::7%0123456789abcdef]",
                       "a..b", "a" * 64 + ".example:7609"):
            with self.subTest(server=server), self.assertRaises(ValueError) as caught:
                Snowflake(server, agent="test")
            self.assertIn(repr(server), str(caught.exception))
        with self.assertRaises(ValueError):
            Snowflake([], agent="test")

    def test_interfaces(self):
        for zone in ("br-lan", "eth0.100", "a_b", "0123456789abcde"):
            place = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::7", 1, 0, 9))
            with self.subTest(zone=zone), \
                    mock.patch("socket.getaddrinfo", return_value=[place]) as asked:
                Snowflake(f"[fe80::7%{zone}]:1", agent="test").close()
                self.assertEqual(asked.call_args.args[:2], (f"fe80::7%{zone}", 1))

    def test_times(self):
        for options in ({"timeout_ms": 0}, {"timeout_ms": "3"}, {"prefetch_ms": -1},
                        {"max_age_ms": 99}, {"prefetch_ms": 501}, {"timeout_ms": float("nan")}):
            with self.subTest(options), self.assertRaises(ValueError) as caught:
                Snowflake(agent="test", **options)
            self.assertRegex(str(caught.exception), "^(timeout|prefetch|max_age)_ms")

    def test_counts(self):
        client = self.client(self.dead())
        for count in (0, -1, 1.5, "1"):
            with self.assertRaises(ValueError):
                client.next_ids(count)
