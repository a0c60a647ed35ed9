# SPDX-License-Identifier: Apache-2.0
"""A program with an embedded node (tests/embedded/drawer.c), with the interface of Server."""
import os
import threading
from typing import NamedTuple

from harness import BUILD, Server

DRAWER = BUILD / "tests" / "embedded" / "drawer"
PROGRAM = "shop"
HOST = os.uname().nodename

INVALID_ARGUMENT, FAILED, UNAVAILABLE, CLOCK, FORKED = range(5)
REASONS = ("invalid argument", "failed", "unavailable", "clock", "forked")


class Refused(NamedTuple):
    code: int
    message: str

    def __str__(self):
        return f"embedded node {REASONS[self.code]}: {self.message}"


class Answer(NamedTuple):
    numbers: list  # the IDs in the order in which they were drawn
    refused: Refused
    child: Refused
    status: int


class Node(Server):
    """A process of the program. `options`: as for snowflaked: "--name", value, ..."""

    def __init__(self, *options, name=PROGRAM, start_timeout_ms=20000, **settings):
        names, values = options[::2], options[1::2]
        super().__init__(name, start_timeout_ms, *(f"{name.removeprefix('--')}={value}"
                                    for name, value in zip(names, values, strict=True)),
                         listen=None, program=DRAWER, pipes=True, **settings)
        self._lock = threading.Lock()

    def draw(self, count):
        return self._tell(f"draw {count}")

    def fork(self, count):
        return self._tell(f"fork {count}")

    def next(self):
        """Returns the next ID, or raises an error with the reason."""
        answer = self.draw(1)
        if answer.refused:
            raise AssertionError(answer.refused.message)
        return answer.numbers[0]

    def _tell(self, command):
        """Sends a command. Raises OSError if the process ends meanwhile."""
        numbers, refused = [], {"refused": None, "child": None}
        with self._lock:
            try:
                self.process.stdin.write(command + "\n")
                self.process.stdin.flush()
            except ValueError as error:  # closed
                raise OSError(str(error)) from None
            for line in self.process.stdout:
                what, _, rest = line.rstrip("\n").partition(" ")
                if what == "done":
                    return Answer(numbers, refused["refused"], refused["child"], int(rest))
                first, _, rest = rest.partition(" ")
                if what == "run":
                    numbers += range(int(first), int(first) + int(rest))
                else:
                    refused[what] = Refused(int(first), rest)
        raise OSError(f"the node's process {self.pid} has ended")
