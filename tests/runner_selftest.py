# SPDX-License-Identifier: Apache-2.0
"""Tests that a step fails if it ends badly or has no tests, with fake steps and fake integration
tests."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from runner import CHAOS, COMPUTES, WAITS, Runner, Step, check, meson, suite

INTEGRATION = pathlib.Path(__file__).resolve().parent / "integration"
sys.path.append(str(INTEGRATION))
HANG_GUARD_S = 300
FOR_EVER = "exec tail -f /dev/null"


class SelfTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.said = []

    def step(self, name, script, count=check, lane=COMPUTES, needs=()):
        return Step(name, (), lane, needs, ("sh", "-c", script), count)

    def run_steps(self, *steps):
        return Runner(steps, self.directory, self.said.append).run()

    def wait_ended(self, pid):
        deadline = time.monotonic() + HANG_GUARD_S
        while self.runs(pid):
            self.assertLess(time.monotonic(), deadline)
            threading.Event().wait(0.005)

    @staticmethod
    def runs(pid):
        """Whether the process still runs. A zombie does not count, because init may reap it
        late."""
        try:
            status = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return False
        return status.rpartition(")")[2].split()[0] != "Z"


class TimerByEvents(threading.Thread):
    """The timers of a step. The first expires when the step hangs. The second expires after it, and
    kills the step."""

    @classmethod
    def begin(cls, hangs, kills):
        cls.hangs, cls.kills, cls.told = staticmethod(hangs), kills, threading.Event()

    def __init__(self, _, signals, arguments):
        super().__init__(daemon=True)
        self.signals, self.arguments = signals, arguments

    def run(self):
        if self.arguments[1] == signal.SIGKILL:
            if self.kills and self.told.wait(HANG_GUARD_S):
                self.signals(*self.arguments)
            return
        while not self.hangs():
            threading.Event().wait(0.005)
        self.signals(*self.arguments)
        self.told.set()

    def cancel(self):
        pass


class Steps(SelfTest):
    def test_suites(self):
        """Table: script; passed, failed, skipped."""
        for script, expected in (
                ("echo s: 2 passed, 0 failed", (2, 0, 0)),
                ("echo s: 2 passed, 0 failed, 3 skipped", (2, 0, 3)),
                ("echo s: 0 passed, 0 failed, 3 skipped", (0, 0, 3)),
                ("echo s: 2 passed, 1 failed; exit 1", (2, 1, 0)),
                ("echo s: 2 passed, 1 failed", (2, 1, 0)),
                ("echo s: 2 passed, 0 failed; exit 1", (2, 1, 0)),
                ("echo s: 2 passed, 0 failed; kill -9 $$", (2, 1, 0)),
                ("echo s: 0 passed, 0 failed", (0, 1, 0)),
                ("echo s: 1 passed, 0 failed; echo s: 1 passed, 0 failed", (0, 1, 0)),
                ("echo another: 2 passed, 0 failed", (0, 1, 0)),
                ("true", (0, 1, 0)),
                ("exit 2", (0, 1, 0)),
                ("exec /no/such/program", (0, 1, 0))):
            with self.subTest(script):
                numbers = self.run_steps(self.step("it", script, suite("s")))
                self.assertEqual(numbers[:3], expected, self.said)

    def test_checks(self):
        for script, expected in (("true", (1, 0, 0)), ("exit 1", (0, 1, 0)),
                                 ("kill -9 $$", (0, 1, 0))):
            with self.subTest(script):
                self.assertEqual(self.run_steps(self.step("it", script))[:3], expected)

    def test_a_step_that_hangs(self):
        """A hanging step is terminated with its children, and killed if it does not end; its later
        output does not count. The next step runs."""
        log = self.directory / "hangs.log"
        for trap, script in (("", FOR_EVER), ("", f"{FOR_EVER} | cat"), ("trap '' TERM;", FOR_EVER),
                             ("trap 'exit 0' TERM;", "tail -f /dev/null & wait")):
            log.write_text("")
            with self.subTest(script), unittest.mock.patch("runner.threading.Timer", TimerByEvents):
                TimerByEvents.begin(lambda: "\n" in log.read_text(), kills="''" in trap)
                hangs = self.step("hangs", f"{trap} echo $$; {script}")._replace(limit_s=1e-6)
                numbers = self.run_steps(hangs, self.step("it", "true")._replace(limit_s=0))
                self.assertEqual(numbers[:2], (1 + ("exit 0" in trap), 1))
                self.assertIn("    it did not end within 1e-06 s", self.said)
                self.wait_ended(log.read_text().split()[0])

    def test_tests_of_meson(self):
        """Table: exit status, result and output of each program; passed, failed, skipped."""
        for status, programs, expected in (
                (0, [("OK", "1..2\nok 1 a\nok 2 b")], (2, 0, 0)),
                (0, [("OK", "")], (1, 0, 0)),
                (0, [("OK", "1..2\nok 1 a\nok 2 b # SKIP c")], (1, 0, 1)),
                (0, [("OK", "1..1\nok 1 a # SKIP c")], (0, 0, 1)),
                (0, [("SKIP", "")], (0, 0, 1)),
                (1, [("FAIL", "1..1\nok 1 a"), ("OK", "")], (2, 1, 0)),
                (1, [("FAIL", "1..2\nnot ok 1 a\nnot ok 2 b")], (0, 2, 0)),
                (1, [("OK", "")], (1, 1, 0)),
                (0, [("OK", ""), ("OK", "1..0")], (1, 1, 0)),
                (0, [], (0, 1, 0)),
                (1, None, (0, 1, 0))):
            with self.subTest(status=status, programs=programs):
                log = self.directory / "meson-logs" / "testlog.json"
                log.parent.mkdir(exist_ok=True)
                log.unlink(missing_ok=True)
                if programs is not None:
                    log.write_text("".join(json.dumps({"result": result, "stdout": text}) + "\n"
                                           for result, text in programs))
                numbers = self.run_steps(self.step("it", f"exit {status}", meson(self.directory)))
                self.assertEqual(numbers[:3], expected, self.said)

    def test_what_meson_cannot_read(self):
        """A program printed bytes that are not text, which meson accepts."""
        log = self.directory / "meson-logs" / "testlog.json"
        log.parent.mkdir()
        log.write_text(json.dumps({"result": "OK", "stdout": "1..1\nok 1 a"}))
        numbers = self.run_steps(self.step(
            "it", "echo ERROR: Unknown TAP output lines for a supported TAP version.",
            meson(self.directory)))
        self.assertEqual(numbers[:3], (1, 1, 0))
        self.assertIn("    Unknown TAP output, 1 in all", self.said)

    def test_what_is_needed_comes_first_and_must_have_passed(self):
        mark = self.directory / "mark"
        numbers = self.run_steps(
            self.step("needs", f"[ -e {mark} ]", lane=WAITS, needs=("makes",)),
            self.step("makes", f"touch {mark}"),
            self.step("needs too", "true", lane=CHAOS, needs=("fails",)),
            self.step("fails", "false"))
        self.assertEqual(numbers[:3], (2, 2, 0), self.said)
        self.assertIn("    not run, because of fails", self.said)

    def test_a_step_whose_numbers_cannot_be_had(self):
        def count(status, log):
            raise ValueError(log)

        with self.assertRaises(ValueError):
            self.run_steps(self.step("it", "true", count),
                           self.step("waits", "true", lane=WAITS, needs=("it",)))

    def test_what_is_stopped_leaves_nothing_behind(self):
        """A stopped run is not a success, and leaves no processes. Reaped processes are not
        signalled."""
        pids = self.directory / "pids"
        os.mkfifo(pids)
        runner = Runner([self.step("over", "true"),
                         self.step("child", f"tail -f /dev/null & echo $! >{pids}; {FOR_EVER}"),
                         self.step("never", "true")], self.directory, self.said.append)
        thread = threading.Thread(target=lambda: setattr(self, "numbers", runner.run()))
        thread.start()
        child = int(pids.read_text())
        self.assertEqual(len(runner.pids), 1)
        runner.stop()
        thread.join(HANG_GUARD_S)
        self.assertFalse(self.numbers.well)
        self.assertIn("never", self.numbers.why)
        self.wait_ended(child)


MODULE = '''
import asyncio
import os
import subprocess
import threading
import unittest


class Good(unittest.TestCase):
    def test_good(self):
        pass

    def test_skipped(self):
        self.skipTest("why")


class Bad(unittest.TestCase):
    def test_subtests(self):
        for number in range(3):
            with self.subTest(number):
                self.assertEqual(number, 0)


class Nothing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError("nothing to run on")

    def test_never(self):
        pass


class Killed(unittest.TestCase):
    def test_killed(self):
        left = subprocess.Popen(["tail", "-f", "/dev/null"])
        with open("left", "w") as file:
            file.write(str(left.pid))
        print("integration: 9 passed, 0 failed")
        os.kill(os.getpid(), 9)


class Ended(unittest.TestCase):
    def test_ended(self):
        os._exit(0)


class Threads(unittest.TestCase):
    def test_thread(self):
        thread = threading.Thread(target=self.fail)
        thread.start()
        thread.join()


class Outlived(unittest.TestCase):
    gate = threading.Event()

    def test_1(self):
        threading.Thread(target=lambda: self.gate.wait() and self.fail("late")).start()

    def test_2(self):
        self.gate.set()


class WhenAllIsOver(unittest.TestCase):
    def test_1(self):
        def fail():
            threading.Event().wait(0.5)  # for the end of the test
            self.fail("at the very end")

        threading.Thread(target=fail).start()


class Tasks(unittest.TestCase):
    def test_task(self):
        async def fail():
            self.fail()

        async def forget():
            asyncio.ensure_future(fail())
            await asyncio.sleep(0)
        asyncio.run(forget())
'''
LONG = '''
import unittest


class {}(unittest.TestCase):
    def test_long(self):
        pass
'''
HARNESS = '''
import pathlib
ELSEWHERE = None
SNOWFLAKED = pathlib.Path(__file__)
'''


class Integration(SelfTest):
    def setUp(self):
        super().setUp()
        import run  # import it when its path is known
        self.longest = run.LONGEST
        for name in ("run.py", "worker.py", "thread_errors.py"):
            shutil.copy(INTEGRATION / name, self.directory)
        (self.directory / "harness.py").write_text(HARNESS)
        (self.directory / "test_one.py").write_text(MODULE)
        for name in self.longest:
            module, _, class_name = name.partition(".")
            with open(self.directory / f"{module}.py", "a", encoding="utf-8") as file:
                file.write(LONG.format(class_name))

    def run_tests(self, *arguments):
        return subprocess.run([sys.executable, self.directory / "run.py", *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=HANG_GUARD_S, cwd=self.directory)

    def test_what_comes_of_tests(self):
        """Table: patterns; exit status and last line."""
        for patterns, status, summary in (
                (["one.Good"], 0, "1 passed, 0 failed, 1 skipped"),
                (["test_skipped"], 0, "0 passed, 0 failed, 1 skipped"),
                (["one.Good", "one.Bad"], 1, "1 passed, 1 failed, 1 skipped"),
                (["Nothing"], 1, "0 passed, 1 failed, 0 skipped"),
                (["Killed", "test_good"], 1, "1 passed, 1 failed, 0 skipped"),
                (["Ended"], 1, "0 passed, 1 failed, 0 skipped"),
                (["Threads"], 1, "0 passed, 1 failed, 0 skipped"),
                (["Outlived"], 1, "1 passed, 1 failed, 0 skipped"),
                (["WhenAllIsOver"], 1, "0 passed, 1 failed, 0 skipped"),
                (["Tasks"], 1, "0 passed, 1 failed, 0 skipped"),
                ([], 1, f"{len(self.longest) + 2} passed, 8 failed, 1 skipped")):
            for jobs in ("1",) if patterns else ("1", "3"):
                with self.subTest(patterns=patterns, jobs=jobs):
                    done = self.run_tests("--jobs", jobs, *patterns)
                    self.assertEqual(done.stdout.splitlines()[-1], f"integration: {summary}",
                                     done.stdout)
                    self.assertEqual(done.returncode, status, done.stdout)

    def test_what_a_process_that_died_has_left_ends(self):
        self.run_tests("Killed")
        self.wait_ended(int((self.directory / "left").read_text()))

    def test_a_thread_that_a_test_has_left_counts_for_that_test(self):
        done = self.run_tests("Outlived")
        self.assertIn("FAILED test_one.Outlived.test_1\n", done.stdout)
        self.assertRegex(done.stdout, r"ok +test_one.Outlived.test_2 ")

    def test_a_pattern_without_a_test(self):
        done = self.run_tests("Good", "Godo")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no test has Godo in its name", done.stdout)
        self.assertNotIn("integration: ", done.stdout)

    def test_a_pattern_is_refused_before_the_build(self):
        builds = self.directory / "builds"
        done = subprocess.run([INTEGRATION.parent / "run", "test_calls.Calls", "test_cals"],
                              text=True, env={**os.environ, "SNOWFLAKE_TEST_BUILDS": str(builds)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout),
                         (2, "tests/run: no test has test_cals in its name, see --help\n"))
        self.assertFalse(builds.exists())

    def test_a_module_that_is_broken(self):
        (self.directory / "test_two.py").write_text("import no_such_module\n")
        done = self.run_tests("Good")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no_such_module", done.stdout)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromName(__name__)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len({getattr(test, "test_case", test) for test, _ in result.failures + result.errors})
    print(f"runner: {result.testsRun - failed} passed, {failed} failed")
    return 0 if result.wasSuccessful() and result.testsRun else 1
