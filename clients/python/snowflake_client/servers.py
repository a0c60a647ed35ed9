# SPDX-License-Identifier: Apache-2.0
"""The servers of a client: where they are, which one is asked, and when those that failed are asked
again."""
import random
import re
import socket
import ssl
import threading
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .errors import (Attempt, ClockError, ClosedError, InvalidAgentError, SnowflakeError,
                     SnowflakeTimeoutError, UnavailableError, UnreachableError)
from .wire import Connection, Failure, Habits

DEFAULT_SERVER = "127.0.0.1:7609"
_DEFAULT_PORT = 7609
_FIRST_REST_S, _LONGEST_REST_S = 0.1, 10.0
_SERVER = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]"
                     r"|(?P<host>[^\[\]:/\s]+))(?::(?P<port>\d{1,5}))?")


class _Rest:
    """After a failure there is a pause, twice as long each time; an answer ends it."""
    _pause_s = 0.0
    until = 0.0  # of time.monotonic

    def begin(self) -> None:
        self._pause_s = min(max(self._pause_s * 2, _FIRST_REST_S), _LONGEST_REST_S)
        self.until = monotonic() + self._pause_s * random.uniform(0.75, 1.25)

    def end(self) -> None:
        self._pause_s = self.until = 0.0


class _Place:
    """An address of a server."""

    def __init__(self, family: int, address: Any) -> None:
        self.family = family
        self.address = address
        self.rest = _Rest()
        self.habits = Habits()


