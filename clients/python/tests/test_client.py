# SPDX-License-Identifier: Apache-2.0
"""With real servers."""
import errno
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
from unittest import mock

from support import LONG_S, PACKAGE, Call, Case

from snowflake_client import (ClosedError, InvalidAgentError, Snowflake, SnowflakeError,
                              UnavailableError, UnreachableError)

CLONE_NEWPID = 0x20000000
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
# A program that forks in C must have no other thread: if one waits for the interpreter's lock, the
# child waits for it forever.
IS_ALONE = 'len(os.listdir("/proc/self/task")) == 1'
END_OF_REFILL = (f"while not {IS_ALONE}: time.sleep(0)",)

FORKS_AT_EACH_LINE = """
import ctypes, os, sys, time
from snowflake_client import Snowflake, SnowflakeError, client as package

def forks_at(line):
    child = None
    is_skipped = False

    def trace(frame, event, arg):
        nonlocal line, child, is_skipped
        if not frame.f_code.co_filename.startswith(os.path.dirname(package.__file__)):
            return None
        is_over = frame.f_code in OVER and lines[frame.f_lineno - 1].strip() in RETURNS
        if event == "line" and not is_over:
            line -= 1
            if line == 0 and not ({may_fork}):
                is_skipped = True
            elif line == 0:
                child = {fork}()
                if child != 0:
                    os.waitpid(child, 0)
        return trace

    client = Snowflake(sys.argv[1], agent="test", timeout=3)  # of the call that can fail
    while client.stats().buffered < 20:
        client.next_id({patient_s})
    while client._engine._waiters or not ({may_fork}):
        time.sleep(0)  # a refill is under way, or its thread ends
    if {is_empty}:
        client._engine.buffer.take_many(1000)
    sys.settrace(trace)
    try:
        ids = {call}
    except SnowflakeError:
        ids = []
    sys.settrace(None)
    if child is not None:
        ids += [*client.next_ids(2, {patient_s}), client.next_id({patient_s}),
                client.next_id({patient_s})]
        print("parent" if child else "child", *ids, flush=True)
    if child == 0:
        os._exit(0)
    return is_skipped or child is not None

with open(package.__file__) as file:
    lines = file.readlines()
RETURNS = ["return number", "return ids"]  # no handler is called after these
OVER = [Snowflake.next_id.__code__, Snowflake._take.__code__, Snowflake.next_ids.__code__]
line = 1
while forks_at(line):
    line += {step}
"""


