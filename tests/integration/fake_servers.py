# SPDX-License-Identifier: Apache-2.0
"""Servers that answer as a test tells them, by Thrift's own code."""
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
    """The four calls, and nothing else."""

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
    """Serves as datacenter 3, worker 7, with a clock that is off by as much."""

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
    """`said` is what get_worker answers, but for as_of_ms; `others` what get_workers has besides:
    of Worker, an exception to be raised, or a function that returns these."""

    def __init__(self, datacenter_id=0, worker_id=0, others=(), ahead_ms=0, lacks=()):
        self.ahead_ms = ahead_ms  # of its clock
        self.others = others
        self.asked = 0
        self.age_ms = 0  # of what it says of itself
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
        """A row of its list, of one that is not there: of that age by its clock whenever it is
        asked, unless as_of_ms is given."""
        row = Worker(datacenter_id=0, worker_id=9, address=NOBODY, nonce=str(uuid.uuid4()),
                     claimed_at_ms=now_ms() - 60_000, reserved_until_ms=now_ms() + 300_000,
                     state="serving", kind="server")
        row.age_ms = None if "as_of_ms" in fields else age_ms
        for name, value in fields.items():
            setattr(row, name, value)
        return row


def serve(handler, service=current.SnowflakeExtended, lacks=()):
    """The address. It cannot be stopped: it ends with this process."""
    listener = TServerSocket("127.0.0.1", 0)
    listener.listen()
    port = listener.handle.getsockname()[1]
    listener.listen = lambda: None  # serve() would do it again
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
    """A socket that takes connections and never answers, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    test.addCleanup(listener.close)
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


class Counting(Told):
    """Counts as many IDs a second, by its own clock, in calls of ten."""

    def __init__(self, ids_per_s=0, connections=1, **fields):
        self.ids_per_s = ids_per_s
        self.connections = connections
        self.began = time.monotonic()
        super().__init__(**fields)

    def get_counters(self):
        calls = int((time.monotonic() - self.began) * self.ids_per_s / 10)
        return {"ids_generated": 10 * calls, "calls": calls, "connections_ended": 5,
                "connections_accepted": 5 + self.connections}
