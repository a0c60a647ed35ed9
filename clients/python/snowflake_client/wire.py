# SPDX-License-Identifier: Apache-2.0
"""One connection to a server. Thrift's own library makes and reads the messages; this bounds the
time and the size of what it reads, and sees that a reply is the one to its call."""
import random
import socket
import ssl
import struct
from itertools import chain
from time import monotonic
from typing import Any, Callable, List, Optional

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TFramedTransport, TTransportBase

from .generated import SnowflakeExtended
from .generated.ttypes import (InvalidCount, InvalidSystemClock, InvalidUserAgentError,
                               WorkerIdUnavailable)

MAX_BATCH = 10000  # IDs of one call
_MAX_FRAME_BYTES = 1 << 20  # five times of what the largest batch takes
_MAX_ID = 2**63 - 1
_METHODS = ("get_id_runs", "get_ids", "get_id")  # a server that lacks one is asked by the next
_EARLY_S = 0.05  # a timeout may come before the deadline
_SINGLE_CALLS = 100  # of get_id, for one batch


class Failure(Exception):
    """Why a server did not answer with IDs. `kind`: clock, unavailable, agent, timeout or
    unreachable."""

    def __init__(self, kind: str, reason: str, retry_after_ms: Optional[int] = None,
                 is_stale: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        # a server may say anything, and it becomes a part of one line
        self.reason = "".join(letter if letter.isprintable() else " " for letter in reason[:200])
        self.retry_after_ms = retry_after_ms
        self.is_stale = is_stale  # an old connection broke, which says nothing of the server


class Habits:
    """What was learnt of a server: what it lacks, and how many IDs it gives at once."""

    def __init__(self) -> None:
        self.method = 0
        self.limit = MAX_BATCH


class _NoReply(Exception):
    """What came is not the reply to the call."""


# What else Thrift's code raises of bytes that are not its
_OF_GARBAGE = (_NoReply, TException, ArithmeticError, AttributeError, EOFError, LookupError,
               MemoryError, RecursionError, TypeError, ValueError, struct.error)


class _Interrupted(BaseException):
    """A signal handler has raised: `error` is the caller's, and not of the server."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Socket(TTransportBase):
    """Every operation ends at the deadline, however slowly the server drips."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.deadline = 0.0
        self.is_silent = True  # nothing has come since the call began

    def set_timeout(self) -> None:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)

    def readAll(self, sz: int) -> bytes:
        if not 0 < sz <= _MAX_FRAME_BYTES:
            raise _NoReply(f"a frame of {sz} bytes, {_MAX_FRAME_BYTES} at most")
        parts: List[bytes] = []
        while sz > 0:
            parts.append(self.do(lambda: self.sock.recv(sz)))
            if not parts[-1]:
                raise ConnectionError("it closed the connection")
            sz -= len(parts[-1])
            self.is_silent = False
        return b"".join(parts)

    def write(self, buf: bytes) -> None:
        self.do(lambda: self.sock.sendall(buf))

    def do(self, operation: Callable) -> Any:
        """Sees which exceptions are the socket's own. Those are OSError with a number, and
        TimeoutError when it is time."""
        self.set_timeout()
        try:
            return operation()
        except BaseException as error:
            is_own = (monotonic() > self.deadline - _EARLY_S if isinstance(error, TimeoutError)
                      else isinstance(error, OSError) and error.errno is not None)
            if is_own:
                raise
            raise _Interrupted(error) from None


class _Frames(TFramedTransport):
    """A reply is one frame: who reads on would wait for what never comes."""
    is_due = False

    def readFrame(self) -> None:
        if not self.is_due:
            raise _NoReply("it ends too soon")
        self.is_due = False
        super().readFrame()


class _Protocol(TBinaryProtocol):
    """Thrift's, with sequence IDs: the generated code sends 0, and looks at none."""

    def __init__(self, transport: _Frames) -> None:
        super().__init__(transport, strictRead=True, string_length_limit=_MAX_FRAME_BYTES,
                         container_length_limit=MAX_BATCH)
        self._call = ("", random.getrandbits(30))

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:
        self._call = (name, self._call[1] % 0x7fffffff + 1)
        self.trans.is_due = True
        super().writeMessageBegin(name, type, self._call[1])

    def readMessageBegin(self) -> tuple:
        name, kind, sequence_id = super().readMessageBegin()
        if (name, sequence_id) != self._call or kind not in (TMessageType.REPLY,
                                                             TMessageType.EXCEPTION):
            raise _NoReply(f"{name[:40]!r} number {sequence_id}, while {self._call[0]!r} number "
                           f"{self._call[1]} is awaited")
        return name, kind, sequence_id


