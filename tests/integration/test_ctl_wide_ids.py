# SPDX-License-Identifier: Apache-2.0
"""snowflakectl with ULIDs and UUIDs: printing, decoding and converting."""
import json
import random
import re
import uuid

from ctl import CtlTest, run
from harness import EPOCH_MS, ServerTest, SharedServerTest, scaled

ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
OF_ID = 2124110575825846272
UUID_OF_IT = "01a1fdfa-4600-7000-8005-55d780452831"
LAST_ID = 2**63 - 1


def uuid7(time_ms):
    return str(uuid.UUID(int=time_ms << 80 | 7 << 76 | 2 << 62))


class Asking(SharedServerTest, CtlTest):
    options = ("--datacenter-id", 3, "--worker-id", 9)

    def ask(self, *arguments):
        host, port = self.server.address
        return self.assert_ok(run("--server", f"{host}:{port}", *arguments))

    def test_one_and_many(self):
        for command, pattern in (("ulid", ULID), ("uuid", UUID7)):
            self.assertRegex(self.ask(command), f"^{pattern}\n$")
            for count in (2, 1000, 2500):
                lines = self.ask(command, "-n", count, "--agent", "my-program").splitlines()
                self.assertEqual(len(lines), count)
                self.assertEqual(sorted(set(lines)), lines)
                self.assertTrue(all(re.fullmatch(pattern, line) for line in lines))
            found = json.loads(self.ask(command, "-n", 3, "--json"))
            self.assertTrue(all(re.fullmatch(pattern, text) for text in found), found)
            self.assertEqual(len(found), 3)

    def test_uuids_become_ids(self):
        numbers = []
        for _ in range(3):
            numbers += map(int, self.ask("id", "-n", 3).split())
            numbers += map(int, self.ask("convert", *self.ask("uuid", "-n", 3).split()).split())
        self.assertEqual(sorted(set(numbers)), numbers)
        self.assertEqual({number >> 12 & 1023 for number in numbers}, {3 << 5 | 9})

    def test_both_are_decoded(self):
        before_ms = self.server.call("get_timestamp")
        texts = self.ask("ulid", "-n", 2).split() + self.ask("uuid", "-n", 2).split()
        after_ms = self.server.call("get_timestamp")
        found = json.loads(self.ask("decode", "--json", *texts))
        self.assertEqual([one.get("ulid", one.get("uuid")) for one in found], texts)
        for one in found:
            self.assertTrue(before_ms - 1000 <= one["timestamp_ms"] <= after_ms + 1000, one)
        for one in found[2:]:
            self.assertEqual((one["datacenter_id"], one["worker_id"]), (3, 9))

    def test_what_the_server_refuses(self):
        host, port = self.server.address
        for command in ("ulid", "uuid"):
            done = run("--json", "--server", f"{host}:{port}", command, "--agent", "1a")
            self.assert_fails(done, 1, "InvalidUserAgentError")
            self.assertEqual(json.loads(done.stdout)["kind"], "invalid_argument")


class OfAnotherLayout(ServerTest, CtlTest):
    def test_uuids_are_refused(self):
        host, port = self.start("--layout", "js-safe").address
        done = run("--json", "--server", f"{host}:{port}", "uuid")
        self.assert_fails(done, 1, "UnsupportedLayout", "--layout twitter")
        self.assertEqual(json.loads(done.stdout)["kind"], "unsupported")
        self.assertRegex(self.assert_ok(run("--server", f"{host}:{port}", "ulid")), ULID)


