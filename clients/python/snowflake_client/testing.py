# SPDX-License-Identifier: Apache-2.0
"""For the tests of programs that take IDs: a client that needs no server, and a server that starts
in milliseconds.

    client = FakeSnowflake()
    client.fail_next(UnavailableError("no IDs today"))
"""
import contextlib
import re
import subprocess
import tempfile
import threading
from collections import deque
from typing import Deque, Iterator, List, TextIO

from .client import _check_count
from .errors import ClosedError, SnowflakeError

FIRST_ID = 1724551110456385536  # 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0

_START_LIMIT_S = 30
_STOP_LIMIT_S = 10


class FakeSnowflake:
    """The calls of a Snowflake, with IDs that are the same in each run: first, first + step and so
    on."""

    def __init__(self, first: int = FIRST_ID, step: int = 1) -> None:
        if first < 1 or step < 1:
            raise ValueError(f"first {first}, step {step}: not 1 or more")
        self._next = first
        self._step = step
        self._errors: Deque[SnowflakeError] = deque()
        self._is_closed = False
        self._lock = threading.Lock()

    def fail_next(self, error: SnowflakeError) -> None:
        """The next call raises it; the one after it, what is given next."""
        self._errors.append(error)

    def next_id(self) -> int:
        return self.next_ids(1)[0]

    def next_ids(self, count: int) -> List[int]:
        _check_count(count)
        with self._lock:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._errors:
                raise self._errors.popleft()
            first = self._next
            self._next += count * self._step
        return list(range(first, first + count * self._step, self._step))

    def close(self) -> None:
        self._is_closed = True

    def __enter__(self) -> "FakeSnowflake":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFakeSnowflake:
    """The same for an AsyncSnowflake."""

    def __init__(self, first: int = FIRST_ID, step: int = 1) -> None:
        self._fake = FakeSnowflake(first, step)
        self.fail_next = self._fake.fail_next

    async def next_id(self) -> int:
        return self._fake.next_id()

    async def next_ids(self, count: int) -> List[int]:
        return self._fake.next_ids(count)

    async def close(self) -> None:
        self._fake.close()

    async def __aenter__(self) -> "AsyncFakeSnowflake":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@contextlib.contextmanager
def running_server(*options: str, program: str = "snowflaked",
                   listen: str = "127.0.0.1:0") -> Iterator[str]:
    """A server of one's own, ready, as long as the block lasts; yields its address. It keeps its
    state in a directory that goes with it. RuntimeError if it does not start."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [program, "--listen", listen, "--state-directory", directory, "--worker-id", "0",
             *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace")
        assert process.stderr is not None
        late = threading.Timer(_START_LIMIT_S, process.kill)
        late.start()
        try:
            try:
                address = _address_once_ready(process.stderr)
            finally:
                late.cancel()
            yield address
        finally:
            process.terminate()
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _read_to_the_end(log: TextIO) -> None:
    """What is written later is read too, so that the server never waits for who does."""
    with log:
        deque(log, 0)


def _address_once_ready(log: TextIO) -> str:
    lines, address = [], ""
    for line in log:
        lines.append(line)
        found = re.search(r" event=listening address=(\S+)", line)
        address = address or (found[1] if found else "")
        if " event=ready " in line:
            threading.Thread(target=_read_to_the_end, args=(log,), daemon=True).start()
            return address
    log.close()
    raise RuntimeError(f"the server did not start: {''.join(lines)}")
