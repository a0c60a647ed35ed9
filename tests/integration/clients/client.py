# SPDX-License-Identifier: Apache-2.0
"""client.py BINDINGS MODULE

../official.py documents the commands and the output of the clients in this directory.
"""
import importlib
import itertools
import os
import random
import sys

from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol, TCompactProtocolAccelerated
from thrift.protocol.THeaderProtocol import THeaderProtocol
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport
from thrift.transport.TZlibTransport import TZlibTransport

TIMEOUT_MS = 60000

_seqids = itertools.count(random.randrange(1 << 30))


class WrongReply(BaseException):
    """Nothing that a client may take for an error of the server."""


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
                raise WrongReply(f"a reply to {name} {seqid}, not to {self.awaited}")
            return name, kind, seqid

    return Checked


TRANSPORTS = {
    "framed": TFramedTransport,
    "unframed": TBufferedTransport,
    "zlib": TZlibTransport,
    "header": lambda socket: socket,  # its protocol brings its transport
}
PROTOCOLS = {
    "strict": lambda transport: checked(TBinaryProtocol)(transport, True, True),
    "unversioned": lambda transport: checked(TBinaryProtocol)(transport, False, False),
    "compact": checked(TCompactProtocol),
    # `fallback=False`: fail rather than do without the C extension
    "strict-accelerated": lambda transport: checked(TBinaryProtocolAccelerated)(
        transport, True, True, fallback=False),
    "compact-accelerated": lambda transport: checked(TCompactProtocolAccelerated)(
        transport, fallback=False),
    "json": TJSONProtocol,
    "header": lambda socket: THeaderProtocol(socket, [0]),
}


def new_socket(host, port):
    if host.startswith("tls:"):
        ca, certificate, key = os.environ["SNOWFLAKE_TLS"].split(",")
        return TSSLSocket(host.removeprefix("tls:"), int(port), ca_certs=ca, certfile=certificate,
                          keyfile=key)
    local = host.removeprefix("unix:") if host.startswith("unix:") else None
    return TSocket(host, int(port), unix_socket=local and local.replace("@", "\0", 1))


def connect(host, port, framing, protocol):
    """The transport, which is to be closed, and the protocol over it."""
    if framing == "http":
        transport = THttpClient(f"http://{host}:{port}/")
    else:
        socket = new_socket(host, port)
        socket.setTimeout(TIMEOUT_MS)
        transport = TRANSPORTS[framing](socket)
    transport.open()
    return transport, PROTOCOLS[protocol](transport)


def show(value):
    if isinstance(value, list):
        for each in value:
            show(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            print(key, each)
    elif isinstance(value, bytes):
        print(value.hex())
    elif isinstance(value, int):
        print(value)
    else:
        print(*(f"{name}={each}" for name, each in vars(value).items() if each is not None))


def call(client, method, agent=None, count=None):
    if method == "get_id":
        for _ in range(int(count)):
            print(client.get_id(agent))
    elif agent is None:
        show(getattr(client, method)())
    else:
        show(getattr(client, method)(agent, int(count)))


def main(bindings, module):
    sys.path.insert(0, bindings)
    service = importlib.import_module(module)
    transport = client = None
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            if command == "open":
                if transport:
                    transport.close()
                transport, protocol = connect(*arguments)
                client = service.Client(protocol)
            else:
                call(client, command, *arguments)
            print(".", flush=True)
        except Exception as error:
            text = getattr(error, "message", None) or str(error)
            print(f"error {type(error).__name__}: {text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
