# SPDX-License-Identifier: Apache-2.0
"""Official clients that put the service's name before the method's, as for servers with several
services on one port. The unit test thrift-codec tests every name in every form."""
import contextlib

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

from bindings import contract_2010, current
from harness import SharedServerTest

TRANSPORTS = (TFramedTransport, TBufferedTransport)
PROTOCOLS = {
    "strict": lambda transport: TBinaryProtocol(transport, True, True),
    "unversioned": lambda transport: TBinaryProtocol(transport, False, False),
    "compact": TCompactProtocol,
}


class Multiplexed(SharedServerTest):
    options = ("--datacenter-id", 3, "--worker-id", 4)

    @contextlib.contextmanager
    def open(self, framing, protocol, service):
        """Opens a protocol for calls of this service."""
        socket = TSocket(*self.server.address)
        socket.setTimeout(20_000)
        transport = framing(socket)
        transport.open()
        try:
            yield TMultiplexedProtocol(PROTOCOLS[protocol](transport), service)
        finally:
            transport.close()

    def over_every_form(self, service, check):
        for framing in TRANSPORTS:
            for protocol in PROTOCOLS:
                with (self.subTest(framing=framing.__name__, protocol=protocol),
                      self.open(framing, protocol, service) as multiplexed):
                    check(multiplexed)

    def test_the_service_of_2010(self):
        """Thrift's client accepts a reply only if it has the bare method name."""
        def check(protocol):
            for bindings in (contract_2010, current):
                client = bindings.Snowflake.Client(protocol)
                self.assertLess(client.get_id("a"), client.get_id("a"))
                self.assertGreater(client.get_timestamp(), 0)
                self.assertEqual(client.get_worker_id(), self.server.call("get_worker_id"))
                self.assertEqual(client.get_datacenter_id(), self.server.call("get_datacenter_id"))
                with self.assertRaisesRegex(TApplicationException, "^InvalidUserAgentError: "):
                    client.get_id("1")
            extended = current.SnowflakeExtended.Client(protocol)
            with self.assertRaisesRegex(TApplicationException, "^Invalid method name: 'get_ids'$"):
                extended.get_ids("a", 3)
        self.over_every_form("Snowflake", check)

    def test_the_extended_service(self):
        def check(protocol):
            client = current.SnowflakeExtended.Client(protocol)
            numbers = [client.get_id("a"), *client.get_ids("a", 3)]
            self.assertEqual(sorted(set(numbers)), numbers)
            with self.assertRaises(current.types.InvalidCount):
                client.get_ids("a", 0)
            with self.assertRaises(current.types.InvalidUserAgentError):
                client.get_ids("", 1)
            self.assertEqual(client.get_worker().worker_id, client.get_worker_id())
            self.assertGreaterEqual(len(client.get_workers()), 1)
            self.assertGreater(client.get_counters()["calls"], 0)
        self.over_every_form("SnowflakeExtended", check)


class MultiplexedOnTheGeneralPath(Multiplexed):
    """The same tests without the fast path."""
    options = (*Multiplexed.options, "--no-fast-path")
