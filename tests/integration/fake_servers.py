# SPDX-License-Identifier: Apache-2.0
"""Servers with scripted replies, which use Thrift's own code."""
import socket
import threading
import time
import uuid

from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TFramedTransportFactory

from bindings import contract_2010, current

NOBODY = "127.0.0.1:1"  # a port that the kernel never hands out

Worker = current.types.Worker


def now_ms():
    return int(time.time() * 1000)


class Of2010:
    """A server with only the four original calls."""

    def __init__(self, first=1):
        self.next = first

    def get_worker_id(self):
        return 11

    def get_datacenter_id(self):
        return 12

    def get_timestamp(self):
        return 1

    def get_id(self, _useragent):
        self.next += 1
        return self.next - 1


class Extended:
    """A server with datacenter ID 3 and worker ID 7, whose clock is wrong by ahead_ms."""

    def __init__(self, state="serving", clock_skew_ms=0, first=1):
        self.state = state
        self.clock_skew_ms = clock_skew_ms
        self.next = first

    def get_worker(self):
        return Worker(3, 7, "a.example:7609", str(uuid.uuid4()), 1, 2, self.state)

    def get_timestamp(self):
        return now_ms() + self.clock_skew_ms

    def get_ids(self, useragent, count):
        if useragent == "refused":
            raise current.types.WorkerIdUnavailable("why", 250)
        self.next += count
        return list(range(self.next - count, self.next))


class Told:
    """A server with scripted answers. `said`: the reply to get_worker, except as_of_ms. `others`:
    the other Workers in get_workers, an exception to raise, or a function that returns one of
    these."""

    def __init__(self, datacenter_id=0, worker_id=0, others=(), ahead_ms=0, lacks=()):
        self.ahead_ms = ahead_ms  # error of its clock
        self.others = others
        self.asked = 0
        self.age_ms = 0  # age of its report about itself
        self.address = serve(self, lacks=lacks)
        self.said = Worker(datacenter_id=datacenter_id, worker_id=worker_id, address=self.address,
                           nonce=str(uuid.uuid4()), claimed_at_ms=now_ms(),
                           reserved_until_ms=now_ms() + 600_000, state="serving", kind="server")

    def now_ms(self):
        return now_ms() + self.ahead_ms

    def get_timestamp(self):
        return self.now_ms()

    def get_worker(self):
        self.asked += 1
        self.said.as_of_ms = self.now_ms() - self.age_ms
        return self.said

    def get_workers(self):
        others = self.others() if callable(self.others) else self.others
        if isinstance(others, Exception):
            raise others
        for row in others:
            if row.age_ms is not None:
                row.as_of_ms = self.now_ms() - row.age_ms
        return [self.get_worker(), *others]

    def of_another(self, age_ms, **fields):
        """Returns a row for another server that does not exist. It has this age by the server's
        clock in each reply, unless as_of_ms is given."""
        row = Worker(datacenter_id=0, worker_id=9, address=NOBODY, nonce=str(uuid.uuid4()),
                     claimed_at_ms=now_ms() - 60_000, reserved_until_ms=now_ms() + 300_000,
                     state="serving", kind="server")
        row.age_ms = None if "as_of_ms" in fields else age_ms
        for name, value in fields.items():
            setattr(row, name, value)
        return row


def serve(handler, service=current.SnowflakeExtended, lacks=()):
    """Starts a server, and returns its address. It cannot be stopped: it ends with this process."""
    listener = TServerSocket("127.0.0.1", 0)
    listener.listen()
    port = listener.handle.getsockname()[1]
    listener.listen = lambda: None  # serve() would call listen() again
    processor = service.Processor(handler)
    for call in lacks:
        del processor._processMap[call]
    server = TThreadedServer(processor, listener, TFramedTransportFactory(),
                             TBinaryProtocolFactory(), daemon=True)
    threading.Thread(target=server.serve, daemon=True).start()
    return f"127.0.0.1:{port}"


def serve_2010(handler):
    return serve(handler, contract_2010.Snowflake)


def hanging(test):
    """Returns a socket that accepts connections but never answers, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    test.addCleanup(listener.close)
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


class Counting(Told):
    """A server whose counters grow by this many IDs per second of its clock, ten per call."""

    def __init__(self, ids_per_s=0, connections=1, **fields):
        self.ids_per_s = ids_per_s
        self.connections = connections
        self.began = time.monotonic()
        super().__init__(**fields)

    def get_counters(self):
        calls = int((time.monotonic() - self.began) * self.ids_per_s / 10)
        return {"ids_generated": 10 * calls, "calls": calls, "connections_ended": 5,
                "connections_accepted": 5 + self.connections}
