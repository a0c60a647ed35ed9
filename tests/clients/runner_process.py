# SPDX-License-Identifier: Apache-2.0
"""A process of a runner: commands go in and answers come out, a JSON object a line each. It is
wrong if it says anything else, or ends with another status than 0."""
import json
import os
import queue
import subprocess
import threading

from harness import ENVIRONMENT, PACE

ANSWER_LIMIT_S = 60
END_LIMIT_S = 15  # a look-up of a name may be under way that nothing can stop
STRETCH_MOST = 4  # more would only make a busy machine wait


class Wrong(Exception):
    """What a client or its runner does is not what it should."""

    @classmethod
    def of(cls, error, told):
        """As grave as the error."""
        return (type(error) if isinstance(error, Wrong) else Wrong)(told)


class WrongIds(Wrong):
    """The IDs themselves are, which no slow machine excuses."""


def stretch():
    """What times are multiplied with, which are meant for an idle machine."""
    return min(PACE.patience(), STRETCH_MOST)


class RunnerProcess:
    def __init__(self, command, environment, wrapper=()):
        self.command = [*map(str, wrapper), *map(str, command)]
        self._answers = queue.SimpleQueue()
        self._complaints = ""
        self._process = subprocess.Popen(
            self.command, cwd="/", text=True, errors="replace", stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                 "HOME": os.environ.get("HOME", "/"), **environment})
        self._readers = [threading.Thread(target=read, daemon=True)
                         for read in (self._read_answers, self._read_complaints)]
        for reader in self._readers:
            reader.start()

    def _read_answers(self):
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _read_complaints(self):
        self._complaints = self._process.stderr.read()

    def send(self, **command):
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Wrong(f"it takes no command: {error}{self._say()}") from None

    def has_answered(self):
        return not self._answers.empty()

    def answer(self, limit_s=ANSWER_LIMIT_S):
        limit_s *= stretch()
        try:
            line = self._answers.get(timeout=limit_s)
        except queue.Empty:
            raise Wrong(f"no answer within {limit_s} s{self._say()}") from None
        if line is None:
            self._process.wait(END_LIMIT_S * PACE.patience())
            raise Wrong(f"it ended, with status {self._process.returncode}{self._say()}")
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

    def _say(self):
        return f"\n{self._complaints.rstrip()}" if self._complaints else ""

    def finish(self):
        """What was wrong with its end, or None."""
        limit_s = END_LIMIT_S * PACE.patience()
        try:
            self._process.stdin.close()
            status = self._process.wait(limit_s)
        except BrokenPipeError:
            status = self._process.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            return f"it does not end within {limit_s} s of its standard input's end"
        for reader in self._readers:
            reader.join(limit_s)
        if status != 0:
            return f"it ended with status {status}{self._say()}"
        if self._complaints:
            return f"standard error is to be empty:{self._say()}"
        if self._answers.get() is not None:
            return "it answered more often than it was asked"
        return None

    def kill(self):
        """Whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
