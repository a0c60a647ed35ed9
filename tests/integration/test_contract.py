# SPDX-License-Identifier: Apache-2.0
"""The contract: every generator accepts it, and the original part is unchanged."""
import re
import subprocess
import tempfile
import unittest

from bindings import IDL, IDL_2010, current

GENERATORS = ("c_glib", "cpp", "go", "java", "js", "js:node", "perl", "php", "py", "rb", "rs")


def definitions(idl):
    """Returns {name: text} for the definitions in the file, without comments and spaces."""
    text = re.sub(r"/\*.*?\*/", "", idl.read_text(), flags=re.DOTALL)
    found = re.findall(r"(?:exception|struct|service) (\w+)([^{}]*\{[^{}]*\})", text)
    return {name: re.sub(r"\s+", " ", body) for name, body in found}


class Contract(unittest.TestCase):
    def test_every_generator_takes_it(self):
        for generator in GENERATORS:
            with self.subTest(generator), tempfile.TemporaryDirectory() as directory:
                done = subprocess.run(["thrift", "--strict", "--gen", generator, "-out", directory,
                                       IDL], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_the_part_of_2010_is_as_it_was(self):
        ours = definitions(IDL)
        original = definitions(IDL_2010)
        self.assertEqual(set(original), {"InvalidSystemClock", "InvalidUserAgentError",
                                         "AuditLogEntry", "Snowflake"})
        for name, text in original.items():
            with self.subTest(name):
                self.assertEqual(ours[name], text)

    def test_the_calls_of_2010_declare_no_exceptions(self):
        """Clients in Go and C would take a declared exception for a success, and return ID 0."""
        for call in ("get_worker_id", "get_timestamp", "get_id", "get_datacenter_id"):
            result = getattr(current.Snowflake, f"{call}_result")
            self.assertEqual([field[2] for field in result.thrift_spec if field], ["success"])

    def test_the_calls_since_then(self):
        """Arguments and results by field ID, which must never change."""
        calls = {"get_ids": ((1, 2), (0, 1, 2, 3, 4)), "get_worker": ((), (0,)),
                 "get_id_runs": ((1, 2), (0, 1, 2, 3, 4)),
                 "get_workers": ((), (0, 1)), "get_counters": ((), (0,)),
                 "get_ulids": ((1, 2), (0, 1, 2, 3, 4)),
                 "get_uuids": ((1, 2), (0, 1, 2, 3, 4, 5))}
        for call, numbers in calls.items():
            with self.subTest(call):
                found = tuple(
                    tuple(field[0] for field in getattr(current.SnowflakeExtended, name).thrift_spec
                          if field) for name in (f"{call}_args", f"{call}_result"))
                self.assertEqual(found, numbers)
