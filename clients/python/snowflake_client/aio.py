# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio."""
import asyncio
import socket
from time import monotonic
from typing import Any, Coroutine, Dict, List, Optional, Protocol, Set, TypeVar

from ._codec import Failure
from ._engine import Client, Engine, Stats
from ._options import Address, Options, check_count
from ._servers import Signal
from .client import (check_frame, check_not_self, connection_ended, missing_bytes,
                     socket_failure)
from .errors import ClosedError, SnowflakeError

_T = TypeVar("_T")


class AsyncIdSource(Protocol):
    """The interface that AsyncSnowflake and AsyncFakeSnowflake share."""

    async def next_id(self, timeout: Optional[float] = None) -> int: ...
    async def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]: ...
    async def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...


class AsyncSnowflake(Client):
    """Like Snowflake, for asyncio. Each event loop has its own connection and prefetched IDs."""

    def _start(self) -> None:
        self._engines: Dict[asyncio.AbstractEventLoop, Engine] = {}

    def _engine(self) -> Engine:
        loop = asyncio.get_running_loop()
        engine = self._engines.get(loop)
        if engine is None or not engine.mark[0]:
            for other in [each for each in self._engines if each is loop or each.is_closed()]:
                self._engines.pop(other).abandon()
            engine = self._engines[loop] = Engine(self._options, AsyncIo(loop), _start_refill)
        return engine

    async def next_id(self, timeout: Optional[float] = None) -> int:
        """Like Snowflake.next_id."""
        engine = self._engine()
        number = engine.buffer.take()
        if number is not None and engine.mark[0]:
            return number
        return (await self._take(1, False, timeout))[0]

    async def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]:
        """Like Snowflake.next_ids."""
        return await self._take(check_count(count), True, timeout)

    async def _take(self, count: int, is_batch: bool, timeout: Optional[float]) -> List[int]:
        timeout = self._seconds(timeout)
        while True:
            engine = self._engine()
            if self._closed:
                raise ClosedError("the client is closed")
            try:
                ids = await engine.take(count, is_batch, timeout)
            except SnowflakeError:
                if engine.mark[0]:
                    raise
                continue
            if engine.mark[0]:
                return ids

    def stats(self) -> Stats:
        """Returns the statistics of the running event loop."""
        return self._engine().stats()

    async def close(self) -> None:
        """Like Snowflake.close, in all event loops."""
        self._closed = True
        for loop, engine in list(self._engines.items()):
            if loop is asyncio.get_running_loop():
                engine.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(engine.close)
        await asyncio.sleep(0)  # the transport closes its socket in the next pass

    async def __aenter__(self) -> "AsyncSnowflake":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


_refills: Set["asyncio.Task[None]"] = set()  # an event loop knows its tasks only weakly


def _start_refill(engine: Engine) -> None:
    task = asyncio.get_running_loop().create_task(engine.refill())
    _refills.add(task)
    task.add_done_callback(_refills.discard)


class _FutureSignal:
    def __init__(self) -> None:
        self._is_set = False
        self._future: "Optional[asyncio.Future[None]]" = None

    def set(self) -> None:
        self._is_set = True
        if self._future and not self._future.done():
            self._future.set_result(None)

    async def wait(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if not self._is_set:
            self._future = loop.create_future()
            timer = loop.call_later(max(until - monotonic(), 0), self.set)
            try:
                await self._future
            finally:
                timer.cancel()
        self._is_set = False


class AsyncIo:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def caller(self) -> int:
        return 0  # no task can call within another

    def signal(self) -> _FutureSignal:
        return _FutureSignal()

    def set_from_thread(self, signal: Signal) -> None:
        try:
            self._loop.call_soon_threadsafe(signal.set)
        except RuntimeError:
            pass  # the event loop is closed

    async def wait(self, signal: _FutureSignal, until: float) -> None:
        await signal.wait(self._loop, until)

    def connection(self, family: int, address: Any) -> "_ProtocolConnection":
        return _ProtocolConnection(self._loop, family, address)


class _ProtocolConnection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, family: int, address: Any) -> None:
        self._loop = loop
        self._family = family
        self._address = address
        self._transport: Optional[asyncio.Transport] = None
        self._opening: "Optional[asyncio.Task[Any]]" = None
        self._reply: "Optional[asyncio.Future[bytes]]" = None
        self._data = b""
        self._error: Optional[Failure] = None  # why the connection ended
        self.is_open = False

    async def open(self, address: Address, options: Options, limit: float) -> None:
        tls = options.tls if address.is_tls else None
        try:
            sock = socket.socket(self._family, socket.SOCK_STREAM)
        except OSError as error:
            raise socket_failure(error) from error
        try:
            sock.setblocking(False)
            await self._within(self._loop.sock_connect(sock, self._address), limit,
                               "not connected in time")
            try:
                check_not_self(sock)
            except OSError as error:
                raise socket_failure(error) from error
            await self._within(self._loop.create_connection(
                lambda: self, sock=sock, ssl=tls,
                server_hostname=address.tls_name if tls else None), limit,
                "no TLS handshake in time")
        except BaseException:
            self.close()
            sock.close()
            raise

    async def _within(self, operation: Coroutine[Any, Any, _T], limit: float, late: str) -> _T:
        self._opening = task = self._loop.create_task(operation)
        try:
            await asyncio.wait({task}, timeout=max(limit - monotonic(), 0))
        finally:
            self._opening = None
            task.cancel()
        if not task.done() or task.cancelled():
            await asyncio.wait({task})
            raise Failure("timeout", late, TimeoutError("timed out"))
        try:
            return task.result()
        except OSError as error:
            raise socket_failure(error, late) from error

    async def call(self, frame: bytes, limit: float) -> bytes:
        self.is_open = False
        self._data = b""
        if self._error or not self._transport:
            raise self._error or connection_ended(True)
        self._reply = self._loop.create_future()
        timer = self._loop.call_later(max(limit - monotonic(), 0), self._end, Failure(
            "timeout", "no answer in time", TimeoutError("timed out")))
        try:
            self._transport.write(frame)
            data = await self._reply
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        self.is_open = True
        return check_frame(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        if missing_bytes(self._data) <= 0 and self._reply and not self._reply.done():
            self._reply.set_result(self._data)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        silent = not self._data or self._reply is None or self._reply.done()
        self._end(socket_failure(exc, silent=silent) if isinstance(exc, OSError)
                  else connection_ended(silent))

    def _end(self, failure: Failure) -> None:
        """The connection has ended, or a call waits no longer."""
        self.is_open = False
        self._error = self._error or failure
        if self._reply and not self._reply.done():
            self._reply.set_exception(failure)

    def interrupt(self) -> None:
        if self._opening:
            self._opening.cancel()
        self._end(connection_ended(False))

    def close(self) -> None:
        self.is_open = False
        if self._transport and not self._loop.is_closed():
            self._transport.abort()
