#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""c.py DIRECTORY client|pool: the runner of the C library. It loads conformance-client.so or
conformance-pool.so from DIRECTORY, which defines the functions of c.h."""
import ctypes
import pathlib
import re
import signal
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint, c_void_p

from runner import Runner, Unsupported

OPTIONS = ("timeout_ms", "attempt_timeout_ms", "prefetch_ms", "max_age_ms")
NOT_GIVEN = -1


class GError(ctypes.Structure):
    _fields_ = [("domain", ctypes.c_uint32), ("code", c_int), ("message", c_char_p)]


Error = POINTER(GError)


class Library:
    """The functions of c.h. Functions that can fail raise Failure."""
    TYPES = {
        "runner_open": (c_void_p, (POINTER(c_char_p), c_char_p, *[c_int] * len(OPTIONS),
                                   *[c_char_p] * 3, POINTER(Error))),
        "runner_close": (None, (c_void_p,)),
        "runner_next": (c_int, (c_void_p, c_char_p, POINTER(c_int64), POINTER(Error))),
        "runner_next_ids": (c_int, (c_void_p, c_char_p, c_uint, POINTER(c_int64), POINTER(Error))),
        "runner_retry_after_ms": (c_int64, (c_void_p,)),
        "runner_kind_of": (c_char_p, (Error,)),
        "runner_version": (c_char_p, ()),
        "g_error_free": (None, (Error,)),
    }

    def __init__(self, path):
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in self.TYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("runner_"), function)

    def try_to(self, function, *arguments):
        error = Error()
        result = function(*arguments, byref(error))
        if error:
            kind, message = self.kind_of(error).decode(), error.contents.message.decode()
            self.g_error_free(error)
            raise Failure(kind, message)
        return result


class Failure(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Client:
    def __init__(self, library, servers, agent, tls=None, **options):
        self._library = library
        self._agent = agent.encode()
        tls = tls or {}
        self.pointer = None
        self.pointer = library.try_to(
            library.open, (c_char_p * (len(servers) + 1))(*map(str.encode, servers)), self._agent,
            *(options.get(name, NOT_GIVEN) for name in OPTIONS),
            *(tls[name].encode() if name in tls else None for name in ("ca", "certificate", "key")))

    def next_id(self):
        number = c_int64()
        self._library.try_to(self._library.next, self.pointer, self._agent, byref(number))
        return number.value

    def next_ids(self, count):
        numbers = (c_int64 * count)()
        self._library.try_to(self._library.next_ids, self.pointer, self._agent, count, numbers)
        return list(numbers)

    def close(self):
        if self.pointer:
            self._library.close(self.pointer)
        self.pointer = None


class CRunner(Runner):
    language = "C"
    errors = (Failure,)

    def __init__(self, library):
        super().__init__()
        self.library = library
        self.package = f"libsnowflake-client {library.version().decode()}"
        self.options = {}

    def make_client(self, **options):
        self.options = options
        return Client(self.library, **options)

    def describe(self, error):
        """The library's messages have the form "SERVER: WHY; SERVER: WHY"."""
        attempts = [(server, found[1]) for server in self.options["servers"] if (
            found := re.search(rf"(?:^| ){re.escape(server)}: (.+)", str(error)))]
        pointer = self.client.pointer if self.client else None
        return {"error": error.kind, "message": str(error), "attempts": attempts,
                "retry_after_ms": self.library.retry_after_ms(pointer) if pointer else 0}


class ClientRunner(CRunner):
    """A call is a round trip, and each thread has a client of its own."""
    lacks = {
        "agent-at-once": "the server checks the useragent of each call",
        "at-once": "a call retries until its deadline",
        "close-in-a-call": "a client is for one thread at a time",
        "closed": "a client that was freed cannot be used",
    }

    def make_client(self, **options):
        if options.get("prefetch_ms") != 0:
            raise Unsupported("the client does not prefetch; the pool does")
        return super().make_client(**options)

    def client_of_thread(self):
        return self.make_client(**self.options)


class PoolRunner(CRunner):
    """All threads take from one pool."""
    lacks = {
        "attempts": "a take reports the error of the server tried last",
        "agent-of-servers": "a take waits until its timeout, and the pool retries",
        "at-once": "a take waits until its timeout",
        "close-in-a-call": "a pool must not be freed while a take waits",
        "closed": "a pool that was freed cannot be used",
        "late": "late IDs are prefetched for the next take",
        "most-telling": "a take reports the error of the server tried last",
        "retry-after": "the pool retries by itself",
    }

    def make_client(self, **options):
        if options.get("prefetch_ms") == 0:
            raise Unsupported("the pool always prefetches; the client does not")
        return super().make_client(**options)


def main(directory, kind):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in C: the library causes no SIGPIPE
    library = Library(pathlib.Path(directory, f"conformance-{kind}.so"))
    {"client": ClientRunner, "pool": PoolRunner}[kind](library).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
