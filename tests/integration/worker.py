# SPDX-License-Identifier: Apache-2.0
"""A process of run.py, which runs tests and reports their results.

A line of standard input is a JSON list of names of tests, all of one class. Each line of standard
output is a JSON object: {"problem", "text"} for a failure, with the name of the test, or of
setUpClass() or a similar function; {"test", "verdict", "seconds", "cpu"} for a finished test;
{"end", "cpu"} at the end of the list. Output of the tests goes to standard error.

"cpu" is CPU time in seconds since the previous test. It includes ended processes of the test;
processes that a class shares are included at its end.
"""
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
import unittest

import thread_errors


class Cpu:
    def __init__(self):
        self._had = 0
        self.take()

    def take(self):
        """Returns the CPU seconds since the last call."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        before, self._had = self._had, sum(one.ru_utime + one.ru_stime for one in used)
        return self._had - before


class Result(unittest.TestResult):
    """Reports the result of each test. An exception in a thread is a problem of the running test,
    or of the earlier one in which the thread was started."""

    def __init__(self, tell, cpu):
        super().__init__()
        self.tell = tell
        self.cpu = cpu
        self._failed = set()
        self._skip = None
        self._running = "no test yet"
        self._outlived = {}  # {thread: the first test that ended before it}
        self._thread_errors = []
        thread_errors.watch(lambda *error: self._thread_errors.append(error))

    def startTest(self, test):
        super().startTest(test)
        self.tell_thread_errors()
        self._running = test.id()
        self._skip = None
        self._began = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.tell_thread_errors()
        self._outlived = {thread: self._outlived.get(thread, test.id())
                          for thread in threading.enumerate()
                          if thread is not threading.main_thread()}
        verdict = "FAILED" if test.id() in self._failed else self._skip or "ok"
        self.tell(test=test.id(), verdict=verdict, seconds=time.monotonic() - self._began,
                  cpu=self.cpu.take())

    def tell_thread_errors(self):
        while self._thread_errors:
            thread, error = self._thread_errors.pop(0)
            text = "".join(traceback.format_exception(*error))
            self._problem(self._outlived.get(thread, self._running), f"in {thread.name}: {text}")

    def addSuccess(self, test):
        pass

    def addSkip(self, test, reason):
        self._skip = f"skip, {reason}:"
        if not isinstance(test, unittest.TestCase):  # setUpClass()
            self.tell(test=test.id(), verdict=self._skip, seconds=0, cpu=0)

    def addFailure(self, test, err):
        self.addError(test, err)

    def addError(self, test, err):
        self._problem(test.id(), self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._problem(test.id(), f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def _problem(self, name, text):
        self._failed.add(name)
        self.tell(problem=name, text=text)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**what):
        print(json.dumps(what), file=answers, flush=True)

    cpu = Cpu()
    result = Result(tell, cpu)
    for line in sys.stdin:
        unittest.defaultTestLoader.loadTestsFromNames(json.loads(line)).run(result)
        gc.collect()  # a failed asyncio task reports its exception when it is collected
        result.tell_thread_errors()
        tell(end=True, cpu=cpu.take())
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()  # run.py limits this wait
    result.tell_thread_errors()


if __name__ == "__main__":
    main()
