# SPDX-License-Identifier: Apache-2.0
"""snowflakectl with ULIDs and UUIDs: printing and decoding."""
import json
import re
import uuid

from ctl import CtlTest, run
from harness import ServerTest, SharedServerTest

ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
OF_ID = 2124110575825846272
UUID_OF_IT = "01a1fdfa-4600-7000-8005-55d780452831"


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
            uuids = self.ask("uuid", "-n", 3).split()
            numbers += [int(one["id"]) for one in json.loads(self.ask("decode", "--json", *uuids))]
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
