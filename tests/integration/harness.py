# SPDX-License-Identifier: Apache-2.0
"""A snowflaked for a test: its process, port, state directory and log.

A test fails when its server ends by itself, reports anything to a sanitizer, or writes a line to
standard error that is not a log line. A test waits for events. `HANG_GUARD_S` ends a wait for an
event that never comes; it is too long to judge the product. `scaled()` shrinks the amounts.

  SNOWFLAKE_BUILD   the build directory, <root>/build by default
  SNOWFLAKE_SERVER  host:port of a server to test instead; only the tests of the wire run then
  SNOWFLAKE_SCALE   what amounts are multiplied with: 1, or 0.02 in a sanitizer build
"""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import uuid
from typing import NamedTuple

import wire
from bindings import ROOT

BUILD = pathlib.Path(os.environ.get("SNOWFLAKE_BUILD", ROOT / "build")).resolve()
SNOWFLAKED = BUILD / "server" / "snowflaked"
SNOWFLAKECTL = BUILD / "ctl" / "snowflakectl"
ELSEWHERE = os.environ.get("SNOWFLAKE_SERVER")

EPOCH_MS = 1288834974657
# a pattern: the version of a release, or of another commit (deploy/version)
VERSION = r"\d+\.\d+\.\d+(\+git\d{14}\.[0-9a-f]{12})?"
LOOK_EVERY_S = 0.005
HANG_GUARD_S = 300
LOG_PIPE_BYTES = 1 << 19  # large, because a server drops log lines for which there is no room
LONG_WAIT_MS = 60000
CLONE_NEWNS = 0x00020000
PIDFD_GETFD = 438  # sys/syscall.h
# A layout with few IDs, 16 per 100 ms, so that calls wait as long as a test needs.
SLOW_LAYOUT = ("epoch_ms=1288834974657,tick_ms=100,time_bits=40,datacenter_bits=10,worker_bits=9,"
               "sequence_bits=4")
PER_TICK = 16
SLOW = ("--layout", SLOW_LAYOUT, "--max-ahead", 0, "--max-wait", LONG_WAIT_MS)
PARKING = ("--layout", SLOW_LAYOUT, "--max-ahead", 0, "--threads", 1)


def _sanitizer():
    try:
        options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    except FileNotFoundError:
        return "none"
    return next(option["value"] for option in options if option["name"] == "b_sanitize")


SANITIZER = _sanitizer()
SANITIZED = SANITIZER != "none"
SCALE = float(os.environ.get("SNOWFLAKE_SCALE", 0.02 if SANITIZED else 1))

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
    "G_DEBUG": "fatal-criticals",
    # GLib's own allocator passes memory between threads behind a lock that TSan cannot see
    **({"G_SLICE": "always-malloc"} if SANITIZER == "thread" else {}),
    "ASAN_OPTIONS": "exitcode=99:detect_leaks=1:detect_stack_use_after_return=1",
    "LSAN_OPTIONS": f"suppressions={ROOT}/tests/lsan.suppressions:print_suppressions=0",
    "UBSAN_OPTIONS": "exitcode=99:halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "exitcode=99:halt_on_error=1:second_deadlock_stack=1:"
                    f"suppressions={ROOT}/tests/tsan.suppressions",
}
# if snowflakectl ends while it asks servers, it does not wait for its threads
CTL_ENVIRONMENT = {
    **ENVIRONMENT, "TZ": "UTC", "XDG_CONFIG_HOME": "/nonexistent",
    "TSAN_OPTIONS": f"{ENVIRONMENT['TSAN_OPTIONS']}:report_thread_leaks=0:"
                    f"suppressions={ROOT}/tests/tsan-ctl.suppressions"}


@functools.cache
def libfaketime():
    """Returns the value of LD_PRELOAD. The loader replaces $LIB with the directory of libraries."""
    name = "faketime/libfaketime.so.1"
    if not any(pathlib.Path("/usr").glob(f"lib*/{name}")) and \
            not any(pathlib.Path("/usr/lib").glob(f"*/{name}")):
        raise AssertionError(f"there is no {name} in /usr/lib, install faketime")
    return f"/usr/$LIB/{name}"


