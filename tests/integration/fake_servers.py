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
        return current.types.Worker(3, 7, "a.example:7609", str(uuid.uuid4()), 1, 2, self.state)

    def get_timestamp(self):
        return int(time.time() * 1000) + self.clock_skew_ms

    def get_ids(self, useragent, count):
        if useragent == "refused":
            raise current.types.WorkerIdUnavailable("why", 250)
        self.next += count
        return list(range(self.next - count, self.next))


def serve(handler, service=current.SnowflakeExtended):
    """The address. It cannot be stopped: it ends with this process."""
    listener = TServerSocket("127.0.0.1", 0)
    listener.listen()
    port = listener.handle.getsockname()[1]
    listener.listen = lambda: None  # serve() would do it again
    server = TThreadedServer(service.Processor(handler), listener, TFramedTransportFactory(),
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
