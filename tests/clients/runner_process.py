# SPDX-License-Identifier: Apache-2.0
"""A process of a runner, which reads commands and prints answers, one JSON object per line. It
fails if it prints anything else, or if its exit status is not 0."""
import json
import os
import queue
import subprocess
import threading
import time

from harness import ENVIRONMENT

HANG_S = 120  # ends a wait for an event that never comes; does not judge speed


class Wrong(Exception):
    """A client or its runner has failed a check."""


def wait_until(condition, what, look_every_s=0.005):
    """Polls until condition() is true."""
    ends_at = time.monotonic() + HANG_S
    while not condition():
        if time.monotonic() > ends_at:
            raise Wrong(f"not within {HANG_S} s: {what}")
        time.sleep(look_every_s)  # lint: allow sleep: between two polls


class RunnerProcess:
    """`names` are the names that it can resolve (places.Names), or None. It must answer each
    command within `limit_s`."""

    def __init__(self, command, names=None, limit_s=HANG_S):
        self.names = names
        self._limit_s = limit_s
        self._answers = queue.SimpleQueue()
        self._complaints = ""
        self._process = subprocess.Popen(
            [*(names.wrapper() if names else ()), *map(str, command)], cwd="/", text=True,
            errors="replace", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                 "HOME": os.environ.get("HOME", "/")})
        self._readers = [threading.Thread(target=read, daemon=True)
                         for read in (self._read_answers, self._read_complaints)]
        for reader in self._readers:
            reader.start()

    def _read_answers(self):
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _read_complaints(self):
        for line in self._process.stderr:
            self._complaints += line

    def send(self, **command):
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Wrong(f"it takes no command: {error}{self._printed()}") from None

    def has_answered(self):
        return not self._answers.empty()

    def answer(self):
        try:
            line = self._answers.get(timeout=self._limit_s)
        except queue.Empty:
            raise Wrong(f"no answer within {self._limit_s} s{self._printed()}") from None
        if line is None:
            self._process.wait()
            raise Wrong(f"it ended, with status {self._process.returncode}{self._printed()}")
        try:
            answer = json.loads(line)
        except ValueError:
            raise Wrong(f"not a line of JSON: {line[:200]!r}") from None
        if not isinstance(answer, dict):
            raise Wrong(f"not a JSON object: {line[:200]!r}")
        return answer

    def ask(self, **command):
        self.send(**command)
        return self.answer()

    def _printed(self):
        return f"\n{self._complaints.rstrip()}" if self._complaints else ""

    def check_quiet(self):
        """Fails if it printed anything but its answers."""
        if self._complaints:
            raise Wrong(f"standard error must be empty:{self._printed()}")
        if self.has_answered():
            raise Wrong("it answered more often than it was asked")

    def finish(self):
        """Ends its input, and checks how the process ends."""
        try:
            self._process.stdin.close()
            status = self._process.wait(self._limit_s)
        except BrokenPipeError:
            status = self._process.wait()
        except subprocess.TimeoutExpired:
            raise Wrong(f"it does not end within {self._limit_s} s of the end of its "
                        "standard input") from None
        finally:
            self.kill()
        for reader in self._readers:
            reader.join()
        if status != 0:
            raise Wrong(f"it ended with status {status}{self._printed()}")
        if self._answers.get() is not None:
            raise Wrong("it answered more often than it was asked")
        self.check_quiet()

    def kill(self):
        """Ends the process whatever it does, and its name server."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self.names:
            self.names.close()