class Connection:
    """To one address. Used by one thread at a time; close() and interrupt() by any."""

    def __init__(self, family: int, address: Any) -> None:
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._address = address
        self._transport = _Socket(self._sock)
        self._client = SnowflakeExtended.Client(_Protocol(_Frames(self._transport)))
        self._has_answered = False
        self._is_sound = False  # it is connected, and no reply is due

    def open(self, tls: Optional[ssl.SSLContext], host: str, deadline: float) -> None:
        """Raises Failure."""
        def connect() -> None:
            self._transport.do(lambda: self._sock.connect(self._address))
            if self._sock.family != socket.AF_UNIX:
                if self._sock.getsockname() == self._sock.getpeername():
                    # nobody listens there, and the port was free for this end
                    raise ConnectionRefusedError("connection refused")
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self._sock = self._transport.sock = tls.wrap_socket(
                    self._sock, server_hostname=host, do_handshake_on_connect=False)
                self._transport.do(self._sock.do_handshake)

        self._within(deadline, connect, "not connected")

    def ids(self, agent: str, count: int, habits: Habits, deadline: float) -> List[int]:
        """IDs, `count` of them or as many as the server gives at once. Raises Failure."""
        while True:
            method, asked = _METHODS[habits.method], min(count, habits.limit)
            try:
                ids = self._within(deadline, lambda: self._call(method, agent, asked))
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD or method == "get_id":
                    raise Failure("unreachable", f"it says: {error.message}") from error
                habits.method += 1
                continue
            except InvalidCount as error:
                if asked == 1:
                    raise Failure("unreachable", f"it says: {error.message}") from error
                habits.limit = asked // 2
                continue
            self._has_answered = True
            return ids

    def _within(self, deadline: float, act: Callable, what: str = "no answer") -> List[int]:
        """What act() returns, or Failure. Only these two are left to the caller:
        TApplicationException and InvalidCount."""
        began = monotonic()
        self._transport.deadline = deadline
        self._transport.is_silent = True
        self._is_sound = False
        try:
            result = act()
            self._is_sound = True
            return result
        except (TApplicationException, InvalidCount) as error:
            self._is_sound = True
            _raise_what_2010_says(error)
            raise
        except InvalidSystemClock as error:
            self._is_sound = True
            raise Failure("clock", error.message or "its clock is wrong") from error
        except WorkerIdUnavailable as error:
            self._is_sound = True
            raise Failure("unavailable", error.message or "it has no IDs",
                          max(error.retry_after_ms or 0, 0) or None) from error
        except InvalidUserAgentError as error:
            self._is_sound = True
            raise Failure("agent", error.message or "it refuses the agent") from error
        except TimeoutError as error:
            self.close()
            took_ms = round((monotonic() - began) * 1000)
            raise Failure("timeout", f"{what} within {took_ms} ms") from error
        except OSError as error:
            self.close()
            is_stale = self._has_answered and self._transport.is_silent
            raise Failure("unreachable", _reason(error), is_stale=is_stale) from error
        except _OF_GARBAGE as error:
            self.close()
            raise Failure("unreachable", "what it answers is not the reply: "
                          f"{error or type(error).__name__}") from error
        except _Interrupted as interrupted:
            self.close()
            raise interrupted.error
        except BaseException:  # likewise, between two operations: a reply may come yet
            self.close()
            raise

    def _call(self, method: str, agent: str, count: int) -> List[int]:
        if method == "get_id_runs":
            runs = self._client.get_id_runs(agent, count)
            if any(run.count < 1 for run in runs) or sum(run.count for run in runs) != count:
                raise _NoReply(f"runs of {[run.count for run in runs][:5]} IDs, for {count}")
            ids = list(chain.from_iterable(
                range(run.first, run.first + run.count) for run in runs))
        elif method == "get_ids":
            ids = self._client.get_ids(agent, count)
        else:
            count = min(count, _SINGLE_CALLS)
            ids = [self._client.get_id(agent) for _ in range(count)]
        if len(ids) != count:
            raise _NoReply(f"{len(ids)} IDs, for {count}")
        if ids[0] <= 0 or ids[-1] > _MAX_ID or ids != sorted(set(ids)):
            raise _NoReply("IDs that are none, or do not increase")
        return ids

    def interrupt(self) -> None:
        """Who waits for the server stops to, with a Failure."""
        try:
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        except OSError:
            pass  # not connected yet, or not any more

    def close(self) -> None:
        """Nothing is sent, so that a child may close what it shares with its parent."""
        self._sock.close()

    @property
    def is_open(self) -> bool:
        return self._is_sound and self._sock.fileno() >= 0


def _raise_what_2010_says(error: Any) -> None:
    """get_id has no typed exceptions: the message begins with the name."""
    message = error.message or ""
    name, _, text = message.partition(": ")
    if name == "InvalidSystemClock":
        raise Failure("clock", text) from error
    if name == "WorkerIdUnavailable":
        raise Failure("unavailable", text) from error
    if name == "InvalidUserAgentError":
        raise Failure("agent", text) from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return (error.strerror or str(error)).lower()
