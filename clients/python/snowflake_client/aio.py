# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio."""
import asyncio
import ssl
import threading
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Callable, List, Optional, Sequence, Type, TypeVar, Union

from .client import Snowflake, _check_count
from .errors import UnreachableError
from .servers import DEFAULT_SERVER

_T = TypeVar("_T")


class AsyncSnowflake:
    """A Snowflake whose calls are awaited, in one event loop. What is in hand is given at once;
    else a thread asks the server, one at a time, and the loop goes on."""

    def __init__(self, servers: Union[str, Sequence[str]] = DEFAULT_SERVER, *, agent: str,
                 timeout_ms: float = 3000, prefetch_ms: float = 50, max_age_ms: float = 1000,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        self._client = Snowflake(servers, agent=agent, timeout_ms=timeout_ms,
                                 prefetch_ms=prefetch_ms, max_age_ms=max_age_ms, tls=tls)
        self._begin()

    def _begin(self) -> None:
        """As it is at first, and once more in a child."""
        self._turn = asyncio.Lock()
        self._mark = self._client._mark

    def _see_to_fork(self) -> None:
        self._client._see_to_fork()
        if self._mark is not self._client._mark:
            self._begin()

    async def next_id(self) -> int:
        """As Snowflake.next_id."""
        while True:
            self._see_to_fork()
            mark = self._mark
            number = self._client._hand.take()
            if number is None:
                deadline = self._client._deadline()
                number = await self._asked(deadline, self._client._hand.take,
                                           partial(self._client._next_from_server, deadline))
            if mark[0]:
                return number

    async def next_ids(self, count: int) -> List[int]:
        """As Snowflake.next_ids."""
        _check_count(count)
        while True:
            self._see_to_fork()
            mark = self._mark
            deadline = self._client._deadline()
            ids = await self._asked(deadline, lambda: None,
                                    partial(self._client._many_from_server, count, deadline))
            if mark[0]:
                return ids

    async def close(self) -> None:
        """As Snowflake.close."""
        self._client.close()

    async def __aenter__(self) -> "AsyncSnowflake":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()

    async def _asked(self, deadline: float, look: Callable[[], Optional[_T]],
                     ask: Callable[[], _T]) -> _T:
        """Waits for the turn, here and not in a thread, so that there is one thread at a time; what
        look() finds then serves as well."""
        turn, began = self._turn, monotonic()
        await self._take(turn, deadline)
        if self._client._servers.is_for_others(began, deadline):
            turn.release()
            await self._take(turn, deadline)
        found = look()
        if found is not None:
            turn.release()
            return found
        # a thread cannot be cancelled: a call that is leaves it the turn
        asking = asyncio.ensure_future(_in_thread(ask))
        asking.add_done_callback(partial(_end_turn, turn))
        return await asyncio.shield(asking)

    async def _take(self, turn: asyncio.Lock, deadline: float) -> None:
        """Not by wait_for(), which before Python 3.12 forgets that it was cancelled when the turn
        has come meanwhile."""
        taking = asyncio.ensure_future(turn.acquire())
        try:
            await asyncio.wait({taking}, timeout=max(0.0, deadline - monotonic()))
        except asyncio.CancelledError:
            if taking.done():
                turn.release()
            raise
        finally:
            taking.cancel()
        if not taking.done():
            raise self._client._servers.overdue()


def _end_turn(turn: asyncio.Lock, asking: "asyncio.Future[_T]") -> None:
    turn.release()
    if not asking.cancelled():
        asking.exception()  # which nobody may be there for


async def _in_thread(ask: Callable[[], _T]) -> _T:
    """In one of its own: those of the loop may be busy for longer than the deadline, and would keep
    the process from ending."""
    loop = asyncio.get_running_loop()
    answer: "asyncio.Future[_T]" = loop.create_future()

    def tell(result: Optional[_T], error: Optional[Exception]) -> None:
        if answer.done():  # given up
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = ask()
        except Exception as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody awaits it

    try:
        threading.Thread(target=run, daemon=True, name="snowflake-ask").start()
    except RuntimeError as error:
        raise UnreachableError(f"no thread can be had to ask a server: {error}") from error
    return await answer