class Converting(CtlTest):
    def convert(self, *arguments):
        return self.assert_ok(run("convert", *arguments)).split()

    def test_there_and_back(self):
        rng = random.Random(9562)
        numbers = [0, 1, OF_ID, LAST_ID, *(rng.getrandbits(63) for _ in range(scaled(1000, 50)))]
        uuids = self.convert(*numbers)
        self.assertEqual(list(map(int, self.convert(*uuids))), numbers)
        self.assertEqual(list(map(int, self.convert(*map(str.upper, uuids)))), numbers)
        for number, text in zip(numbers, uuids):
            parsed = uuid.UUID(text)  # compare with Python's parser
            self.assertEqual((parsed.version, parsed.variant), (7, uuid.RFC_4122))
            self.assertEqual(parsed.int >> 80, (number >> 22) + EPOCH_MS)
        self.assertEqual([text for _, text in sorted(zip(numbers, uuids))], sorted(uuids))

    def test_another_uuid_each_time(self):
        """Each UUID has the same range, with which databases find it."""
        uuids = self.convert(*[OF_ID] * 1000)
        self.assertEqual(len(set(uuids)), 1000)
        self.assertEqual({text.replace("-", "")[:19] for text in uuids},
                         {UUID_OF_IT.replace("-", "")[:19]})

    def test_forms(self):
        self.assertEqual(self.convert(UUID_OF_IT), [str(OF_ID)])
        self.assertEqual(self.convert(self.convert(hex(OF_ID))[0]), [str(OF_ID)])
        self.assertEqual(json.loads(self.assert_ok(run("--json", "convert", UUID_OF_IT))),
                         [str(OF_ID)])

    def test_refusals(self):
        cases = (
            ("", "is neither a UUID nor a decimal ID"),
            ("abc", "is neither a UUID nor a decimal ID"),
            ("-1", "unknown option"),
            (str(2**63), "is above 9223372036854775807"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "is neither a UUID nor a decimal ID"),
            (UUID_OF_IT[:-1] + "g", "not a UUID"),
            (UUID_OF_IT.replace("-7", "-4"), "version 7"),
            (UUID_OF_IT.replace("-8", "-c"), "version 7"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "version 1"),
            (uuid7(EPOCH_MS - 1), "outside the layout's range"),
            (uuid7(EPOCH_MS + 2**41), "outside the layout's range"),
        )
        for text, words in cases:
            with self.subTest(text):
                done = run("convert", text)
                self.assert_fails(done, 2 if text == "-1" else 1, words)
                self.assertEqual(done.stdout, "")
        self.assert_fails(run("convert"), 2, "convert takes a UUID or an ID")

    def test_the_good_ones_among_bad_ones(self):
        done = run("convert", "abc", UUID_OF_IT)
        self.assert_fails(done, 1, "abc")
        self.assertEqual(done.stdout, f"{OF_ID}\n")


class Decoding(CtlTest):
    def test_the_text(self):
        output = self.assert_ok(run("decode", "01arz3ndektsv4rrffq69g5fav", UUID_OF_IT,
                                    "ffffffff-ffff-7fff-bfff-ffffffffffff"))
        self.assertEqual(output.splitlines(), [
            "ulid                        time (UTC)                random",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV  2016-07-30T23:54:10.259Z  d6764c61efb99302bd5b",
            "uuid                                  time (UTC)                       made from id  "
            "datacenter  worker  sequence",
            f"{UUID_OF_IT}  2026-11-21T12:00:00.000Z  {OF_ID}           0       0         0",
            "ffffffff-ffff-7fff-bfff-ffffffffffff  -                                           -  "
            "         -       -         -"])

    def test_the_json(self):
        found = json.loads(self.assert_ok(run(
            "decode", "--json", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0" * 26, UUID_OF_IT, "5",
            "00000000-0000-7000-8000-000000000000")))
        self.assertEqual(found[:2], [
            {"ulid": "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "timestamp_ms": 2**48 - 1, "time": None,
             "random": "f" * 20},
            {"ulid": "0" * 26, "timestamp_ms": 0, "time": "1970-01-01T00:00:00.000Z",
             "random": "0" * 20}])
        self.assertEqual(found[2], {
            "uuid": UUID_OF_IT, "timestamp_ms": 1795262400000, "time": "2026-11-21T12:00:00.000Z",
            "id": str(OF_ID), "datacenter_id": 0, "worker_id": 0, "sequence": 0})
        self.assertEqual(found[3]["id"], "5")
        self.assertIsNone(found[4]["id"])

    def test_rejects(self):
        cases = (
            ("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "is not a ULID"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAI", "is not a ULID"),
            (UUID_OF_IT.replace("-", "_"), "not a UUID"),
            ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "version 4"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FA", "is not a decimal number"),
        )
        for text, words in cases:
            with self.subTest(text):
                self.assert_fails(run("decode", text), 1, words)
        self.assert_fails(run("decode", "--from", "hex", UUID_OF_IT), 1, "not an ID in hex")