class Programs(Case):
    def run_program(self, text, *within, address=None):
        """Returns the output of a program that gets an address, by default of a real server."""
        return subprocess.run(
            [*within, sys.executable, "-W", "error", "-c", text, address or self.server()],
            check=True, timeout=5 * LONG_S, stdout=subprocess.PIPE, text=True,
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
        with self.assertRaises(SnowflakeError) as caught, self.without_retries(), \
                Snowflake(agent="test") as client:
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
        with self.without_retries():
            for prefetch in (0.05, 0):
                error = self.failure(self.client(address, prefetch=prefetch).next_id)
                self.assertIsInstance(error, UnavailableError)
                self.assertEqual(error.attempts[0].server, address)
            error = self.failure(self.client(address).next_ids, 5)
        self.assertIsInstance(error, UnavailableError)
        self.assertGreater(error.retry_after_ms, 0)


class Ends(Programs):
    def test_a_program_ends_with_a_client_open(self):
        program = ("import sys; from snowflake_client import Snowflake\n"
                   f"client = Snowflake(sys.argv[1], agent='test', timeout={LONG_S})\n"
                   "for _ in range(1000): client.next_id()\n")
        self.run_program(program)

    def test_a_client_that_is_forgotten_leaves_nothing(self):
        peer = self.peer(Call.ids)
        client = Snowflake(peer.address, agent="test", timeout=LONG_S)
        for _ in range(1000):
            client.next_id()
        engine, reference = client._engine, weakref.ref(client)
        self.wait_until(lambda: not engine._waiters)
        with self.assertWarnsRegex(ResourceWarning, "unclosed <Snowflake"):
            del client
            gc.collect()
        self.assertIsNone(reference())
        self.assertTrue(peer.ended.acquire(timeout=LONG_S))


class Threads(Case):
    def test_none_comes_twice(self):
        server = self.server()
        for prefetch, count in ((0.05, 8000), (0, 400)):
            client = self.client(server, prefetch=prefetch)
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
            with self.without_retries(), \
                    self.assertRaisesRegex(UnreachableError, "too many open files"):
                client.next_id()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assert_ids([client.next_id()], 1)


class Fork(Programs):
    def test_parent_and_child_have_their_own(self):
        self.assert_own("os.fork()")

    def test_a_child_that_c_code_makes(self):
        """No hook of Python's is called then. The library keeps the interpreter's lock, so the
        child has it. The thread that refills ends first: see IS_ALONE."""
        self.assert_own("ctypes.PyDLL(None).fork()", *END_OF_REFILL)

    @unittest.skipIf(subprocess.run([*NAMESPACE, "true"], check=False, stderr=subprocess.DEVNULL)
                     .returncode, "there can be no namespace of process IDs")
    def test_a_child_with_the_process_id_of_its_parent(self):
        """Each is the first in a namespace of its own."""
        self.assert_own("ctypes.PyDLL(None).fork()", *END_OF_REFILL, "own = os.getpid()",
                        f"assert ctypes.PyDLL(None).unshare({CLONE_NEWPID}) == 0",
                        behind="assert os.getpid() == own", within=NAMESPACE)

    def assert_own(self, fork, *before, behind="", within=()):
        program = ["import ctypes, os, sys, time", "from snowflake_client import Snowflake",
                   f"client = Snowflake(sys.argv[1], agent='test', timeout={LONG_S})",
                   "while client.stats().buffered < 100: client.next_id()", *before,
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
        take the reply off its parent's connection, so it is only tried with prefetched IDs."""
        for fork, is_empty, call, step in (("os.fork", False, "[client.next_id()]", 1),
                                           ("os.fork", False, "client.next_ids(3)", 1),
                                           ("os.fork", True, "[client.next_id()]", 3),
                                           ("os.fork", True, "client.next_ids(3)", 3),
                                           ("ctypes.PyDLL(None).fork", False,
                                            "[client.next_id()]", 1)):
            with self.subTest(fork=fork, is_empty=is_empty, call=call):
                said = self.run_program(FORKS_AT_EACH_LINE.format(
                    fork=fork, is_empty=is_empty, call=call, step=step, patient_s=LONG_S,
                    may_fork="True" if fork == "os.fork" else IS_ALONE)).splitlines()
                ids = [int(word) for line in said for word in line.split()[1:]]
                self.assertGreater(len(said), 16)
                self.assertEqual([line.split()[0] for line in said],
                                 ["child", "parent"] * (len(said) // 2))
                self.assertGreaterEqual(len(ids), 4 * len(said) - 20)  # a call may fail
                self.assertEqual(len(set(ids)), len(ids))

    def test_a_child_of_a_call_under_way(self):
        peer = self.peer(lambda call: peer.hang())
        client = self.client(peer.address, prefetch=0)
        thread = threading.Thread(target=self.failure, args=(client.next_id,))
        thread.start()
        self.wait_until(lambda: peer.calls)
        child = os.fork()
        if child == 0:  # no call is waiting here, and the socket is closed
            engine = client._engine
            os._exit(1 if engine._waiters or engine.servers._connection else 0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.close()
        thread.join(LONG_S)


CLOSED_IN_A_CHILD = f"""
import ctypes, os, sys
from snowflake_client import Snowflake

client = Snowflake(sys.argv[1], agent="test", prefetch=0, timeout={LONG_S})
client.next_id()
assert {IS_ALONE}
child = ctypes.PyDLL(None).fork()
if child == 0:
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.next_id()
client.close()
"""


class Closing(Programs):
    def test_in_a_child_that_c_code_forks(self):
        """The connection is its parent's too."""
        peer = self.peer(Call.ids)
        self.run_program(CLOSED_IN_A_CHILD, address=peer.address)
        self.assertEqual(peer.connections, 1)


class _Raising:
    """A socket whose timeout cannot be set, since a handler raises."""

    def __init__(self, sock, stop):
        self._sock = sock
        self.settimeout = stop

    def __getattr__(self, name):
        return getattr(self._sock, name)


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
        client = self.client(self.server(), prefetch=0)
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
        client = self.client([hanging.address, hanging.address], prefetch=0)
        for kind in (RuntimeError, OSError, TimeoutError, ValueError, KeyError, TypeError):
            def stop(_, frame, kind=kind):
                """Raises only in a socket operation."""
                if frame.f_code.co_name == "_do":
                    raise kind("the handler's")
                signal.setitimer(signal.ITIMER_REAL, 0.001)  # the call does not wait yet

            self.handle(stop)
            error = self.failure(client.next_id)
            self.assertEqual((type(error), error.args), (kind, ("the handler's",)))

    def test_an_error_of_a_handler_between_two_operations(self):
        """It is the caller's, whatever its type, and no failure of the server."""
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch=0)
        client.next_id()
        for kind in (OSError(errno.ECONNRESET, "the handler's"), TimeoutError("the handler's")):
            for name in ("settimeout", "monotonic", "missing_bytes", "check_frame", "decode_reply"):
                def stop(*_, kind=kind):
                    raise kind

                module = "_servers" if name == "decode_reply" else "client"
                with mock.patch(f"snowflake_client.{module}.{name}", stop, create=True), \
                        self.subTest(name=name, kind=kind):
                    if name == "settimeout":
                        connection = client._engine.servers._connection
                        connection._sock = _Raising(connection._sock, stop)
                        connection._timeout = 0
                    self.assertIs(self.failure(client.next_id), kind)
                client.next_id()
        self.assertEqual(client.stats().failures, 0)

    def test_a_call_that_is_interrupted_as_it_leaves(self):
        """The next one is woken, wherever the handler raises."""
        class Stop(Exception):
            pass

        for name in ("_leave", "_wake_first"):
            client = self.client(self.peer(Call.ids).address, prefetch=0)
            original = getattr(client._engine, name)
            calls = iter([Stop])

            def stop(*arguments, original=original, calls=calls):
                for error in calls:
                    raise error
                return original(*arguments)

            with mock.patch.object(client._engine, name, stop):
                self.assertIsInstance(self.failure(client.next_id), Stop)
            self.assertEqual(len(client._engine._waiters), 0)
            client.next_id()

    def test_a_handler_that_calls_while_its_thread_waits(self):
        hanging = self.peer(lambda call: call.peer.hang())
        client = self.client(hanging.address, prefetch=0)
        thread = threading.Thread(target=self.failure, args=(client.next_id,))
        thread.start()
        self.wait_until(lambda: hanging.calls)
        told = []

        def call(*_):
            told.append(self.failure(client.next_id))
            client.close()

        self.handle(call)

        def interrupt():
            self.wait_until(lambda: len(client._engine._waiters) == 2)
            os.kill(os.getpid(), signal.SIGALRM)

        threading.Thread(target=interrupt).start()
        self.assertIsInstance(self.failure(client.next_id), SnowflakeError)
        thread.join(LONG_S)
        self.assertIn("a signal handler calls the client", str(told[0]))

    def test_a_handler_that_calls(self):
        ids, refused = [], []

        def call(*_):
            try:
                ids.append(client.next_id())
            except SnowflakeError as error:
                refused.append(str(error))

        self.handle(call)
        client = self.client(self.server(), prefetch=0)
        ids += client.next_ids(10)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        began = time.monotonic()
        while not refused:
            ids.append(client.next_id())
            self.assertLess(time.monotonic() - began, LONG_S)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(set(refused),
                         {"a signal handler calls the client within a call of its thread"})
        ids += [client.next_id() for _ in range(10)]
        self.assertEqual(len(set(ids)), len(ids))

    def test_a_handler_that_closes(self):
        client = self.client(self.signalling_peer().address, prefetch=0)
        self.handle(lambda *_: client.close())
        error = self.failure(client.next_id)
        self.assertIsInstance(error, ClosedError)


class Arguments(Case):
    def test_agents(self):
        for agent in ("", "9", "-a", "a b", "a\n", "é", "a" * 257, b"a"):
            with self.subTest(agent=agent), self.assertRaises(InvalidAgentError):
                Snowflake(agent=agent)
        Snowflake(agent="a" * 256)
        Snowflake(agent="a-9Z")

    def test_the_default_agent_is_the_program(self):
        for program, agent in (("/srv/my_app.py", "my-app"), ("-c", "python"), ("", "python"),
                               ("/usr/bin/gunicorn", "gunicorn"), ("/1/2x", "x")):
            with mock.patch("sys.argv", [program]):
                self.assertIn(f"agent={agent}>", repr(Snowflake()))

    def test_ways_to_name_servers(self):
        for servers, texts in (
                ("a.example,b.example", ["a.example", "b.example"]),
                ("a:1, tls:b:2", ["a:1", "tls:b:2"]),
                (["a:1", "unix:/a,b"], ["a:1", "unix:/a,b"]),
                ("snowflake://a:1,[::1]:2/", ["a:1", "[::1]:2"]),
                (["snowflakes://a,b"], ["tls:a", "tls:b"]), (None, ["x:1", "y"])):
            with self.subTest(servers=servers), \
                    mock.patch.dict(os.environ, {"SNOWFLAKE_SERVERS": "x:1,y"}):
                self.assertIn(f"<Snowflake {','.join(texts)} agent=", repr(Snowflake(servers)))

    def test_closed(self):
        client = Snowflake("127.0.0.1")
        self.assertFalse(client.closed)
        client.close()
        self.assertTrue(client.closed)
        self.assertTrue(repr(client).endswith(" closed>"))
        for call in (client.next_id, lambda: client.next_ids(3)):
            self.assertIsInstance(self.failure(call), ClosedError)

    def test_a_bound_method_is_no_default_of_a_django_field(self):
        with self.assertRaisesRegex(ValueError, "define a function"):
            Snowflake().next_id.deconstruct()

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
        for options in ({"timeout": 0}, {"timeout": "3"}, {"prefetch": -1}, {"max_age": 0.099},
                        {"prefetch": 0.501}, {"timeout": float("nan")}, {"timeout": 3601}):
            with self.subTest(options), self.assertRaises(ValueError) as caught:
                Snowflake(agent="test", **options)
            self.assertRegex(str(caught.exception), "^(timeout|prefetch|max_age) ")

    def test_counts(self):
        client = self.client(self.dead())
        for count in (0, -1, 1.5, "1"):
            with self.assertRaises(ValueError):
                client.next_ids(count)
