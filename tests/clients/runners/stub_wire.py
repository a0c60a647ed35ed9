# SPDX-License-Identifier: Apache-2.0
"""A connection of stub.py: framed, strict binary, by hand. `wrong` is as stub.py has it."""
import contextlib
import random
import socket
import ssl
import struct
import threading
import time

LONGEST_FRAME = 1 << 20
BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, LIST = 2, 3, 4, 6, 8, 10, 11, 12, 15
NUMBERS = {BOOL: "b", BYTE: "b", DOUBLE: "d", I16: "h", I32: "i", I64: "q"}
CALL, REPLY, EXCEPTION = 1, 2, 3
VERSION = 0x8001
DEFAULT_PORT = 7609
# By the field of a batch's result, and by the beginning of a message of get_id.
KINDS = {1: "clock", 2: "invalid-agent", 3: "unavailable", "InvalidSystemClock": "clock",
         "InvalidUserAgentError": "invalid-agent", "WorkerIdUnavailable": "unavailable"}
UNKNOWN_METHOD = 1


class Broken(Exception):
    """What came is no answer to the call; `is_end`: nothing came, the connection has ended."""

    def __init__(self, text, is_end=False):
        super().__init__(text)
        self.is_end = is_end


class Refused(Broken):
    """The server says no."""

    def __init__(self, name, kind, text, retry_after_ms=0):
        super().__init__(text or name)
        self.name = name
        self.kind = kind
        self.retry_after_ms = retry_after_ms


class Reader:
    def __init__(self, data):
        self._data = data
        self._at = 0

    def take(self, form):
        value = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return value[0]

    def value(self, kind):
        if kind in NUMBERS:
            return self.take(NUMBERS[kind])
        if kind == STRING:
            return self.take(f"{self.take('i')}s").decode()
        if kind == LIST:
            kind = self.take("b")
            return [self.value(kind) for _ in range(self.take("i"))]
        if kind != STRUCT:
            raise Broken(f"type {kind}")
        fields = {}
        while kind := self.take("b"):
            number = self.take("h")
            fields[number] = self.value(kind)
        return fields


_known = {}  # by text: what its name was looked up as last


def _addresses(text, deadline, wrong):
    """Where a look-up fails, or takes half of the time, those of the one before."""
    known = None if wrong == "forgets" else _known.get(text)
    if known and wrong == "looks-up-once":
        return list(known)
    now = time.monotonic()
    try:
        _known[text] = _looked_up(text, (now + deadline) / 2 if known else deadline, wrong)
    except OSError:
        if not known:
            raise
    return list(_known[text])


def _looked_up(text, deadline, wrong):
    """A look-up cannot be stopped, but need not be waited for."""
    if text.startswith("unix:"):
        return [(socket.AF_UNIX, text.removeprefix("unix:"))]
    host, _, port = text.removeprefix("tls:").rpartition(":")
    outcome = []

    def look_up():
        try:
            outcome.append(socket.getaddrinfo(host.strip("[]"), int(port or DEFAULT_PORT),
                                              type=socket.SOCK_STREAM))
        except OSError as error:
            outcome.append(error)
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(None if wrong == "slow-names" else max(deadline - time.monotonic(), 0))
    if not outcome:
        raise TimeoutError
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return [(found[0], found[4]) for found in outcome[0]]


class Connection:
    def __init__(self, text, options, deadline, wrong):
        self._wrong = wrong
        self._seqid = random.randrange(1 << 30)
        self._socket = None
        addresses = _addresses(text, deadline, wrong)
        while self._socket is None:
            self._connect(addresses, deadline)
        if text.startswith("tls:"):
            self._secure(text, options.get("tls", {}), deadline)

    def _connect(self, addresses, deadline):
        """To the first; the last one's error is told."""
        family, address = addresses.pop(0)
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.settimeout(max(deadline - time.monotonic(), 0.001))
            made.connect(address)
            self._socket = made
        except OSError:
            made.close()
            if not addresses or self._wrong == "first-address":
                raise

    def _secure(self, text, files, deadline):
        context = ssl.create_default_context(cafile=files.get("ca"))
        if files.get("certificate"):
            context.load_cert_chain(files["certificate"], files["key"])
        if self._wrong == "any-certificate":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        host = text.removeprefix("tls:").rpartition(":")[0]
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError:
            self._socket.close()
            raise

    def close(self):
        self._socket.close()

    def interrupt(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def call(self, method, agent, count, deadline):
        """The numbers of the answer."""
        self._seqid += self._wrong != "same-sequence-id"
        name, who = method.encode(), agent.encode()
        body = struct.pack(f">hbbi{len(name)}si bhi{len(who)}s", VERSION - 0x10000, 0, CALL,
                           len(name), name, self._seqid, STRING, 1, len(who), who)
        if method != "get_id":
            body += struct.pack(">bhi", I32, 2, count)
        body += b"\0"
        self._limit(deadline)
        self._socket.sendall(struct.pack(">I", len(body)) + body)
        length = struct.unpack(">I", self._read(4, deadline, True))[0]
        if not 0 < length <= LONGEST_FRAME:
            raise Broken(f"a frame of {length} bytes")
        try:
            return self._numbers(method, Reader(self._read(length, deadline)))
        except (struct.error, UnicodeDecodeError):
            raise Broken("not a reply") from None

    def _limit(self, deadline, is_first=True):
        left = deadline - time.monotonic()
        if self._wrong == "deadline-per-read" and not is_first:
            left = 1000
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _read(self, size, deadline, is_first=False):
        data = b""
        while len(data) < size:
            self._limit(deadline, is_first and not data)
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise Broken("the connection has ended", is_first and not data)
            data += more
        return data

    def _numbers(self, method, reader):
        version, _, kind = reader.take("h"), reader.take("b"), reader.take("b")
        name, seqid = reader.value(STRING), reader.take("i")
        if version & 0xFFFF != VERSION or kind not in (REPLY, EXCEPTION):
            raise Broken("not a reply")
        if name != method and self._wrong != "any-name":
            raise Broken(f"a reply to {name}")
        if seqid != self._seqid and self._wrong not in ("any-sequence-id", "takes-late"):
            raise Broken(f"a reply to call {seqid}")
        fields = reader.value(STRUCT)
        if kind == EXCEPTION:
            self._refuse(fields)
        for number, exception in fields.items():
            if number != 0:
                raise Refused(str(number), KINDS.get(number, "unreachable"),
                              exception.get(1, ""), exception.get(2, 0))
        if 0 not in fields:
            raise Broken("no result")
        return self._expand(fields[0])

    @staticmethod
    def _refuse(fields):
        if fields.get(2) == UNKNOWN_METHOD:
            raise Refused("unknown", "unreachable", fields.get(1, ""))
        name = fields.get(1, "").partition(":")[0]
        raise Refused(name, KINDS.get(name, "unreachable"), fields.get(1, ""))

    def _expand(self, success):
        if isinstance(success, int):
            return [success]
        if not success or isinstance(success[0], int):
            return success
        if any(run[2] < 1 for run in success) and self._wrong != "any-id":
            raise Broken("a run of none")
        return [number for run in success for number in range(run[1], run[1] + run[2])]
