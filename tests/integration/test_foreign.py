# SPDX-License-Identifier: Apache-2.0
"""Clients with other protocols: disconnected as soon as possible, named in the log, and for HTTP
with a reply in HTTP."""
import http.client
import socket
import ssl

from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.THeaderTransport import THeaderTransport
from thrift.transport.TTransport import TFramedTransport, TMemoryBuffer
from thrift.transport.TZlibTransport import TZlibTransport

from harness import HANG_GUARD_S, ServerTest
from wire import EXCEPTION, EXTENDED, Form

# The timeouts of half a message and of silence are longer than the hang guard: they close nothing.
LATER = ("--frame-timeout", 2 * 1000 * HANG_GUARD_S)

UNVERSIONED = Form(True, "unversioned")


def written(wrap, protocol=None):
    """Returns the bytes of a get_id through these layers."""
    buffer = TMemoryBuffer()
    transport = wrap(buffer)
    if protocol is None:
        transport.write(Form(False, "strict").message("get_id", "a"))
        transport.flush()
    else:
        EXTENDED.Client(protocol(transport)).send_get_id("a")
    return buffer.getvalue()


def framed_zlib(buffer):
    return TZlibTransport(TFramedTransport(buffer))


# Data from real clients. The unit test foreign tests the bytes that identify each.
CASES = {
    "zlib": written(TZlibTransport), "framed zlib": written(framed_zlib),
    "JSON": written(lambda buffer: buffer, TJSONProtocol),
    "framed JSON": written(TFramedTransport, TJSONProtocol),
    "THeader": written(lambda buffer: THeaderTransport(buffer, [0])),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "PROXY 2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n", "Redis": b"*1\r\n$4\r\nPING\r\n",
}


class Foreign(ServerTest):
    def test_closed(self):
        server = self.start("--threads", 1, *LATER)
        for name, data in CASES.items():
            with self.subTest(name), server.connect() as connection:
                connection.send(data)
                self.assertEqual(connection.rest(), b"")

    def test_http_is_answered(self):
        server = self.start()
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            with self.subTest(method):
                client = http.client.HTTPConnection(*server.address, timeout=HANG_GUARD_S)
                client.request(method, "/", body=b"x" * 100 if method[0] == "P" else None)
                response = client.getresponse()
                text = response.read().decode()
                self.assertEqual(response.status, 400)
                self.assertEqual("accepts Apache Thrift" in text, method != "HEAD")
                client.close()
        closed = server.wait_event("connection-closed")
        self.assertTrue(closed.fields["reason"].startswith("HTTP"), closed)

    def test_a_client_that_wants_tls(self):
        server = self.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(server.address, timeout=HANG_GUARD_S) as plain, \
                self.assertRaises(OSError):
            context.wrap_socket(plain)
        closed = server.wait_event("connection-closed")
        self.assertTrue(closed.fields["reason"].startswith("TLS"), closed)

    def test_an_unknown_method_is_answered_as_such(self):
        server = self.start()
        for framed in (True, False):
            form = Form(framed, "unversioned")
            for name in ("nope", "a.b_C9", "Service:method", "x" * 256):
                with self.subTest(framed=framed, name=name), server.connect() as connection:
                    reply = self.call_unknown(connection, form, name)
                    self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 1))
                    self.assertGreater(connection.call(form, "get_id", "a").success, 0)

    @staticmethod
    def call_unknown(connection, form, name):
        data = form.wrap(form.message(name, seqid=7))
        # the reply cuts the name at 64 bytes
        connection.send(data, awaits=[(name if len(name) <= 64 else name[:64] + "...", 7)])
        return connection.reply(form)
