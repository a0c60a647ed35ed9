# SPDX-License-Identifier: Apache-2.0
"""A client that continuously draws IDs with Thrift's Python library, and reports failures."""
import logging
import threading

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport, TTransportException

import bindings
from harness import HANG_GUARD_S

logging.getLogger("thrift").setLevel(logging.CRITICAL)  # servers stop often


class PythonClient:
    """A client as users write it with Thrift: if the connection ends, it tries the next server, and
    each of them once more. `keeps`: it keeps its connection; otherwise each call has a new one."""

    def __init__(self, addresses, keeps=True):
        self.addresses = addresses
        self.keeps = keeps
        self.at = 0
        self.client = None
        self.numbers = []
        self.failures = []
        self.ends = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _connect(self):
        socket = TSocket(*self.addresses[self.at])
        socket.setTimeout(1000 * HANG_GUARD_S)
        transport = TFramedTransport(socket)
        transport.open()
        self.client = bindings.current.SnowflakeExtended.Client(TBinaryProtocol(transport))

    def _disconnect(self):
        if self.client:
            self.client._iprot.trans.close()
        self.client = None

    def _call(self):
        failures = []
        for _ in range(2 * len(self.addresses)):
            try:
                if not self.client:
                    self._connect()
                return self.client.get_id("python")
            except (TTransportException, OSError) as error:
                if len(self.addresses) == 1 and isinstance(error, TTransportException) and \
                        error.type == TTransportException.NOT_OPEN:
                    raise  # refused, although the connection was kept
                failures.append(error)
                self._disconnect()
                self.at = (self.at + 1) % len(self.addresses)
        raise AssertionError(failures)

    def _run(self):
        while not self.ends and not self.failures:
            try:
                self.numbers.append(self._call())
            except Exception as error:  # any exception is a failed call
                self.failures.append(repr(error))
            if not self.keeps:
                self._disconnect()
        self._disconnect()

    def has_failed(self):
        return bool(self.failures)

    def finish(self):
        self.ends = True
        self.thread.join(HANG_GUARD_S)
        return "; ".join(self.failures)
