# SPDX-License-Identifier: Apache-2.0
"""A connection of stub.py: framed, strict binary. stub.py describes `wrong`."""
import contextlib
import importlib
import random
import socket
import ssl
import struct
import sys
import threading
import time

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

sys.path.append(sys.argv[1])  # where the code of snowflake.thrift is
SERVICES = {method: importlib.import_module(f"snowflake.{service}") for method, service in (
    ("get_id", "Snowflake"), ("get_ids", "SnowflakeExtended"),
    ("get_id_runs", "SnowflakeExtended"))}
LONGEST_FRAME = 1 << 20
DEFAULT_PORT = 7609
# Keys: a field of a batch's result, or the name that begins a message of get_id.
KINDS = {"clock": "clock", "agent": "invalid-agent", "worker": "unavailable",
         "InvalidSystemClock": "clock", "InvalidUserAgentError": "invalid-agent",
         "WorkerIdUnavailable": "unavailable"}


class Broken(Exception):
    """What came is not an answer to the call; `is_end`: nothing came, the connection has ended."""

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


_known = {}  # by text: what its name was looked up as last


def _addresses(text, deadline, wrong):
    """Returns the addresses of the previous lookup if a lookup fails or takes half of the time."""
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
    """Looks up in a thread, because a lookup cannot be stopped."""
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
        service = SERVICES[method]
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.writeMessageBegin(method, TMessageType.CALL, self._seqid)
        getattr(service, f"{method}_args")(
            agent, *[count] * (method != "get_id")).write(protocol)
        body = buffer.getvalue()
        self._limit(deadline)
        self._socket.sendall(struct.pack(">I", len(body)) + body)
        length = struct.unpack(">I", self._read(4, deadline, True))[0]
        if not 0 < length <= LONGEST_FRAME:
            raise Broken(f"a frame of {length} bytes")
        return self._numbers(method, getattr(service, f"{method}_result")(),
                             self._read(length, deadline))

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

    def _numbers(self, method, result, message):
        try:
            protocol = TBinaryProtocol(TMemoryBuffer(message), strictRead=True)
            name, kind, seqid = protocol.readMessageBegin()
            if kind == TMessageType.EXCEPTION:
                result = TApplicationException()
            result.read(protocol)
        except Exception as error:
            raise Broken("not a reply") from error
        if name != method and self._wrong != "any-name":
            raise Broken(f"a reply to {name}")
        if seqid != self._seqid and self._wrong not in ("any-sequence-id", "takes-late"):
            raise Broken(f"a reply to call {seqid}")
        if kind == TMessageType.EXCEPTION:
            self._refuse(result)
        for field, refusal in vars(result).items():
            if field != "success" and refusal is not None:
                raise Refused(field, KINDS.get(field, "unreachable"), refusal.message,
                              getattr(refusal, "retry_after_ms", None) or 0)
        if result.success is None:
            raise Broken("no result")
        return self._expand(result.success)

    @staticmethod
    def _refuse(error):
        if error.type == TApplicationException.UNKNOWN_METHOD:
            raise Refused("unknown", "unreachable", error.message)
        name = error.message.partition(":")[0]
        raise Refused(name, KINDS.get(name, "unreachable"), error.message)

    def _expand(self, success):
        if isinstance(success, int):
            return [success]
        if not success or isinstance(success[0], int):
            return success
        if any(run.count < 1 for run in success) and self._wrong != "any-id":
            raise Broken("a run of none")
        return [number for run in success for number in range(run.first, run.first + run.count)]
