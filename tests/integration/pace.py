# SPDX-License-Identifier: Apache-2.0
"""How slow the machine is, for limits that hold on a busy one.

Limits are meant for an idle machine and multiplied with `patience()`. It is measured at the start;
and again whenever a limit is about to fail a test, for the machine may have become busier since.

  SNOWFLAKE_PATIENCE  how many times slower than idle the machine is taken for, instead of the
                      measurement at the start
"""
import math
import os
import time

MOST = 30
STEPS = 8000000
IDLE_S = 0.1  # twice what they take on an idle machine: an old one is not busy yet


def _measure():
    """By a fixed piece of work, longer than what a scheduler gives at a time."""
    began = time.monotonic()
    sum(range(STEPS))
    return min(MOST, math.ceil((time.monotonic() - began) / IDLE_S))


class Pace:
    """`factor` is for a build that is slow by itself."""

    def __init__(self, factor):
        self._factor = factor
        self._slowness = int(os.environ.get("SNOWFLAKE_PATIENCE", 0)) or _measure()

    def patience(self):
        return self._slowness * self._factor

    def look_again(self):
        self._slowness = max(self._slowness, _measure())

    def is_over(self, began, limit):
        """Whether more than `limit` idle seconds have passed since `began`."""
        took = time.monotonic() - began
        if took > limit * self.patience():
            self.look_again()
        return took > limit * self.patience()
