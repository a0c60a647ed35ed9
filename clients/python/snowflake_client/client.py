# SPDX-License-Identifier: Apache-2.0
"""The client for threads."""
import _thread
import os
import socket
import ssl
import threading
import warnings
import weakref
from time import monotonic
from typing import Any, Callable, Coroutine, List, Optional, Protocol, TypeVar

from ._codec import MAX_FRAME_BYTES, Failure
from ._engine import Client, Engine, Stats
from ._options import Address, Options, check_count
from ._servers import Signal
from .errors import SnowflakeError

_T = TypeVar("_T")
_clients: "weakref.WeakSet[Snowflake]" = weakref.WeakSet()
_LIBRARIES = {"ssl", "socket", "gevent", "eventlet"}  # whose frames can be in a socket's traceback
_READ_BYTES = 1 << 16
_TOLERANCE = 0.005  # seconds: a socket's timeout is not set again for less, which is a system call


class IdSource(Protocol):
    """The interface that Snowflake and FakeSnowflake share."""

    def next_id(self, timeout: Optional[float] = None) -> int: ...
    def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...


class Snowflake(Client):
    """A client for any number of threads."""

    def _start(self) -> None:
        self._engine = self._new_engine()
        _clients.add(self)

    def _new_engine(self) -> Engine:
        return Engine(self._options, BlockingIo(), _start_refill)

    def next_id(self, timeout: Optional[float] = None) -> int:
        """Returns an ID. The IDs taken by one thread increase as long as the same server answers.
        Raises SnowflakeError after at most `timeout` seconds."""
        engine = self._engine
        number = engine.buffer.take()
        if number is not None and engine.mark[0]:
            return number
        return self._take(1, False, timeout)[0]

    def next_ids(self, count: int, timeout: Optional[float] = None) -> List[int]:
        """Returns `count` IDs, which increase like those from next_id."""
        return self._take(check_count(count), True, timeout)

    def _take(self, count: int, is_batch: bool, timeout: Optional[float]) -> List[int]:
        timeout = self._seconds(timeout)
        while True:
            engine = self._current_engine()
            try:
                ids = _run(engine.take(count, is_batch, timeout))
            except SnowflakeError:
                if engine.is_current:
                    raise
                continue
            if engine.mark[0]:
                return ids

    def _current_engine(self) -> Engine:
        """Makes a new one in a child, also of fork() in C code, and when gevent or eventlet have
        patched the modules."""
        engine = self._engine
        if not engine.is_current:
            self._engine = self._new_engine()
            engine.abandon()
            if self._closed:
                self._engine.close()
        return self._engine

    def stats(self) -> Stats:
        return self._current_engine().stats()

    def close(self) -> None:
        """Makes calls in progress fail with ClosedError. Prefetched IDs are lost."""
        self._closed = True
        self._current_engine().close()

    def __enter__(self) -> "Snowflake":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine and not self._closed and engine.servers.requests:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            engine.close()


def _refuse_migration(*_: object) -> None:
    """Django writes the default of a field into migrations, a bound method without its object."""
    raise ValueError("a bound method of a client cannot be the default of a Django field: "
                     "define a function that calls it")


Snowflake.next_id.deconstruct = _refuse_migration  # type: ignore[attr-defined]


def _run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs what never suspends, since the Io blocks."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    raise RuntimeError("a blocking operation was suspended")


def _start_refill(engine: Engine) -> None:
    try:
        if engine.is_current:
            _thread.start_new_thread(lambda: _run(engine.refill()), ())
    except RuntimeError:
        pass  # no more threads, or the interpreter ends: a call that finds nothing refills


