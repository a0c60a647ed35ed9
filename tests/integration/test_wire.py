# SPDX-License-Identifier: Apache-2.0
"""The bytes: six forms on one port, which the first five bytes distinguish."""
import json
import select
import socket
import struct

from bindings import ROOT
from harness import SharedServerTest, needs_own_server, their_end, wait_for
from wire import COMPACT, EXCEPTION, FORMS, REPLY, STRICT, UNFRAMED, Form

ACCUSTOM = 40   # calls after which the kernel no longer acknowledges everything at once
QUICKACK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
VECTORS = {name: bytes.fromhex(text)
           for name, text in json.loads((ROOT / "tests/vectors/wire.json").read_text()).items()
           if isinstance(text, str) and not name.startswith("note")}
FRAME_LIMIT = 64 * 1024


class Forms(SharedServerTest):
    options = ("--threads", 1, "--datacenter-id", 1, "--worker-id", 1)

    def setUp(self):
        self.other = self.connect()

    def exchange(self, data):
        """Sends bytes. Returns everything that the server replies."""
        connection = self.connect()
        connection.send(data)
        connection.socket.shutdown(socket.SHUT_WR)
        return connection.rest()

    def assert_closes(self, data):
        """Checks that the server closes the connection after these bytes without a reply."""
        connection = self.connect()
        connection.send(data)
        self.assertEqual(connection.rest(), b"", data[:40])

    def assert_answers(self, message, form):
        connection = self.connect()
        connection.send(form.call_of(message))
        self.assertGreater(connection.reply(form).success, 0)

    def test_framed_vectors(self):
        for call in ("call_get_id_foo_seq0", "call_get_id_foo_seq0_unversioned_header"):
            with self.subTest(call):
                expected = VECTORS["reply_get_id_1_seq0"]
                reply = self.exchange(VECTORS[call])
                self.assertEqual(reply[:-9], expected[:-9])
                self.assertEqual(reply[-1:], b"\0")
                self.assertGreater(struct.unpack(">q", reply[-9:-1])[0], 1)

    def test_vectors_of_the_other_calls(self):
        expected = VECTORS["reply_get_id_1_seq0"][4:]  # without the frame's length
        for method, seqid, vector in (("get_worker_id", 0, "call_get_worker_id_seq0"),
                                      ("get_datacenter_id", 7, "call_get_datacenter_id_seq7"),
                                      ("get_timestamp", 1, "call_get_timestamp_seq1")):
            with self.subTest(method):
                value = self.other.call(STRICT, method).success
                reply = self.exchange(VECTORS[vector])
                if method == "get_timestamp":  # between two readings of our clock
                    at, = struct.unpack(">q", reply[-9:-1])
                    self.assertTrue(value <= at <= self.other.call(STRICT, method).success)
                    value = at
                message = (expected[:4] + struct.pack(">I", len(method)) + method.encode()
                           + struct.pack(">i", seqid) + expected[18:21] + struct.pack(">q", value)
                           + b"\0")
                self.assertEqual(reply, struct.pack(">I", len(message)) + message)

    def test_unframed_vectors(self):
        reply = self.exchange(VECTORS["unframed_call_get_id_foo_seq0"])
        self.assertEqual(reply[:-9], VECTORS["reply_get_id_1_seq0"][4:-9])
        reply = self.exchange(VECTORS["compact_call_get_id_foo_seq1_unframed"])
        expected = VECTORS["compact_reply_get_id_1_seq1_unframed"]  # ..., value 02, stop 00
        self.assertEqual(reply[:len(expected) - 2], expected[:-2])
        self.assertEqual(reply[-1:], b"\0")

    def test_unknown_method_vector(self):
        reply = self.exchange(STRICT.call("nope", seqid=1))
        message = VECTORS["reply_unknown_method_nope_seq1"]
        header, fields = message[:20], message[20:-1]
        text, kind = fields[:-7], fields[-7:]
        self.assertIn(reply, (message, header + kind + text + b"\0"))

    def test_every_form_and_call(self):
        for form in FORMS:
            connection = self.connect()
            for method, arguments in (("get_id", ("infra-dm",)), ("get_worker_id", ()),
                                      ("get_datacenter_id", ()), ("get_timestamp", ()),
                                      ("get_ids", ("infra-dm", 3)),
                                      ("get_id_runs", ("infra-dm", 3)), ("get_worker", ()),
                                      ("get_workers", ()), ("get_counters", ())):
                with self.subTest(form=str(form), method=method):
                    reply = connection.call(form, method, *arguments)
                    self.assertEqual((reply.method, reply.kind), (method, REPLY))
                    self.assertIsNotNone(reply.success)

    def test_the_sequence_id_comes_back(self):
        for form in FORMS:
            connection = self.connect()
            for seqid in (0, 1, 7, 127, 128, 0x12345678, 2**31 - 1, -1, -2**31):
                with self.subTest(form=str(form), seqid=seqid):
                    self.assertEqual(connection.call(form, "get_id", "a", seqid=seqid).seqid, seqid)
                    self.assertEqual(connection.call(form, "nope", seqid=seqid).seqid, seqid)

    def test_the_first_byte(self):
        rest = b"\x01\0\x01get_id"
        for first in range(256):
            if first not in (0x00, 0x80, 0x82):
                with self.subTest(hex(first)):
                    self.assert_closes(bytes([first]) + rest)

    def test_the_frame_length(self):
        for length in (0, FRAME_LIMIT + 1, 0x00FFFFFF):
            with self.subTest(length):
                self.assert_closes(struct.pack(">I", length) + b"\x80")
        padding = self.padded(FRAME_LIMIT)
        self.assertEqual(len(padding), FRAME_LIMIT)
        self.assert_answers(padding, STRICT)
        self.assert_closes(STRICT.wrap(self.padded(FRAME_LIMIT + 1)))

    def padded(self, length):
        """Returns a valid get_id in strict binary that has this length because of an unknown
        field."""
        message = UNFRAMED.message("get_id", "a")[:-1]
        padding = length - len(message) - 8
        return message + b"\x0b\0\x09" + struct.pack(">I", padding) + b"x" * padding + b"\0"

    def test_the_limit_holds_without_frames_too(self):
        self.assert_answers(self.padded(FRAME_LIMIT), UNFRAMED)
        connection = self.connect()
        connection.send(UNFRAMED.call_of(self.padded(FRAME_LIMIT + 1)))
        self.assertEqual(connection.reply(UNFRAMED).value.type, 7)
        self.assertEqual(connection.rest(), b"")

    def test_the_fifth_byte(self):
        """After the length of a frame or a name, only 80, 82, 00, a letter or _ is valid."""
        letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
        for fifth in range(256):
            if fifth in (0x00, 0x80, 0x82) or fifth in letters:
                continue
            with self.subTest(hex(fifth)):
                # some belong to another protocol, which the next byte shows
                self.assert_closes(struct.pack(">I", 6) + bytes([fifth, 0]))

    def test_any_letter_begins_an_unversioned_name(self):
        form = Form(False, "unversioned")
        for letter in "azAZ_":
            with self.subTest(letter):
                reply = self.connect().call(form, letter + "ope")
                self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 1))

    def test_framing_is_fixed_for_the_connection(self):
        connection = self.connect()
        connection.call(STRICT, "get_id", "a")
        connection.send(UNFRAMED.call("get_id", "a"))  # read as a frame, it has 2 GiB
        self.assertEqual(connection.rest(), b"")

        connection = self.connect()
        connection.call(UNFRAMED, "get_id", "a")
        # read as unframed, the name has 29 bytes, and the message is too short
        connection.send(STRICT.call("get_id", "a"))
        connection.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.rest(), b"")

    def test_the_protocol_is_read_per_message(self):
        for framed in (True, False):
            connection = self.connect()
            forms = [form for form in FORMS if form.framed == framed]
            for form in forms + forms[::-1] + forms:
                with self.subTest(framed=framed, form=str(form)):
                    self.assertGreater(connection.call(form, "get_id", "a").success, 0)

    def test_a_pipeline_is_answered_in_order(self):
        for form in FORMS:
            with self.subTest(str(form)):
                connection = self.connect()
                connection.send(form.call("get_id", "a") * 1000)
                self.assert_increasing([connection.reply(form).success for _ in range(1000)])

    def assert_increasing(self, numbers):
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))

    def test_arguments_that_are_not_in_the_contract_are_skipped(self):
        every_type = b"".join((
            b"\x02\0\x63\x01", b"\x03\0\x63\x7f", b"\x04\0\x63" + bytes(8), b"\x06\0\x63\0\1",
            b"\x08\0\x63" + bytes(4), b"\x0a\0\x63" + bytes(8), b"\x0b\0\x63\0\0\0\1x",
            b"\x0c\0\x63" + b"\x08\0\1" + bytes(4) + b"\0",
            b"\x0d\0\x63\x0b\x08\0\0\0\1" + b"\0\0\0\1k" + bytes(4),
            b"\x0e\0\x63\x08\0\0\0\1" + bytes(4), b"\x0f\0\x63\x0a\0\0\0\2" + bytes(16)))
        for form in (STRICT, UNFRAMED):
            message = form.message("get_id", "a")
            with self.subTest(str(form)):
                self.assert_answers(message[:-1] + every_type + b"\0", form)

    def test_an_argument_of_another_type_counts_as_missing(self):
        message = STRICT.message("get_id", None)[:-1] + b"\x08\0\x01" + bytes(4) + b"\0"
        connection = self.connect()
        connection.send(STRICT.call_of(message))
        reply = connection.reply(STRICT)
        self.assertEqual((reply.kind, reply.value.type), (EXCEPTION, 6))


