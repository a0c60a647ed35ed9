# SPDX-License-Identifier: Apache-2.0
"""Single flight: callers that find the buffer empty queue up, the first of them sends one request
for all, and the reply is divided among them."""
import _thread
import ssl
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import Callable, Deque, List, NamedTuple, Optional

from ._buffer import Buffer
from ._codec import MAX_BATCH
from ._fork import new_fork_mark
from ._options import Options, Servers, check_options, check_seconds
from ._servers import Io, ServerPool
from .errors import ClosedError, SnowflakeError

_RECHECK = 0.5  # seconds: a signal handler can raise anywhere, and so lose a wake-up


class Stats(NamedTuple):
    """What a client has done since it was made, or since the last fork()."""
    received: int  # IDs
    buffered: int  # IDs in the prefetch buffer now
    expired: int  # IDs thrown away for their age
    requests: int  # that were answered with IDs
    failures: int  # attempts that failed
    failovers: int
    server: Optional[str]  # that answered last


class _Waiter:
    def __init__(self, count: int, is_batch: bool, io: Io) -> None:
        self.missing = count
        self.is_batch = is_batch
        self.ids: List[int] = []
        self.signal = io.signal()
        self.caller = io.caller()
        self.began = monotonic()
        self.has_yielded = False

    def add(self, ids: List[int]) -> None:
        self.ids += ids
        self.missing -= len(ids)
        if self.missing == 0:
            self.signal.set()


