# SPDX-License-Identifier: Apache-2.0
"""client.py BINDINGS MODULE HOST PORT framed|unframed PROTOCOL COMMAND...

The commands, and what each of the clients in this directory prints, stand in ../official.py.
"""
import importlib
import itertools
import os
import random
import sys

from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol, TCompactProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

_seqids = itertools.count(random.randrange(1 << 30))


def checked(protocol):
    """The same protocol with a check that the generated code does without: whether a reply is the
    one to the call that was made. The C extension has to do with what is within a message only, so
    this goes for the accelerated ones too."""

    class Checked(protocol):
        def writeMessageBegin(self, name, ttype, seqid):
            self.awaited = (name, next(_seqids))
            super().writeMessageBegin(name, ttype, self.awaited[1])

        def readMessageBegin(self):
            name, kind, seqid = super().readMessageBegin()
            if (name, seqid) != self.awaited:
                raise AssertionError(f"a reply to {name} {seqid}, not to {self.awaited}")
            return name, kind, seqid

    return Checked


PROTOCOLS = {
    "strict": lambda transport: checked(TBinaryProtocol)(transport, True, True),
    "unversioned": lambda transport: checked(TBinaryProtocol)(transport, False, False),
    "compact": checked(TCompactProtocol),
    # `fallback=False`: fail rather than do without the C extension
    "strict-accelerated": lambda transport: checked(TBinaryProtocolAccelerated)(
        transport, True, True, fallback=False),
    "compact-accelerated": lambda transport: checked(TCompactProtocolAccelerated)(
        transport, fallback=False),
}


def run(client, command, agent="", count="0"):
    if command == "get_id":
        for _ in range(int(count)):
            print(client.get_id(agent))
    elif command == "get_ids":
        print(*client.get_ids(agent, int(count)), sep="\n")
    elif command == "get_id_runs":
        for found in client.get_id_runs(agent, int(count)):
            print(*range(found.first, found.first + found.count), sep="\n")
    elif command in ("get_ulids", "get_uuids"):
        for wide in getattr(client, command)(agent, int(count)):
            print(int.from_bytes(wide, "big"))
    else:
        print(client.get_worker_id(), client.get_datacenter_id(), client.get_timestamp(), sep="\n")


def main(bindings, module, host, port, framing, protocol, *command):
    sys.path.insert(0, bindings)
    service = importlib.import_module(module)
    local = host.removeprefix("unix:") if host.startswith("unix:") else None
    if host.startswith("tls:"):
        ca, certificate, key = os.environ["SNOWFLAKE_TLS"].split(",")
        transport = TSSLSocket(host.removeprefix("tls:"), int(port), ca_certs=ca,
                               certfile=certificate, keyfile=key)
    else:
        transport = TSocket(host, int(port), unix_socket=local and local.replace("@", "\0", 1))
    transport.setTimeout(60000)
    transport = (TFramedTransport if framing == "framed" else TBufferedTransport)(transport)
    transport.open()
    try:
        run(service.Client(PROTOCOLS[protocol](transport)), *command)
    except TException as error:
        print(f"error {type(error).__name__}: {error.message}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