@needs_own_server
class SplitWrites(SharedServerTest):
    """Clients that write a call in pieces with Nagle's algorithm on, as Rust's framed transport and
    unbuffered Perl do: the next piece is sent when the first is acknowledged. The server
    acknowledges half a call at once, as its socket's TCP_QUICKACK shows. The kernel's default is a
    delay."""
    options = ("--threads", 1)

    def accustomed(self, form, call):
        """Returns a used connection with Nagle's algorithm, and the server's end of it."""
        connection = self.connect()
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for _ in range(ACCUSTOM):
            connection.send(call)
            connection.reply(form)
        end = their_end(self.server, connection)
        self.addCleanup(end.close)
        return connection, end

    @staticmethod
    def has_reply(connection):
        """Whether an earlier call has a reply, which acknowledges all data so far."""
        return bool(select.select([connection.socket], [], [], 0)[0])

    def assert_acknowledged(self, connection, end, form, calls, pieces):
        data = connection.encode(calls)
        wait_for(lambda: not end.getsockopt(*QUICKACK), "a kernel that delays acknowledgements")
        for start, stop in zip((0, *pieces), (*pieces, len(data))):
            connection.socket.sendall(data[start:stop])
            if stop < len(data):
                wait_for(lambda: end.getsockopt(*QUICKACK) or self.has_reply(connection),
                         f"{form}, cut at {stop}: an acknowledgement")
        for _ in calls:
            self.assertIsNotNone(connection.reply(form).success)

    def test_at_every_byte(self):
        for form in (STRICT, UNFRAMED, COMPACT):
            call = form.call("get_id", "split")
            connection, end = self.accustomed(form, call)
            for cut in range(1, len(bytes(call))):
                with self.subTest(form=str(form), cut=cut):
                    self.assert_acknowledged(connection, end, form, call, (cut,))

    def test_byte_by_byte(self):
        call = STRICT.call("get_id", "split")
        connection, end = self.accustomed(STRICT, call)
        self.assert_acknowledged(connection, end, STRICT, call, range(1, len(bytes(call))))

    def test_after_a_whole_call(self):
        call = STRICT.call("get_id", "split")
        length = len(bytes(call))
        connection, end = self.accustomed(STRICT, call)
        for cut in range(length + 1, 2 * length):
            with self.subTest(cut):
                self.assert_acknowledged(connection, end, STRICT, call * 2, (cut,))


class SplitWritesOnTheGeneralPath(SplitWrites):
    options = (*SplitWrites.options, "--no-fast-path")