class Engine:
    """Belongs to one process, and to one event loop or kind of thread. A child that is forked in a
    call goes on in it, and finds it closed."""

    def __init__(self, options: Options, io: Io, start_refill: Callable[["Engine"], None]) -> None:
        self.mark = new_fork_mark()
        self.spawn = _thread.start_new_thread  # gevent and eventlet replace it
        self._options = options
        self._io = io
        self._received = 0
        self.buffer = Buffer(options.prefetch, options.max_age, lambda: start_refill(self))
        self.servers = ServerPool(options, io)
        self._waiters: Deque[_Waiter] = deque()  # the first one sends requests

    @property
    def is_current(self) -> bool:
        return bool(self.mark[0]) and self.spawn is _thread.start_new_thread

    async def take(self, count: int, is_batch: bool, timeout: float) -> List[int]:
        """Returns all the IDs, or raises SnowflakeError at the end of the timeout."""
        waiter = _Waiter(count, is_batch, self._io)
        deadline = waiter.began + timeout
        if waiter.caller and any(other.caller == waiter.caller for other in list(self._waiters)):
            raise SnowflakeError("a signal handler calls the client within a call of its thread")
        try:
            self._check_open()
            if is_batch:
                waiter.add(self.buffer.take_many(count))
            self._waiters.append(waiter)
            while waiter.missing:
                await self._proceed(waiter, deadline, timeout)
            return waiter.ids
        finally:
            try:
                self._leave(waiter)
            except BaseException:  # of a signal handler
                self._leave(waiter)
                raise

    async def refill(self) -> None:
        """Requests IDs before the buffer is empty. Calls that wait report why it fails."""
        waiter, timeout = _Waiter(0, False, self._io), self._options.timeout
        try:
            self._waiters.append(waiter)
            while self.buffer.is_low() and not self.servers.is_closed:
                await self._proceed(waiter, waiter.began + timeout, timeout)
        except SnowflakeError:
            pass
        finally:
            self._leave(waiter)

    async def _proceed(self, waiter: _Waiter, deadline: float, timeout: float) -> None:
        self._check_open()
        now = monotonic()
        if now >= deadline:
            raise self.servers.error(timeout)
        if self._waiters[0] is not waiter:
            await self._io.wait(waiter.signal, min(deadline, now + _RECHECK))
        elif self._must_yield(waiter, deadline):
            waiter.has_yielded = True
            self._waiters.rotate(-1)
            self._wake_first()
        elif self.servers.is_failing and (retry_at := self.servers.retry_at) > now:
            half = (waiter.began + deadline) / 2
            until = retry_at if now >= half else min(retry_at, half)  # when it may have to yield
            await self._io.wait(waiter.signal, min(until, deadline))
        else:
            await self._request(waiter, deadline)

    def _must_yield(self, waiter: _Waiter, deadline: float) -> bool:
        """While servers fail, the time that is left for the first one may not suffice for a distant
        server; then a later one goes first."""
        return (self.servers.is_failing and not waiter.has_yielded and len(self._waiters) > 1
                and 2 * monotonic() >= waiter.began + deadline)

    async def _request(self, call: _Waiter, deadline: float) -> None:
        waiters = [waiter for waiter in list(self._waiters) if waiter.missing]
        if self._options.prefetch > 0:
            for waiter in waiters:  # from what others have requested meanwhile
                waiter.add(self.buffer.take_many(waiter.missing))
        singles = sum(waiter.missing for waiter in waiters if not waiter.is_batch)
        count = sum(waiter.missing for waiter in waiters if waiter.is_batch)
        is_refill = self._options.prefetch > 0 and (singles > 0 or self.buffer.is_low())
        if is_refill:
            count += max(self.buffer.wanted(self.servers.round_trip), singles)
        else:
            count += singles
        if count == 0:
            return
        ids = await self.servers.fetch(min(count, MAX_BATCH), call, deadline)
        if ids is None:
            return
        self._received += len(ids)
        given = 0
        for waiter in waiters:
            part, ids = ids[:waiter.missing], ids[waiter.missing:]
            waiter.add(part)
            given += 0 if waiter.is_batch else len(part)
        if is_refill and not self.servers.is_closed:
            self.buffer.put(ids, self.servers.requested_at, given)

    def _leave(self, waiter: _Waiter) -> None:
        with suppress(ValueError):
            self._waiters.remove(waiter)
        self._wake_first()
        if self.servers.is_closed and not self._waiters:
            self._clear()

    def _wake_first(self) -> None:
        with suppress(IndexError):
            self._waiters[0].signal.set()

    def _check_open(self) -> None:
        if self.servers.is_closed:
            raise ClosedError("the client is closed")

    def close(self) -> None:
        """Ends calls that are under way; the last of them disconnects."""
        self.servers.close()
        self.buffer.drop()
        for waiter in list(self._waiters):
            waiter.signal.set()
        if not self._waiters:
            self._clear()

    def abandon(self) -> None:
        """In a child, where the threads of the parent's calls do not run."""
        self.servers.is_closed = True
        self._clear()

    def _clear(self) -> None:
        self.servers.disconnect()
        self.buffer.drop()

    def stats(self) -> Stats:
        servers = self.servers
        return Stats(self._received, self.buffer.level, self.buffer.expired, servers.requests,
                     servers.n_failures, servers.failovers, servers.server)


class Client:
    """Gets unique IDs from one of several servers. It connects when the first ID is taken.

    servers: HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH. Several servers
        are given as a list, a comma-separated string, or snowflake://HOST:PORT,HOST:PORT;
        snowflakes:// selects TLS. Default: $SNOWFLAKE_SERVERS, or else 127.0.0.1:7609.
    agent: the name under which servers count this program's IDs. Default: the name in sys.argv.
    timeout: time limit of each call in seconds, across all servers and retries.
    prefetch: how many seconds the prefetched IDs should last; 0 disables prefetching.
    max_age: the age in seconds at which prefetched IDs are discarded.
    tls: for "tls:" servers. Default: ssl.create_default_context().
    """

    def __init__(self, servers: Servers = None, *, agent: Optional[str] = None,
                 timeout: float = 3.0, prefetch: float = 0.05, max_age: float = 1.0,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        self._options = check_options(servers, agent, timeout, prefetch, max_age, tls)
        self._closed = False
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _seconds(self, timeout: Optional[float]) -> float:
        if timeout is None:
            return self._options.timeout
        return check_seconds("timeout", timeout, 0.001)

    @property
    def closed(self) -> bool:
        return self._closed

    def __repr__(self) -> str:
        servers = ",".join(address.text for address in self._options.addresses)
        return (f"<{type(self).__name__} {servers} agent={self._options.agent}"
                f"{' closed' if self._closed else ''}>")
