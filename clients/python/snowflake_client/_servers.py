# SPDX-License-Identifier: Apache-2.0
"""The servers of a client: which one is asked, for how long, and when again after a failure.

Everything here is written as coroutines over an `Io`. That of threads blocks and never suspends, so
both clients share this code."""
import _thread
import logging
import random
import socket
from time import monotonic
from typing import Any, Dict, List, Optional, Protocol, Sequence, Set, Tuple, Type, Union

from ._codec import MAX_BATCH, METHODS, BadReply, Failure, decode_reply, encode_call
from ._options import Address, Options
from .errors import (Attempt, ClockError, ClosedError, InvalidAgentError, SnowflakeError,
                     SnowflakeTimeoutError, UnavailableError, UnreachableError)

log = logging.getLogger("snowflake_client")
log.addHandler(logging.NullHandler())  # silent unless the program configures logging

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 0.25
_LONGEST_HINT = 2.0  # of what a server's retry_after_ms can ask for
_SHORTEST_ATTEMPT, _LONGEST_ATTEMPT, _ROUND_TRIPS = 0.1, 0.25, 4
_DOUBLINGS = 5


class Signal(Protocol):
    """Wakes the one that waits for it."""

    def set(self) -> None: ...


class Connection(Protocol):
    is_open: bool  # and no reply is due

    async def open(self, address: Address, options: Options, limit: float) -> None: ...
    async def call(self, frame: bytes, limit: float) -> bytes: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class Io(Protocol):
    """Times are of time.monotonic()."""

    def caller(self) -> int: ...
    def signal(self) -> Signal: ...
    def set_from_thread(self, signal: Signal) -> None: ...
    async def wait(self, signal: Any, until: float) -> None: ...
    def connection(self, family: int, address: Any) -> Connection: ...


class _Backoff:
    """Doubles the pause with each failure."""
    _pause = 0.0
    retry_at = 0.0  # 0: no failure since the last answer

    def begin(self, hint: float = 0.0) -> None:
        self._pause = min(max(self._pause * 2, _FIRST_BACKOFF), _LONGEST_BACKOFF)
        self.retry_at = monotonic() + max(self._pause * random.uniform(0.75, 1.25),
                                          min(hint, _LONGEST_HINT))

    def end(self) -> None:
        self._pause = self.retry_at = 0.0


class _Endpoint:
    """One socket address of a server, and what is known about the server there."""

    def __init__(self, family: int, address: Any) -> None:
        self.family = family
        self.address = address
        self.backoff = _Backoff()
        self.method = 0  # of METHODS
        self.limit = MAX_BATCH


class _Lookup:
    """A DNS lookup in a thread, since it has no timeout."""
    result: Union[List[Any], Exception, None] = None

    def __init__(self, address: Address, io: Io) -> None:
        self.signal = io.signal()

        def run() -> None:
            try:
                self.result = socket.getaddrinfo(address.host, address.port, 0, socket.SOCK_STREAM)
            except Exception as error:
                self.result = error
            io.set_from_thread(self.signal)

        try:
            _thread.start_new_thread(run, ())
        except RuntimeError as error:
            raise Failure("unreachable", f"no thread for resolving its name: {error}",
                          error) from error


class _Server:
    def __init__(self, address: Address) -> None:
        self.text = address.text
        self.address = address
        self.is_name = not address.found
        self.backoff = _Backoff()  # of resolving
        self.lookup: Optional[_Lookup] = None
        self.endpoints: List[_Endpoint] = []
        self.set_endpoints(address.found)

    def set_endpoints(self, found: Sequence[Tuple[int, Any]]) -> None:
        known = {endpoint.address: endpoint for endpoint in self.endpoints}
        self.endpoints = [known.get(address) or _Endpoint(family, address)
                          for family, address in dict.fromkeys(found)]
        random.shuffle(self.endpoints)

    def retry_at(self) -> float:
        return min(backoff.retry_at for backoff in
                   [endpoint.backoff for endpoint in self.endpoints] or [self.backoff])


