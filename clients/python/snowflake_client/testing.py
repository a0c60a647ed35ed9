# SPDX-License-Identifier: Apache-2.0
"""For tests of programs that take IDs: clients that do not need a server, and a real server.

    client = FakeSnowflake()
    client.fail_next(UnavailableError("no IDs today"))
"""
import contextlib
import re
import subprocess
import tempfile
import threading
from collections import deque
from typing import IO, Deque, Generator, List, Optional

from ._options import check_count
from .errors import ClosedError, SnowflakeError

FIRST_ID = 1724551110456385536  # 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0
_START_LIMIT_S = 30
_STOP_LIMIT_S = 10


class FakeSnowflake:
    """Returns the same IDs in every run: first, first + step and so on."""

    def __init__(self, first: int = FIRST_ID, step: int = 1) -> None:
        if first < 1 or step < 1:
            raise ValueError(f"first {first} and step {step} must be 1 or more")
        self._next = first
        self._step = step
        self._errors: Deque[SnowflakeError] = deque()
        self.closed = False
        self._lock = threading.Lock()

    def fail_next(self, error: SnowflakeError) -> None:
        """Makes the next call raise this error. Several errors are raised in order."""
        self._errors.append(error)

    def next_id(self, timeout: Optional[float] = None) -> int:
        return self.next_ids(1)[0]

    def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]:
        check_count(count)
        with self._lock:
            if self.closed:
                raise ClosedError("the client is closed")
            if self._errors:
                raise self._errors.popleft()
            first = self._next
            self._next += count * self._step
        return list(range(first, first + count * self._step, self._step))

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> "FakeSnowflake":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFakeSnowflake:
    """Like FakeSnowflake, for AsyncSnowflake."""

    def __init__(self, first: int = FIRST_ID, step: int = 1) -> None:
        self._fake = FakeSnowflake(first, step)
        self.fail_next = self._fake.fail_next

    async def next_id(self, timeout: Optional[float] = None) -> int:
        return self._fake.next_id()

    async def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]:
        return self._fake.next_ids(count)

    @property
    def closed(self) -> bool:
        return self._fake.closed

    async def close(self) -> None:
        self._fake.close()

    async def __aenter__(self) -> "AsyncFakeSnowflake":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@contextlib.contextmanager
def running_server(*options: str, program: str = "snowflaked",
                   listen: str = "127.0.0.1:0") -> Generator[str, None, None]:
    """Yields the address of a server that runs until the end of the block. Raises RuntimeError if
    it does not start."""
    with tempfile.TemporaryDirectory() as directory, subprocess.Popen(
            [program, "--listen", listen, "--state-directory", directory, "--worker-id", "0",
             *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace") as process:
        assert process.stderr
        kill = threading.Timer(_START_LIMIT_S, process.kill)
        kill.start()
        # reads the log to its end, so that the server never waits for its reader
        reader = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
        try:
            address = _wait_until_ready(process.stderr)
            kill.cancel()
            reader.start()
            yield address
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_LIMIT_S)
        finally:
            kill.cancel()
            process.kill()
            if reader.ident:
                reader.join()


def _wait_until_ready(log: IO[str]) -> str:
    lines: List[str] = []
    address = ""
    for line in log:
        lines.append(line)
        match = re.search(r" event=listening address=(\S+)", line)
        address = address or (match[1] if match else "")
        if " event=ready " in line:
            return address
    raise RuntimeError(f"the server did not start: {''.join(lines)}")
