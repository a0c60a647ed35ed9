#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the integration tests: run.py [--build DIR] [PATTERN...]

With patterns, only tests whose name (test_wire.Forms.test_every_form) contains one of them. A line
a test, then what failed, then the line "integration: N passed, N failed, N skipped". Ends with
status 1 if a test failed, or if none ran.
"""
import argparse
import os
import pathlib
import sys
import threading
import time
import unittest


class LineResult(unittest.TestResult):
    """Says what runs and how it went."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.problems = []
        self.thread_errors = []
        threading.excepthook = self._thread_ended

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        self.verdict = "ok"

    def stopTest(self, test):
        super().stopTest(test)
        while self.thread_errors:
            self._problem(test, self.thread_errors.pop())
        if self.verdict == "ok":
            self.passed += 1
        print(f"{self.verdict:6} {test.id()} ({time.monotonic() - self.began:.1f} s)", flush=True)

    def addSuccess(self, test):
        pass

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.verdict = f"skip, {reason}:"

    def addFailure(self, test, err):
        self._problem(test, err)

    def addError(self, test, err):
        self._problem(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._problem(subtest, err)

    def _thread_ended(self, how):
        """By an exception: a check that is made in a thread counts like any other."""
        self.thread_errors.append((how.exc_type, how.exc_value, how.exc_traceback))

    def _problem(self, test, err):
        self.verdict = "FAILED"
        text = f"FAILED {test.id()}\n{self._exc_info_to_string(err, test)}"
        self.problems.append((test.id(), text))
        print(text, flush=True)


def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="the build directory")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    arguments = parser.parse_args()
    if arguments.build:
        os.environ["SNOWFLAKE_BUILD"] = arguments.build

    import harness  # not before the build directory is known
    if not harness.ELSEWHERE and not harness.SNOWFLAKED.exists():
        parser.error(f"{harness.SNOWFLAKED} is missing: build it, or name the --build directory")
    here = pathlib.Path(__file__).resolve().parent
    every = tests_in(unittest.defaultTestLoader.discover(str(here)))
    suite = unittest.TestSuite(
        test for test in every
        if not arguments.patterns or any(pattern in test.id() for pattern in arguments.patterns))
    result = LineResult()
    suite.run(result)

    failed = len({name for name, _ in result.problems})
    print(f"integration: {result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed or result.passed + len(result.skipped) == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
