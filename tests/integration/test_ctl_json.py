# SPDX-License-Identifier: Apache-2.0
"""What scripts read from snowflakectl --json when something fails: JSON all the same."""
import json

from ctl import CtlTest, run
from fake_servers import Extended, Of2010, hanging, serve, serve_2010
from harness import dead_address


class Failures(CtlTest):
    def assert_error(self, arguments, status, kind, **members):
        """@kind: a regular expression"""
        done = run("--json", *arguments)
        self.assert_fails(done, status)
        message = done.stderr.strip().removeprefix("snowflakectl: ")
        error = json.loads(done.stdout)
        self.assertRegex(error.pop("kind"), f"^({kind})$")
        self.assertEqual(error, {"error": message, **members})

    def test_an_object_in_place_of_what_there_is_none_of(self):
        dead = dead_address(self)
        cases = (
            (("id", "--server", dead), 1, "unreachable"),
            (("id", "--server", hanging(self)[1], "--timeout", 300), 1, "timeout"),
            (("id", "--server", serve(Extended()), "--agent", "a" * 257), 1, "invalid_argument"),
            (("id", "--server", serve_2010(Of2010(first=0))), 1, "protocol"),
            (("workers", "--zookeeper", dead, "--timeout", 300), 1, "unreachable"),
            (("workers", "--server", dead), 1, "unreachable"),
            (("workers", "--server", hanging(self)[1], "--timeout", 300), 1, "timeout"),
            (("registry", "quarantine", "--yes", "--zookeeper", dead, "--timeout", 300), 1,
             "unreachable"),
            (("bench", "--server", dead, "--duration", 0.1, "--warmup", 0), 1, "unreachable"),
            (("decode", "abc"), 1, "failed"),
            (("decode", "\u202e\x1b\xff"), 1, "failed"),
            ((), 2, "usage"),
            (("nonsense",), 2, "usage"),
            (("id", "--nonsense"), 2, "usage"),
            (("--nonsense", "id"), 2, "usage"),
            (("id", "-n"), 2, "usage"),
            (("id", "-n", 0), 2, "usage"),
            (("id", "extra\x1b"), 2, "usage"),
            (("id", "--server", ""), 2, "usage"),
            (("ping", "--server", "a:b"), 2, "usage"),
            (("bench", "--count", 0), 2, "usage"),
            (("workers", "--reservations"), 2, "usage"),
            (("registry",), 2, "usage"),
            (("help", "nonsense"), 2, "usage"),
        )
        for arguments, status, kind in cases:
            with self.subTest(arguments):
                self.assert_error(arguments, status, kind)

    def test_when_to_ask_again(self):
        self.assert_error(("id", "--server", serve(Extended()), "--agent", "refused"), 1,
                          "unavailable", retry_after_ms=250)

    def test_an_option_that_is_none(self):
        """Behind -- it is an argument."""
        done = run("--nonsense", "--", "--json")
        self.assert_fails(done, 2, "--nonsense")
        self.assertEqual(done.stdout, "")

    def test_an_array_that_was_begun(self):
        class Ending(Extended):
            def get_ids(self, useragent, count):
                return super().get_ids("refused" if self.next > 1 else useragent, count)

        done = run("--json", "id", "-n", 1001, "--server", serve(Ending()))
        self.assert_fails(done, 1, "WorkerIdUnavailable")
        self.assertEqual(json.loads(done.stdout), [str(i) for i in range(1, 1001)])

    def test_nothing_that_failed(self):
        for arguments, output in ((("decode",), []), (("decode", "5"), ["5"])):
            found = json.loads(self.assert_ok(run("--json", *arguments)))
            self.assertEqual([entry["id"] for entry in found], output)

    def test_the_first_of_many(self):
        """Of what is said on standard error, the object has one line."""
        done = run("--json", "decode", "abc", "def")
        self.assertEqual(len(done.stderr.splitlines()), 2)
        self.assertTrue(json.loads(done.stdout)["error"].startswith('"abc" is '))