class _Server:
    """What was given: it stands for one place, or, a name, for those that it is looked up as."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_tls = text.startswith("tls:")
        self.places: List[_Place] = []  # of a name: as it was looked up last
        self.host = ""
        self.is_name = False
        self._lookup_rest = _Rest()
        self._answers: Optional[SimpleQueue] = None  # of the last look-up, which may hang
        if text.startswith("unix:"):
            self._set_path(text[len("unix:"):])
        else:
            self._set_host(text[len("tls:"):] if self.is_tls else text)

    def _set_path(self, path: str) -> None:
        if not re.fullmatch(r"[/@].+", path) or len(path.encode()) > 107:
            raise ValueError(f"server {self.text!r}: not unix:/PATH or unix:@NAME, 107 bytes at "
                             "most")
        self.places = [_Place(socket.AF_UNIX, "\0" + path[1:] if path[0] == "@" else path)]

    def _set_host(self, text: str) -> None:
        found = _SERVER.fullmatch(text)
        self.port = int(found["port"] or _DEFAULT_PORT) if found else 0
        if found is None or not 0 < self.port < 65536:
            raise ValueError(f"server {self.text!r}: not HOST, HOST:PORT, [IPV6]:PORT, one of these"
                             " after tls:, or unix:/PATH")
        self.host = found["v6"] or found["host"]
        try:
            self._set_places(socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM, 0,
                                                socket.AI_NUMERICHOST))
        except socket.gaierror:
            if found["v6"]:
                raise ValueError(f"server {self.text!r}: no IPv6 address in brackets, or no such "
                                 "interface") from None
            self.is_name = True
        except UnicodeError:
            raise ValueError(f"server {self.text!r}: not a host name: each part between dots has 1 "
                             "to 63 characters") from None

    @property
    def tls_name(self) -> str:
        """The name for SNI and for checking the certificate: without the trailing dot, which only
        the resolver needs (RFC 6066), and without the zone."""
        return self.host.partition("%")[0].removesuffix(".")

    def _set_places(self, found: Sequence[tuple]) -> None:
        known = {place.address: place for place in self.places}
        self.places = [known.get(address) or _Place(family, address)
                       for family, address in {(one[0], one[4]): None for one in found}]
        random.shuffle(self.places)

    def places_after(self, linked: Optional[_Place], failure: Optional[Failure]) -> List[_Place]:
        """Where to ask on a new connection, in this order. `failure`: of the connection that there
        was, to `linked`. If that had ended, as with a server that started again, its place comes
        first; if no answer came, as from an address that is no more, last."""
        places = sorted(self.places, key=lambda place: place.rest.until)
        if linked in places:
            places.remove(linked)
            if failure.is_stale:
                places.insert(0, linked)
            elif self.is_name and failure.kind == "timeout":
                places.append(linked)
        return places

    def rests_until(self) -> float:
        """0: somewhere it does not rest."""
        now = monotonic()
        ends = [place.rest.until for place in self.places] or [self._lookup_rest.until]
        return min(ends) if min(ends) > now else 0.0

    def look_up(self, deadline: float, may_interrupt: Callable) -> None:
        """Raises Failure. Where it was found before, that stays, and is all there is while look-ups
        rest."""
        if self.places and monotonic() < self._lookup_rest.until:
            return
        if self._answers is None or not self._answers.empty():
            self._answers = self._begin_look_up()
        answers = self._answers
        may_interrupt(lambda: answers.put(OSError("interrupted")))
        began = monotonic()
        deadline = _share(deadline, not self.places)
        try:
            found = answers.get(timeout=max(0.0, deadline - began))
        except Empty:
            self._lookup_rest.begin()
            took_ms = round((monotonic() - began) * 1000)
            raise Failure("timeout", f"its name is not looked up within {took_ms} ms") from None
        except BaseException:  # of a signal handler, which may have come with the answer
            self._answers = None
            raise
        self._answers = None
        if isinstance(found, Exception):
            self._lookup_rest.begin()
            reason = getattr(found, "strerror", None) or str(found)
            raise Failure("unreachable", f"its name is not known: {reason}") from found
        self._lookup_rest.end()
        self._set_places(found)

    def _begin_look_up(self) -> SimpleQueue:
        """In a thread, since a look-up knows no deadline: one at a time, however long it hangs."""
        answers: SimpleQueue = SimpleQueue()

        def ask() -> None:
            try:
                answers.put(socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:
                answers.put(error)

        try:
            threading.Thread(target=ask, daemon=True, name="snowflake-lookup").start()
        except RuntimeError as error:
            raise Failure("unreachable", f"no thread can be had for its name: {error}") from error
        return answers

    def forget_look_up(self) -> None:
        """In a child, which does not have its thread."""
        self._answers = None


class _Link(NamedTuple):
    """The connection that there is, and to what."""
    connection: Connection
    server: _Server
    place: _Place


class Servers:
    """Used by one thread at a time, who has the turn; overdue() and interrupt() by any."""

    def __init__(self, servers: Sequence[str], agent: str, tls: Optional[ssl.SSLContext]) -> None:
        self._servers = [_Server(text) for text in dict.fromkeys(servers)]
        random.shuffle(self._servers)  # those of a server that dies do not all turn to the same one
        self._agent = agent
        self._tls = tls
        if tls is None and any(server.is_tls for server in self._servers):
            self._tls = ssl.create_default_context()
        self._current = 0
        self._link: Optional[_Link] = None
        self._is_closed = False
        self._interrupt: Callable = lambda: None
        self.asked_at = 0.0  # of time.monotonic: when the last fetch() sent its last call
        self._are_silent = False  # the last fetch() had no answer in time
        self._asking: Optional[_Server] = None
        self._failures: List[Tuple[_Server, Failure]] = []  # of the call that is, or was last

    def fetch(self, count: int, deadline: float) -> List[int]:
        """IDs, at least one and `count` at most. Each server is asked once at most: the one that
        answered last and those after it, then those that rest, which rest longest first."""
        if monotonic() >= deadline:  # of the wait for the turn
            raise self.overdue()
        turned = self._servers[self._current:] + self._servers[:self._current]
        order = sorted(turned, key=_Server.rests_until)
        self._asking = order[0]
        self._failures = []
        try:
            for server in order:
                self._asking = server
                ids = self._ask(server, count, deadline, server is order[-1])
                if ids:
                    self._current = self._servers.index(server)
                    self._are_silent = False
                    return ids
                if monotonic() >= deadline:
                    break
        finally:
            self._asking = None
        if not self._failures:
            self._note(order[0], Failure("timeout", "no time was left to ask it"))
        error = _error(self._failures, monotonic() >= deadline)
        self._are_silent = isinstance(error, SnowflakeTimeoutError)
        raise error

    def is_for_others(self, began: float, deadline: float) -> bool:
        """Whoever has the turn, and waited for it since `began`, is to let those who wait go first,
        once. While no server answers, the time that is left may not do, for this one nor for those
        who came next; and then a server that is far away would never be found to be back."""
        return self._are_silent and 2 * monotonic() > began + deadline

    def _ask(self, server: _Server, count: int, deadline: float, is_last: bool) -> List[int]:
        """[]: it failed. It may take half of the time that is left, the last one all of it; and so
        may each of its places of that."""
        deadline = _share(deadline, is_last)
        linked, failure = self._linked(server), None
        if linked:
            is_last = len(server.places) == 1 and not server.is_name  # a name may have moved
            ids, failure = self._ask_place(server, linked, count, _share(deadline, is_last))
            if ids:
                return ids
        if server.is_name and monotonic() < deadline:
            try:
                server.look_up(deadline, self._may_interrupt)
            except Failure as why:
                self._note(server, why)
        places = server.places_after(linked, failure)
        for place in places:
            if monotonic() >= deadline:
                break
            ids, _ = self._ask_place(server, place, count, _share(deadline, place is places[-1]))
            if ids:
                return ids
        return []

    def _linked(self, server: _Server) -> Optional[_Place]:
        """The place of its that there is a connection to."""
        link = self._link
        return link.place if link and link.server is server and link.connection.is_open else None

    def _ask_place(self, server: _Server, place: _Place, count: int,
                   deadline: float) -> Tuple[List[int], Optional[Failure]]:
        try:
            ids = self._call(server, place, count, deadline)
        except Failure as failure:
            if failure.is_stale:  # that says nothing of the place
                return [], failure
            if failure.kind == "agent":  # it is as wrong elsewhere
                raise InvalidAgentError(f"the agent {self._agent!r} is refused: {server.text}: "
                                        f"{failure.reason}",
                                        [*_attempts(self._failures),
                                         Attempt(server.text, failure.reason)]) from failure
            place.rest.begin()
            if server.is_name:
                failure.reason = f"{place.address[0]}: {failure.reason}"
            self._note(server, failure)
            return [], failure
        place.rest.end()
        return ids, None

    def _call(self, server: _Server, place: _Place, count: int, deadline: float) -> List[int]:
        connection = self._connected(server, place, deadline)
        self.asked_at = monotonic()
        return connection.ids(self._agent, count, place.habits, deadline)

    def _connected(self, server: _Server, place: _Place, deadline: float) -> Connection:
        link = self._link
        if link and link.place is place and link.connection.is_open:
            self._may_interrupt(link.connection.interrupt)
            return link.connection
        self.disconnect()
        try:
            connection = Connection(place.family, place.address)
        except OSError as error:  # no descriptor is left, or IPv6 is switched off
            raise Failure("unreachable", error.strerror or str(error)) from error
        self._link = _Link(connection, server, place)
        self._may_interrupt(connection.interrupt)
        connection.open(self._tls if server.is_tls else None, server.tls_name, deadline)
        return connection

    def _may_interrupt(self, interrupt: Callable) -> None:
        """What interrupt() does from now on."""
        self._interrupt = interrupt
        if self._is_closed:
            raise ClosedError("the client is closed")

    def _note(self, server: _Server, failure: Failure) -> None:
        if self._is_closed:  # that is why
            raise ClosedError("the client was closed during the call")
        self._failures.append((server, failure))

    def overdue(self) -> SnowflakeError:
        """For a call whose deadline came before its turn."""
        failures, asking = list(self._failures), self._asking
        if asking:
            failures.append((asking, Failure("timeout", "no answer yet")))
        return SnowflakeTimeoutError(_message("no answer within the deadline", failures),
                                     _attempts(failures))

    def interrupt(self) -> None:
        """For good: the call under way ends at once, with ClosedError if it had to be."""
        self._is_closed = True
        self._interrupt()

    def begin_in_child(self) -> None:
        self.disconnect()
        for server in self._servers:
            server.forget_look_up()

    def disconnect(self) -> None:
        """Says nothing to the server, so that a child may, with what it has of its parent."""
        if self._link:
            self._link.connection.close()
        self._link = None
        self._interrupt = lambda: None


def _share(deadline: float, is_last: bool) -> float:
    """Until when it may take: half of the time that is left, unless it is the last."""
    return deadline if is_last else (monotonic() + deadline) / 2


def _attempts(failures: Sequence[Tuple[_Server, Failure]]) -> List[Attempt]:
    return [Attempt(server.text, failure.reason) for server, failure in failures]


def _message(what: str, failures: Sequence[Tuple[_Server, Failure]]) -> str:
    tried = "; ".join(f"{server}: {reason}" for server, reason in _attempts(failures))
    return f"{what}: {tried}" if tried else what


def _error(failures: Sequence[Tuple[_Server, Failure]], is_over: bool) -> SnowflakeError:
    kinds = {failure.kind for _, failure in failures}
    attempts = _attempts(failures)
    if "unavailable" in kinds:
        waits = [failure.retry_after_ms for _, failure in failures
                 if failure.retry_after_ms is not None]
        return UnavailableError(_message("no server has IDs now", failures), attempts,
                                min(waits, default=None))
    if "clock" in kinds:
        return ClockError(_message("no server has a clock to go by", failures), attempts)
    if is_over or kinds == {"timeout"}:
        return SnowflakeTimeoutError(_message("no answer within the deadline", failures), attempts)
    return UnreachableError(_message("no server can be reached", failures), attempts)
