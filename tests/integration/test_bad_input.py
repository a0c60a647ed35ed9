# SPDX-License-Identifier: Apache-2.0
"""Sends every input of tests/vectors/bad_calls.py to a running server.

After each input, the server answers the next client, and has used neither much memory nor much CPU
time. The tables below contain the replies to inputs that have a definite one.
"""
import importlib.util
import socket
import struct

import wire
from bindings import ROOT
from harness import ELSEWHERE, SANITIZED, ServerTest, SharedServerTest, scaled
from wire import COMPACT, EXCEPTION, STRICT

_spec = importlib.util.spec_from_file_location("bad_calls", ROOT / "tests/vectors/bad_calls.py")
bad_calls = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bad_calls)

# Replies on a framed connection, in order. A number: a TApplicationException of that type; "id": an
# ID; "refused": a typed exception; CLOSED: the end without a reply. All calls have the sequence ID
# 1, and most are get_id.
CLOSED = "closed"
FRAMED_OUTCOMES = {
    **dict.fromkeys(("frame_of_1_byte", "frame_of_version_only", "bad_version",
                     "name_length_negative", "name_length_2g", "name_length_90m", "type_reply",
                     "type_exception", "type_oneway", "structs_100k_deep", "structs_1m_deep",
                     "lists_1m_deep", "method_name_of_100k"), [CLOSED]),
    **dict.fromkeys(("unversioned_without_arguments", "argument_missing"), [6]),
    **dict.fromkeys(("string_length_2g", "string_length_negative", "no_stop_field",
                     "skipped_string_cut_short", "skipped_string_negative", "skipped_unknown_type",
                     "structs_15k_deep", "lists_11k_deep", "list_of_2g_voids",
                     "list_of_2g_structs"), [7]),
    **dict.fromkeys(("unknown_method", "nul_in_method_name"), [1]),
    "unknown_method_then_good": [1, "id"],
    "structs_60_deep": ["id"],
    "field_over_two_frames": [7, CLOSED],
    "batch_count_negative": ["refused"],
}
COMPACT_OUTCOMES = {
    **dict.fromkeys(("compact_endless_varint", "compact_name_length_2g", "compact_bad_version",
                     "compact_type_reply", "compact_structs_60k_deep"), [CLOSED]),
    **dict.fromkeys(("compact_string_length_2g", "compact_list_of_2g", "compact_cut_short"), [7]),
    "compact_bool_argument": [6],
    "compact_unknown_method": [1],
}
OTHER_METHODS = {
    "unknown_method": ["nope"],
    "unknown_method_then_good": ["nope", "get_id"],
    "nul_in_method_name": [r"get_id\x00zz"],
    "batch_count_negative": ["get_ids"],
    "compact_unknown_method": ["nope"],
}


def without_frames(data):
    """Returns the payloads of consecutive frames."""
    payload = b""
    while data:
        length, = struct.unpack(">I", data[:4])
        payload, data = payload + data[4:4 + length], data[4 + length:]
    return payload


def every_input():
    """Yields (name and form, bytes)."""
    for name, data in bad_calls.CASES.items():
        yield f"{name} framed", data
        yield f"{name} unframed", without_frames(data)
    yield from bad_calls.RAW.items()
    for name, data in bad_calls.COMPACT.items():
        yield f"{name} framed", bad_calls.frame(data)
        yield f"{name} unframed", data


def sequence_ids(said):
    """Returns the sequence IDs of framed replies; without frames, of the first reply."""
    while said:
        framed = said[0] == 0
        reply = said[4:] if framed else said
        at = 2 if reply[0] == 0x82 else 11 + struct.unpack_from(">i", reply, 4)[0]
        yield reply[at]
        said = said[4 + struct.unpack_from(">I", said)[0]:] if framed else b""