def forget_faketime(process_id):
    """Removes libfaketime's files of a killed process. A new process with the same ID would not
    start."""
    for name in ("faketime_shm_", "sem.faketime_sem_"):
        pathlib.Path(f"/dev/shm/{name}{process_id}").unlink(missing_ok=True)


def scaled(amount, least=1):
    return max(least, int(amount * SCALE))


def wait_for(condition, what="the condition"):
    """Polls until condition() is true, and returns its result."""
    guard = time.monotonic() + HANG_GUARD_S
    while not (result := condition()):
        if time.monotonic() > guard:
            raise AssertionError(f"not within {HANG_GUARD_S} s: {what}")
        time.sleep(LOOK_EVERY_S)  # lint: allow sleep
    return result


def run_together(*functions):
    """Calls each function in its own thread, and waits for all of them."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def is_increasing(numbers):
    return all(a < b for a, b in zip(numbers, numbers[1:]))


class Parts(NamedTuple):
    """The parts of an ID of the default layout."""
    time_ms: int
    datacenter_id: int
    worker_id: int
    sequence: int

    @classmethod
    def of(cls, number):
        return cls((number >> 22) + EPOCH_MS, number >> 17 & 31, number >> 12 & 31, number & 4095)


class Event(NamedTuple):
    level: str
    name: str
    fields: dict


LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warning|info|debug) "
                      r"event=([a-z-]+)((?: [a-z_]+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"]*))*)")
LOG_FIELD = re.compile(r" ([a-z_]+)=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\"]*))")


def parse_log_line(line):
    """Parses an event. Returns None if the line is not a log line."""
    match = LOG_LINE.fullmatch(line)
    if not match:
        return None
    fields = {key: re.sub(r"\\(.)", r"\1", quoted) or plain
              for key, quoted, plain in LOG_FIELD.findall(match[3])}
    return Event(match[1], match[2], fields)


class Server:
    """One process of snowflaked, from its start to its end."""

    def __init__(self, *options, listen="127.0.0.1:0", environment=None, wrapper=(), user=None,
                 program=SNOWFLAKED, inherits=(), pipes=False):
        if listen:
            options = ("--listen", listen, *options)
        self.command = [*map(str, wrapper), str(program), *map(str, options)]
        self.started = time.monotonic()
        self.lines = []
        self.events = []
        self.strange = []  # lines that are not log lines
        self.addresses = []
        self.expect_end = False
        self._changed = threading.Condition()
        self._log_ended = False
        told = subprocess.PIPE if pipes else subprocess.DEVNULL
        self.process = subprocess.Popen(
            self.command, env={**ENVIRONMENT, **(environment or {})}, stdin=told, stdout=told,
            stderr=subprocess.PIPE, text=True, errors="replace",
            user=user, group=user, extra_groups=[] if user else None, cwd="/",
            pass_fds=inherits, pipesize=LOG_PIPE_BYTES)
        threading.Thread(target=self._read_log, daemon=True).start()

    def _read_log(self):
        for line in self.process.stderr:
            line = line.rstrip("\n")
            event = parse_log_line(line)
            with self._changed:
                self.lines.append(line)
                if event is None:
                    self.strange.append(line)
                else:
                    self.events.append(event)
                    if event.name == "listening":
                        self.addresses.append(split_address(event.fields["address"]))
                self._changed.notify_all()
        forget_faketime(self.pid)
        with self._changed:
            self._log_ended = True
            self._changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    @property
    def address(self):
        return self.addresses[0]

    @property
    def name(self):
        """Returns HOST:PORT, or unix:PATH."""
        return self.address if isinstance(self.address, str) else "%s:%d" % self.address

    @property
    def admin_address(self):
        """Returns the address of the admin port."""
        return split_address(self.wait_event("admin-listening").fields["address"])

    @property
    def log(self):
        return "\n".join(self.lines)

    def find(self, name, **fields):
        """Returns the first event with this name and these fields, or None."""
        return next((event for event in list(self.events) if event.name == name
                     and fields.items() <= event.fields.items()), None)

    def count_events(self, name):
        return sum(event.name == name for event in list(self.events))

    def wait_event(self, name, **fields):
        with self._changed:
            self._changed.wait_for(lambda: self.find(name, **fields) or self._log_ended,
                                   HANG_GUARD_S)
        event = self.find(name, **fields)
        if event is None:
            raise AssertionError(f"no event={name} {fields} in the log of {self.command}:\n"
                                 f"{self.log or '(empty)'}")
        return event

    def wait_ready(self):
        self.wait_event("ready")
        return self

    def wait_end(self):
        """Waits for the end of the process and of its log. Returns the exit status."""
        self.expect_end = True
        try:
            wait_for(lambda: self.process.poll() is not None)
        except AssertionError as error:
            raise AssertionError(f"{error}\nstill running:\n{self.log}") from None
        with self._changed:
            self._changed.wait_for(lambda: self._log_ended, HANG_GUARD_S)
        return self.process.returncode

    def send_signal(self, number):
        self.process.send_signal(number)

    def terminate(self):
        """Stops the server in order. Returns the exit status."""
        self.expect_end = True
        self.process.terminate()
        return self.wait_end()

    def begin_stop(self):
        """Sends SIGTERM, and waits for the server's log event, which it returns."""
        self.expect_end = True
        self.process.terminate()
        return self.wait_event("stopping")

    def kill(self):
        self.expect_end = True
        self.process.kill()
        self.wait_end()

    def pause(self):
        """Holds the process (SIGSTOP) until resume() or the end of the test."""
        self.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.state() == "T", what="the server to be stopped")

    def resume(self):
        self.send_signal(signal.SIGCONT)

    def check(self):
        """Ends the process if it still runs. Returns its problems, or None."""
        status = self.process.poll()
        if status is None:
            self.process.send_signal(signal.SIGCONT)
            try:
                status = self.terminate()
            except AssertionError:
                self.kill()
                return f"did not end within the limit after SIGTERM:\n{self.log}"
            if status != 0:
                return f"ended with status {status} after SIGTERM:\n{self.log}"
        elif not self.expect_end:
            self.wait_end()
            return f"ended by itself with status {status}:\n{self.log}"
        if self.strange:
            return "wrote lines that are not of its log:\n" + "\n".join(self.strange)
        return None

    def connect(self, source=None):
        return wire.Connection(self.address, HANG_GUARD_S, source)

    def call(self, method, *arguments):
        """Makes a call on a new connection. Returns the result."""
        with self.connect() as connection:
            return connection.call(wire.STRICT, method, *arguments).success

    def counters(self):
        return self.call("get_counters")

    def open_connections(self):
        """Returns the server's number of connections, including the one that asks."""
        counters = self.counters()
        return counters["connections_accepted"] - counters["connections_ended"]

    def stat(self):
        """Returns the fields of /proc/PID/stat from the state on."""
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()

    def state(self):
        return self.stat()[0]

    def cpu_seconds(self):
        fields = self.stat()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


