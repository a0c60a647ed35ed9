# SPDX-License-Identifier: Apache-2.0
"""The client: what a program calls."""
import os
import re
import ssl
import threading
import weakref
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Callable, List, Optional, Sequence, Type, TypeVar, Union

from .errors import ClosedError, InvalidAgentError, SnowflakeError
from .fork_mark import new_fork_mark
from .hand import Hand
from .servers import DEFAULT_SERVER, Servers
from .turn import Ticket, Turn
from .wire import MAX_BATCH

_T = TypeVar("_T")
_LONGEST_MS = 3_600_000
_clients: "weakref.WeakSet[Snowflake]" = weakref.WeakSet()
_child_lock = threading.Lock()


class Snowflake:
    """Unique IDs from one of several servers, for any number of threads.

    servers: HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH; one or a list.
    agent: the name of the program, which servers count by.
    timeout_ms: the deadline of a call, over all servers together.
    prefetch_ms: for how long the IDs in hand are to last; 0: each call asks a server.
    max_age_ms: IDs that were asked for longer ago are thrown away; twice prefetch_ms or more.
    tls: for servers after "tls:"; by default ssl.create_default_context().

    Raises ValueError (InvalidAgentError for the agent) if one of these cannot be. Nothing is
    connected to before the first call.
    """

    def __init__(self, servers: Union[str, Sequence[str]] = DEFAULT_SERVER, *, agent: str,
                 timeout_ms: float = 3000, prefetch_ms: float = 50, max_age_ms: float = 1000,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        _check_agent(agent)
        _check_times(timeout_ms, prefetch_ms, max_age_ms)
        servers = [servers] if isinstance(servers, str) else list(servers)
        if not servers:
            raise ValueError("no server is given")
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ValueError(f"tls {tls!r}: no ssl.SSLContext")
        self.timeout_ms = timeout_ms
        self._prefetches = prefetch_ms > 0
        self._times_s = prefetch_ms / 1000, max_age_ms / 1000
        self._servers = Servers(servers, agent, tls)
        self._is_closed = False
        self._bell: SimpleQueue = SimpleQueue()
        self._hand = Hand(*self._times_s, self._bell)
        self._begin()
        _clients.add(self)

    def _begin(self) -> None:
        """As it is at first, and once more in a child."""
        self._turn = Turn()
        self._refiller: Optional[threading.Thread] = None
        self._round_trip_s = 0.0
        self._mark = new_fork_mark()

    def next_id(self) -> int:
        """An ID. Those of one thread increase as long as one server answers. Raises
        SnowflakeError."""
        while True:
            mark = self._mark
            number = self._hand.take()
            if number is None:
                self._see_to_fork()
                mark = self._mark
                number = self._next_from_server(self._deadline())
            if mark[0]:
                return number
            self._begin_if_forked()

    def next_ids(self, count: int) -> List[int]:
        """As many IDs, increasing as those of next_id do; all of them, or SnowflakeError."""
        _check_count(count)
        while True:
            self._see_to_fork()
            mark = self._mark
            ids = self._many_from_server(count, self._deadline())
            if mark[0]:
                return ids

    def close(self) -> None:
        """Calls under way end at once, later ones raise ClosedError. What is in hand is lost."""
        self._see_to_fork()
        self._is_closed = True
        self._hand.drop()
        self._bell.put(False)
        self._servers.interrupt()
        self._disconnect_if_idle()

    def __enter__(self) -> "Snowflake":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        bell = getattr(self, "_bell", None)
        if bell is not None:  # the thread ends, which knows the client weakly
            bell.put(False)
            self._servers.disconnect()

    def _deadline(self) -> float:
        return monotonic() + self.timeout_ms / 1000

    def _in_turn(self, deadline: float, ask: Callable[[], _T]) -> _T:
        """What ask() returns, which others do not at the same time."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        turn, ticket, began = self._turn, Ticket(), monotonic()
        if turn.is_mine():
            raise SnowflakeError("a call within a call of the same thread, by a signal handler")
        try:
            is_in_time = turn.acquire(ticket, deadline)
            if is_in_time and self._servers.is_for_others(began, deadline):
                turn.release(ticket)
                ticket = Ticket()
                is_in_time = turn.acquire(ticket, deadline)
            if not is_in_time:
                raise self._servers.overdue()
            if self._is_closed:
                raise ClosedError("the client was closed during the call")
            return ask()
        finally:
            try:
                turn.release(ticket)
            except BaseException:  # of a signal handler
                turn.release(ticket)
                raise
            if self._is_closed:
                self._disconnect_if_idle()

    def _disconnect_if_idle(self) -> None:
        """Or else whoever asks a server does it at the end."""
        ticket = Ticket()
        try:
            if self._turn.acquire(ticket, 0.0):
                self._servers.disconnect()
                self._hand.drop()
        finally:
            self._turn.release(ticket)

    def _next_from_server(self, deadline: float) -> int:
        def ask() -> int:
            number = self._hand.take()  # which others may have put there meanwhile
            if number is not None:
                return number
            if not self._prefetches:
                return self._servers.fetch(1, deadline)[0]
            return self._fill_hand(deadline, given=1)[0]

        return self._in_turn(deadline, ask)

    def _many_from_server(self, count: int, deadline: float) -> List[int]:
        """What is in hand comes first, since it is older: so it is when a batch is asked for that
        nothing is in hand, and what comes there after it is younger."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        ids = self._hand.take_many(count)

        def ask() -> None:
            ids.extend(self._hand.take_many(count - len(ids)))
            if len(ids) < count:
                ids.extend(self._servers.fetch(min(count - len(ids), MAX_BATCH), deadline))

        while len(ids) < count:
            self._in_turn(deadline, ask)
        return ids

    def _fill_hand(self, deadline: float, given: int) -> List[int]:
        """Fetches IDs; the first `given` are the caller's, who has the turn."""
        hand = self._hand  # that of this process: in a child there is another when they come
        wanted = hand.wanted(self._round_trip_s)
        ids = self._servers.fetch(wanted, deadline)
        self._round_trip_s = monotonic() - self._servers.asked_at
        hand.put(ids, self._servers.asked_at, given)
        if self._is_closed:
            hand.drop()
        if self._refiller is None and hand.is_expecting:
            self._start_refiller()
        return ids

    def _start_refiller(self) -> None:
        refiller = threading.Thread(
            target=_refill_when_told, args=(self._bell, weakref.ref(self)), daemon=True,
            name="snowflake-refill")
        try:
            refiller.start()
        except RuntimeError:
            return  # no thread can be had: whoever finds nothing in hand asks
        self._refiller = refiller

    def _refill(self) -> None:
        """Before the hand is empty. Why it fails, they learn who then ask for themselves; until
        then it is not tried again."""
        deadline = self._deadline()

        def ask() -> None:
            if self._hand.is_low():
                self._fill_hand(deadline, given=0)

        try:
            self._in_turn(deadline, ask)
        except SnowflakeError:
            pass

    def _see_to_fork(self) -> None:
        if not self._mark[0]:
            self._begin_if_forked()

    def _begin_if_forked(self) -> None:
        """In a child that C code has made, as that of uWSGI, which calls no hooks of Python's."""
        with _child_lock:
            if not self._mark[0]:
                self._begin_in_child()

    def _begin_in_child(self) -> None:
        """After fork(): nothing in hand, no connection, and no lock that a thread of the parent
        holds."""
        self._hand.drop()
        self._bell = SimpleQueue()
        self._hand = Hand(*self._times_s, self._bell)
        self._servers.begin_in_child()
        self._begin()


def _refill_when_told(bell: SimpleQueue, reference: "weakref.ref[Snowflake]") -> None:
    while bell.get():
        client = reference()
        if client is None:
            break
        client._refill()
        del client


def _check_agent(agent: str) -> None:
    if not isinstance(agent, str) or not re.fullmatch(r"[a-zA-Z][a-zA-Z\-0-9]{0,255}", agent):
        raise InvalidAgentError(f"agent {str(agent)[:40]!r}: not a letter and then letters, figures"
                                ' and "-", 256 at most')


def _check_times(timeout_ms: float, prefetch_ms: float, max_age_ms: float) -> None:
    for name, value, least in (("timeout_ms", timeout_ms, 1), ("prefetch_ms", prefetch_ms, 0),
                               ("max_age_ms", max_age_ms, max(1, 2 * prefetch_ms))):
        if not isinstance(value, (int, float)) or not least <= value <= _LONGEST_MS:
            raise ValueError(f"{name} {value!r}: {least} to {_LONGEST_MS}"
                             + (", twice prefetch_ms or more" if name == "max_age_ms" else ""))


def _check_count(count: int) -> None:
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count {count!r}: not 1 or more")


def _begin_in_child() -> None:
    global _child_lock
    _child_lock = threading.Lock()
    for client in list(_clients):
        client._begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