class ServerPool:
    """Used by one caller at a time; interrupt() and error() by any."""

    def __init__(self, options: Options, io: Io) -> None:
        self._options = options
        self._io = io
        self._agent = options.agent.encode()
        self._servers = [_Server(address) for address in options.addresses]
        random.shuffle(self._servers)  # so that clients of a dead server spread over the others
        self._current = 0
        self._connection: Optional[Connection] = None
        self._connected: Tuple[Optional[_Server], Optional[_Endpoint]] = (None, None)
        self._has_answered = False  # the connection
        self._sequence = random.getrandbits(30)
        self._failures: Dict[Tuple[str, str], Failure] = {}  # the last of each, until an answer
        self._noted: Set[Tuple[str, str]] = set()  # those of this call
        self._last_call: object = None
        self._deadline = self._patience = 0.0
        self._attempt_at = 0.0  # when the last attempt began
        self.is_closed = False
        self.is_failing = False  # since the last fetch()
        self.n_silent = 0  # calls to fetch() with timeouts since the last answer
        self.requested_at = self.round_trip = 0.0
        self.requests = self.n_failures = self.failovers = 0

    @property
    def server(self) -> Optional[str]:
        """The server that answered last."""
        return self._servers[self._current].text if self.requests else None

    async def fetch(self, count: int, call: object, deadline: float) -> Optional[List[int]]:
        """Asks each server that can be asked, once, for this call. Returns IDs, at least 1 and at
        most `count`, or None: then retry_at says when to try again. Each attempt has a timeout of
        its own, which doubles while attempts time out."""
        if call is not self._last_call:
            self._noted.clear()
        self._last_call, self._deadline = call, deadline
        base = max(min(_ROUND_TRIPS * self.round_trip or _LONGEST_ATTEMPT, _LONGEST_ATTEMPT),
                   _SHORTEST_ATTEMPT, 2 * self.round_trip)
        self._patience = base * 2 ** min(self.n_silent, _DOUBLINGS)
        n_timeouts = 0
        for server in self._in_order():
            result = await self._ask_server(server, count)
            if isinstance(result, list):
                self._note_answer(server)
                return result
            n_timeouts += result
            if monotonic() >= deadline:
                break
        self.n_silent += n_timeouts > 0
        self.is_failing = True
        return None

    @property
    def retry_at(self) -> float:
        """When an endpoint can be asked."""
        return min(server.retry_at() for server in self._servers)

    def _in_order(self) -> List[_Server]:
        if self._connection and self._connection.is_open and len(self._servers) == 1:
            return self._servers
        turned = self._servers[self._current:] + self._servers[:self._current]
        return sorted(turned, key=_Server.retry_at)

    def _note_answer(self, server: _Server) -> None:
        previous = self._servers[self._current]
        if server is not previous:
            self._current = self._servers.index(server)
            failure = next((failure.reason for (text, _), failure in self._failures.items()
                            if text == previous.text), "backoff")
            if self.requests:
                self.failovers += 1
                log.warning("failover from %s to %s: %s", previous.text, server.text, failure)
        self.requests += 1
        self.is_failing, self.n_silent = False, 0
        self._failures = {}

    def _limit(self) -> float:
        """Returns when the next operation of an attempt ends. The only endpoint has all the time;
        at first, an attempt leaves half of the time to the others."""
        now = monotonic()
        if len(self._servers) == 1 and not self._servers[0].is_name:
            return self._deadline
        left = self._deadline - now
        return now + min(self._patience, left if self.n_silent else left / 2)

    async def _ask_server(self, server: _Server, count: int) -> Union[List[int], int]:
        """Returns IDs, or how many attempts timed out."""
        n_timeouts, stale = 0, None
        connected = self._connected[1] if self._connected[0] is server else None
        connection = self._connection  # a child that is forked here drops it
        if connected and connection and connection.is_open:
            result = await self._ask(server, connected, count)
            if isinstance(result, list):
                return result
            n_timeouts += result.kind == "timeout"
            stale = connected if result.is_silent else None
        if server.is_name and monotonic() < self._deadline:
            try:
                await self._resolve(server)
            except Failure as failure:
                n_timeouts += failure.kind == "timeout"
                server.backoff.begin()
                self._note_failure(server, "", failure)
        for endpoint in sorted(server.endpoints, key=lambda each: (each is not stale,
                                                                   each.backoff.retry_at)):
            now = monotonic()
            if now >= self._deadline:
                break
            if endpoint.backoff.retry_at <= now:
                result = await self._ask(server, endpoint, count)
                if isinstance(result, list):
                    return result
                n_timeouts += result.kind == "timeout"
        return n_timeouts

    async def _resolve(self, server: _Server) -> None:
        """Keeps the known endpoints if it fails."""
        self._attempt_at = monotonic()
        if server.backoff.retry_at > self._attempt_at:
            return
        if server.lookup is None or server.lookup.result is not None:
            server.lookup = _Lookup(server.address, self._io)
        lookup, limit = server.lookup, self._limit()
        while lookup.result is None and monotonic() < limit and not self.is_closed:
            await self._io.wait(lookup.signal, limit)
        if lookup.result is None:
            raise Failure("timeout", "its name is not resolved in time")
        server.lookup = None
        if isinstance(lookup.result, Exception):
            reason = getattr(lookup.result, "strerror", None) or str(lookup.result)
            raise Failure("unreachable", f"its name cannot be resolved: {reason}", lookup.result)
        server.backoff.end()
        server.set_endpoints([(each[0], each[4]) for each in lookup.result])
        known = {str(endpoint.address) for endpoint in server.endpoints}
        self._failures = {key: failure for key, failure in self._failures.items()
                          if key[0] != server.text or key[1] in known}

    async def _ask(self, server: _Server, endpoint: _Endpoint,
                   count: int) -> Union[List[int], Failure]:
        self._attempt_at = monotonic()
        try:
            connection = await self._connect(server, endpoint)
            ids = await self._request(connection, endpoint, count)
        except Failure as failure:
            if failure.is_silent and self._has_answered:  # idle, and closed by the server
                self._check_open()
                return failure
            failure.is_silent = False
            if failure.kind == "agent":
                self._check_open()
                raise InvalidAgentError(
                    f"a server refuses the agent {self._options.agent!r}: {server.text}: "
                    f"{failure.reason}", [Attempt(server.text, failure.reason)]) from failure.cause
            endpoint.backoff.begin(failure.retry_after_ms / 1000)
            if server.is_name:
                failure.reason = f"{endpoint.address[0]}: {failure.reason}"
            self._note_failure(server, str(endpoint.address), failure)
            return failure
        endpoint.backoff.end()
        self._has_answered = True
        return ids

    async def _connect(self, server: _Server, endpoint: _Endpoint) -> Connection:
        connection = self._connection
        if connection and connection.is_open and self._connected == (server, endpoint):
            return connection
        self.disconnect()
        connection = self._connection = self._io.connection(endpoint.family, endpoint.address)
        self._connected = server, endpoint
        self._check_open()
        await connection.open(server.address, self._options, self._limit())
        return connection

    async def _request(self, connection: Connection, endpoint: _Endpoint, count: int) -> List[int]:
        limit = self._limit()
        while True:
            method = METHODS[endpoint.method]
            asked = 1 if method == "get_id" else min(count, endpoint.limit)
            self.requested_at = monotonic()
            try:
                ids = await self._call(connection, method, asked, limit)
                self.round_trip = monotonic() - self.requested_at
                return ids
            except Failure as failure:
                if failure.kind == "method" and method != "get_id":
                    endpoint.method += 1
                elif failure.kind == "count" and asked > 1:
                    endpoint.limit = asked // 2
                else:
                    raise

    async def _call(self, connection: Connection, method: str, count: int,
                    limit: float) -> List[int]:
        self._sequence = self._sequence % 0x7fffffff + 1
        message = await connection.call(encode_call(method, self._sequence, self._agent, count),
                                        limit)
        try:
            return decode_reply(message, method, self._sequence, count)
        except BadReply as error:
            connection.close()
            raise Failure("unreachable", f"it did not return the reply: {error}", error) from error

    def _note_failure(self, server: _Server, address: str, failure: Failure) -> None:
        """Keeps an earlier failure if the end of the call left this one too little time."""
        self._check_open()
        self.n_failures += 1
        key, now = (server.text, address), monotonic()
        is_last = failure.kind == "timeout" and now >= self._deadline
        is_short = now - self._attempt_at < self._patience
        if is_last and key in self._failures and (is_short or key in self._noted):
            return
        self._failures.pop(key, None)
        self._failures[key] = failure
        self._noted.add(key)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("the client is closed")

    def error(self, timeout: float) -> SnowflakeError:
        """Returns the error of a call that ends by its deadline."""
        failures = list(self._failures.items())
        attempts = [Attempt(text, failure.reason) for (text, _), failure in failures]
        if not attempts:
            attempts = [Attempt(self._servers[self._current].text, "no answer yet")]
        tried = "; ".join(f"{server}: {reason}" for server, reason in attempts)
        kinds = [failure.kind for _, failure in failures]
        kind = next((kind for kind in ("unavailable", "clock", "timeout") if kind in kinds),
                    "unreachable" if kinds else "timeout")
        within = f"within {timeout:g} s"
        types: Dict[str, Tuple[Type[SnowflakeError], str]] = {
            "clock": (ClockError, f"no server has a usable clock {within}"),
            "timeout": (SnowflakeTimeoutError, f"no answer {within}"),
            "unreachable": (UnreachableError, f"no server can be reached {within}")}
        if kind == "unavailable":
            hints = [failure.retry_after_ms for _, failure in failures if failure.retry_after_ms]
            error: SnowflakeError = UnavailableError(f"no server has IDs {within}: {tried}",
                                                     attempts, min(hints, default=None))
        else:
            error = types[kind][0](f"{types[kind][1]}: {tried}", attempts)
        error.__cause__ = next((failure.cause for _, failure in reversed(failures)
                                if failure.kind == kind or kind == "unreachable"), None)
        return error

    def close(self) -> None:
        """Ends the call that is under way, if any, with ClosedError."""
        self.is_closed = True
        for server in self._servers:
            if server.lookup:
                server.lookup.signal.set()
        if self._connection:
            self._connection.interrupt()

    def disconnect(self) -> None:
        """Sends nothing, so that a child can close a socket that it shares with its parent."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()
        self._has_answered = False
