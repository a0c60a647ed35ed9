# SPDX-License-Identifier: Apache-2.0
"""Requests to the admin port, by clients of the standard library or as bytes."""
import http.client
import json
import socket
from typing import NamedTuple

from harness import HANG_GUARD_S

LISTEN = ("--admin-listen", "127.0.0.1:0")
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST" + GET.removeprefix(b"GET")
SILENCE_S = 10        # silence after which the server closes the connection
# Replies of an idle server.
TEXT = {"/livez": "ok", "/healthz": "ok", "/readyz": "ok", "/ping": "pong"}
JSON = ("/server_info", "/stats.json", "/status.json", "/workers.json")
DRAWING = ("/id?agent=good", "/ids?agent=good&n=3")
OTHERS = ("/metrics", "/stats.txt", "/decode/1234567890123456789")


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def line(self):
        """Returns the only line of the body."""
        lines = self.text.split("\n")
        assert len(lines) == 2 and lines[1] == "", self.text
        return lines[0]


class Admin:
    """The admin port of one server. Each request has its own connection, unless one is given."""

    def __init__(self, server):
        self.address = server.admin_address

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=HANG_GUARD_S)

    def ask(self, path, method=None, connection=None, **headers):
        """Makes a request with GET, or POST for IDs. headers: for example
        accept="application/json", sec_fetch_site="none"."""
        if method is None:
            method = "POST" if path.partition("?")[0] in ("/id", "/ids") else "GET"
        own = connection or self.connect()
        try:
            own.request(method, path, headers={name.replace("_", "-"): value
                                               for name, value in headers.items()})
            reply = own.getresponse()
            return Reply(reply.status, reply.headers, reply.read().decode())
        finally:
            if connection is None:
                own.close()

    def json(self, path):
        reply = self.ask(path, accept="application/json")
        assert reply.status == 200, reply
        return reply.json

    def socket(self):
        return socket.create_connection(self.address, timeout=HANG_GUARD_S)

    def raw(self, *pieces):
        """Sends these bytes. Returns everything until the server closes the connection."""
        with self.socket() as connection:
            for piece in pieces:
                connection.sendall(piece)
            return read_all(connection)


def read_all(connection):
    """Reads until the other end closes or resets the connection."""
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    return got