class OtherServer:
    """The server in SNOWFLAKE_SERVER, of which only the address is known."""

    def __init__(self, address):
        self.address = split_address(address)

    connect = Server.connect
    call = Server.call
    counters = Server.counters


def split_address(text):
    """Returns ("::1", 7609) for "[::1]:7609". unix:PATH and tls:HOST:PORT do not change. "*"
    becomes the loopback address."""
    if text.startswith(("unix:", "tls:")):
        return text
    host, _, port = text.rpartition(":")
    return "127.0.0.1" if host == "*" else host.strip("[]"), int(port)


class ServerTest(unittest.TestCase):
    """A test that starts servers. Each server is stopped and checked at the end of the test."""

    def setUp(self):
        if ELSEWHERE:
            self.skipTest("needs a server of its own")
        self.directory = temporary_directory(self)
        self.state = self.directory / "state"

    def allow_descriptors(self, count=8192):
        """Raises this process's limit of descriptors until the end of the test."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def start(self, *options, ready=True, **settings):
        """Starts a server with the state directory `self.state`, and waits until it is ready,
        unless ready=False."""
        server = self.launch("--state-directory", self.state, *options, **settings)
        return server.wait_ready() if ready else server

    def launch(self, *options, **settings):
        """Starts a server with only these options."""
        server = Server(*options, **settings)
        self.addCleanup(self._hold_to_account, server)
        return server

    def _hold_to_account(self, server):
        if problem := server.check():
            self.fail(f"{' '.join(server.command)}\n{problem}")

    def hang_up(self, server, event):
        """Sends SIGHUP. Returns the fields of the event that reports the result."""
        said = server.count_events(event)
        server.send_signal(signal.SIGHUP)
        return wait_for(lambda: [each for each in list(server.events)
                                 if each.name == event][said:], what=event)[-1].fields

    def occupy(self, server):
        """Gives a SLOW server calls for the next 30 seconds, on a connection that stays open until
        the end of the test. One of them is answered."""
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.send(wire.STRICT.call("get_id", "good") * 16 * 300)
        connection.reply(wire.STRICT)
        return server

    def assert_refused(self, server, status, *words):
        """Fails unless the server ends by itself with this status, and one line that contains the
        words."""
        self.assertEqual(server.wait_end(), status, server.log)
        lines = [line for line in server.lines if all(str(word) in line for word in words)]
        self.assertEqual(len(lines), 1, f"one line with {words} expected in:\n{server.log}")
        self.assertIsNone(server.find("ready"))
        if status == 2:  # reported before there is a log
            server.strange.clear()


class SharedServerTest(unittest.TestCase):
    """A test of the wire only. One server, started with `options`, serves the whole class; or the
    one that SNOWFLAKE_SERVER names."""
    options = ()

    @classmethod
    def setUpClass(cls):
        if ELSEWHERE:
            if "--no-fast-path" in cls.options:
                raise unittest.SkipTest("needs a server of its own")
            cls.server = OtherServer(ELSEWHERE)
            return
        state = tempfile.mkdtemp(prefix="snowflake-state-")
        cls.addClassCleanup(shutil.rmtree, state, ignore_errors=True)
        # the disk of a busy machine can take longer than the second for which calls wait
        cls.server = Server("--state-directory", state, "--max-wait", LONG_WAIT_MS, *cls.options)
        cls.addClassCleanup(cls._hold_to_account)
        cls.server.wait_ready()

    @classmethod
    def _hold_to_account(cls):
        if problem := cls.server.check():
            raise AssertionError(problem)

    def connect(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        return connection


def reserve_ahead(state, seconds, datacenter_id=0, worker_id=0):
    """Writes the record of an earlier run whose clock was ahead by this much. Returns its end, in
    milliseconds since the Unix epoch."""
    # creates the identity of the directory
    Server("--state-directory", state).wait_ready().terminate()
    tick = int((time.time() + seconds) * 1000) - EPOCH_MS
    (state / f"worker-{datacenter_id}-{worker_id}.json").write_text(json.dumps(
        {"reserved_until_tick": tick, "owner": str(uuid.uuid4()), "address": "127.0.0.1:1"}))
    return tick + EPOCH_MS


def dead_address(test):
    """Returns HOST:PORT at which no process listens during the test, because the port is taken."""
    taken = socket.socket()
    test.addCleanup(taken.close)
    taken.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{taken.getsockname()[1]}"


def own_address(test):
    """Returns HOST:PORT at which only servers of the test can listen. The port stays taken until
    the end of the test, so that no other process gets it while a server is restarted."""
    taken = socket.socket()
    test.addCleanup(taken.close)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{taken.getsockname()[1]}"


def secret_file(path, text, mode=0o600):
    """Writes a file for --zookeeper-auth."""
    path.write_text(text)
    path.chmod(mode)
    return path


def temporary_directory(test):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-test-"))
    test.addCleanup(shutil.rmtree, directory, ignore_errors=True)
    return directory


def may_mount():
    """Moves this process, once, to its own mount namespace, whose mounts end with it."""
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


def mount(directory, options):
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)


def their_end(server, connection):
    """Returns the server's socket of this connection."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(server.pid)
    try:
        for path in pathlib.Path(f"/proc/{server.pid}/fd").iterdir():
            if not os.readlink(path).startswith("socket:"):
                continue
            fd = libc.syscall(PIDFD_GETFD, process, int(path.name), 0)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd")
            end = socket.socket(fileno=fd)
            with contextlib.suppress(OSError):  # a listening socket has no peer
                if end.getpeername() == connection.socket.getsockname():
                    return end
            end.close()
    finally:
        os.close(process)
    raise AssertionError("the server has no such connection")


needs_own_server = unittest.skipIf(ELSEWHERE, "needs a server of its own")