class _LockSignal:
    """A lock, so that set() is safe in signal handlers."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it is set

    def wait(self, until: float) -> None:
        self._lock.acquire(True, max(until - monotonic(), 0.0))


class BlockingIo:
    """All names are looked up at each call, since gevent and eventlet can replace them."""

    def caller(self) -> int:
        return threading.get_ident()

    def signal(self) -> _LockSignal:
        return _LockSignal()

    def set_from_thread(self, signal: Signal) -> None:
        signal.set()

    async def wait(self, signal: _LockSignal, until: float) -> None:
        signal.wait(until)

    def connection(self, family: int, address: Any) -> "_SocketConnection":
        try:
            return _SocketConnection(family, address)
        except OSError as error:
            raise socket_failure(error) from error


class _SocketConnection:
    def __init__(self, family: int, address: Any) -> None:
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._address = address
        self._timeout = 0.0
        self.is_open = False

    async def open(self, address: Address, options: Options, limit: float) -> None:
        sock = self._sock
        self._do(sock.connect, limit, self._address, "not connected in time")
        self._do(check_not_self, limit, sock)
        if address.is_tls and options.tls:
            self._timeout = 0.0
            self._sock = options.tls.wrap_socket(sock, server_hostname=address.tls_name,
                                                 do_handshake_on_connect=False)
            self._do(lambda _: self._sock.do_handshake(), limit, None,  # type: ignore[attr-defined]
                     "no TLS handshake in time")

    async def call(self, frame: bytes, limit: float) -> bytes:
        self.is_open = False
        self._do(self._sock.sendall, limit, frame, silent=True)
        data = self._do(self._sock.recv, limit, _READ_BYTES, silent=True)
        while (missing := missing_bytes(data)) > 0:
            part = self._do(self._sock.recv, limit, min(missing, _READ_BYTES)) if data else b""
            if not part:
                self.close()
                raise connection_ended(not data)
            data += part
        self.is_open = missing == 0
        return check_frame(data)

    def _do(self, operation: Callable[[Any], Any], limit: float, argument: Any,
            late: str = "no answer in time", silent: bool = False) -> Any:
        """Raises Failure for an error of the socket, and no other."""
        try:
            left = limit - monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            if not left <= self._timeout < left + _TOLERANCE:
                self._timeout = left
                self._sock.settimeout(left)
            return operation(argument)
        except OSError as error:
            if not _is_of_socket(error):
                raise
            self.close()
            raise socket_failure(error, late, silent) from error

    def interrupt(self) -> None:
        try:
            if isinstance(self._sock, ssl.SSLSocket) and isinstance(self._sock, socket.socket):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # its own drops the TLS first
            else:
                self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is not connected

    def close(self) -> None:
        self.is_open = False
        self._sock.close()


def _is_of_socket(error: OSError) -> bool:
    """A signal handler can raise in a socket operation: then its frame is in the traceback."""
    traceback = error.__traceback__ and error.__traceback__.tb_next
    while traceback:
        name = str(traceback.tb_frame.f_globals.get("__name__"))
        if name.partition(".")[0] not in _LIBRARIES and name != __name__:
            return False
        traceback = traceback.tb_next
    return True


def check_not_self(sock: socket.socket) -> None:
    """A connection to a free local port can be to itself."""
    if sock.family != socket.AF_UNIX:
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("connection refused")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def socket_failure(error: OSError, late: str = "", silent: bool = False) -> Failure:
    if isinstance(error, TimeoutError) and error.errno is None:
        return Failure("timeout", late, error)
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate was rejected: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        reason = f"TLS: {error.reason or error}"
    else:
        reason = (error.strerror or str(error)).lower()
    return Failure("unreachable", reason, error, is_silent=silent)


def connection_ended(is_silent: bool) -> Failure:
    error = ConnectionResetError("it closed the connection")
    return Failure("unreachable", str(error), error, is_silent=is_silent)


def missing_bytes(data: bytes) -> int:
    """Returns the minimum number of missing bytes of the frame. Negative: it is not a frame."""
    if len(data) < 4:
        return 4 - len(data)
    size = int.from_bytes(data[:4], "big", signed=True)
    return size + 4 - len(data) if 0 < size <= MAX_FRAME_BYTES else -1


def check_frame(data: bytes) -> bytes:
    size = int.from_bytes(data[:4], "big", signed=True)
    if missing_bytes(data):
        raise Failure("unreachable", f"it did not return the reply: {len(data) - 4} bytes of a "
                      f"frame of {size}, at most {MAX_FRAME_BYTES}")
    return data[4:]


def _renew_all() -> None:
    for client in list(_clients):
        client._current_engine()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