def send_all(connection, data, then_shut_down, awaits=()):
    """Sends as much as the server accepts."""
    try:
        connection.send(data, awaits)
        if then_shut_down:
            connection.socket.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class BadInput(SharedServerTest):
    options = ("--frame-timeout", 500)

    def offend(self, data):
        """Sends an input, closes the sending side, and waits until the server closes the
        connection."""
        with self.server.connect() as connection:
            send_all(connection, data, then_shut_down=True)
            said = connection.rest()
        if data.startswith(b"GET "):  # the only protocol that gets a reply of its own
            self.assertTrue(said.startswith(b"HTTP/1.1 400 "))
            return b""
        self.assertLessEqual(set(sequence_ids(said)), {1}, "the reply to somebody else")
        return said

    def assert_good_is_answered(self):
        with self.server.connect() as connection:
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)

    def test_the_server_answers_afterwards(self):
        for name, data in every_input():
            with self.subTest(name):
                self.offend(data)
                self.assert_good_is_answered()

    def test_an_offender_that_stays_gets_an_answer_or_the_end(self):
        if ELSEWHERE:
            self.skipTest("needs a short limit for half a frame")
        for name, data in every_input():
            with self.subTest(name), self.server.connect() as connection:
                send_all(connection, data, then_shut_down=False)
                try:
                    connection.socket.recv(1)
                except ConnectionResetError:
                    pass
                self.assert_good_is_answered()

    def test_what_comes_back_in_frames(self):
        for name, outcomes in FRAMED_OUTCOMES.items():
            with self.subTest(name):
                self.assert_outcomes(name, bad_calls.CASES[name], STRICT, outcomes)

    def test_what_comes_back_in_compact_frames(self):
        for name, outcomes in COMPACT_OUTCOMES.items():
            with self.subTest(name):
                data = bad_calls.frame(bad_calls.COMPACT[name])
                self.assert_outcomes(name, data, COMPACT, outcomes)

    def assert_outcomes(self, name, data, form, outcomes):
        replies = sum(outcome != CLOSED for outcome in outcomes)
        awaits = [(method, 1) for method in OTHER_METHODS.get(name, ["get_id"] * replies)]
        with self.server.connect() as connection:
            send_all(connection, data, then_shut_down=False, awaits=awaits)
            got = [self.outcome(connection, form) for _ in outcomes]
            self.assertEqual(got, outcomes)
            if CLOSED not in outcomes:  # the connection stays open
                self.assertGreater(connection.call(form, "get_id", "a").success, 0)

    def outcome(self, connection, form):
        try:
            reply = connection.reply(form)
        except wire.Closed:
            return CLOSED
        if reply.kind == EXCEPTION:
            return reply.value.type
        return "id" if reply.value.success is not None else "refused"

    def test_raw_bytes_get_nothing(self):
        for name, data in bad_calls.RAW.items():
            with self.subTest(name):
                self.assertEqual(self.offend(data), b"")


class Costs(ServerTest):
    """Checks memory and CPU time. Sanitizers change both (and find leaks themselves)."""

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("a sanitizer build keeps freed memory")

    def test_bad_input_costs_nothing(self):
        server = self.start("--frame-timeout", 500)
        inputs = [data for _, data in every_input()]

        def round_of_all():
            for data in inputs:
                with server.connect() as connection:
                    send_all(connection, data, then_shut_down=True)
                    connection.rest()

        for _ in range(3):
            round_of_all()
        memory = server.resident_kib()
        for _ in range(scaled(20, 2)):
            round_of_all()
        self.assertLess(server.resident_kib() - memory, 512)

    def test_a_million_calls_leave_memory_flat(self):
        self.assert_flat()

    def test_a_million_calls_on_the_general_path_leave_memory_flat(self):
        self.assert_flat("--no-fast-path")

    def assert_flat(self, *options):
        server = self.start(*options)
        calls = 1000
        pipeline = STRICT.call("get_id", "good") * calls
        # frame, version, name, sequence ID; the rest contains an ID
        reply = struct.Struct(">IIi6si12x")
        with server.connect() as connection:
            connection.call(STRICT, "get_id", "good")

            def burst():
                data, awaited = pipeline.encode()
                connection.send(data)
                replies = bytearray()
                while len(replies) < calls * reply.size:
                    replies += connection.socket.recv(calls * reply.size)
                self.assertEqual(list(reply.iter_unpack(replies)),
                                 [(30, 0x80010002, 6, b"get_id", seqid) for _, seqid in awaited])

            for _ in range(20):
                burst()
            memory = server.resident_kib()
            for _ in range(scaled(1000)):
                burst()
            self.assertLess(server.resident_kib() - memory, 512)
