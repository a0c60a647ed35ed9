# SPDX-License-Identifier: Apache-2.0
"""A system clock that a test can step, with libfaketime. Like a real step, it does not change the
monotonic clocks. It does not work with sanitizers."""
import time

from harness import libfaketime


class FakeClock:
    """The offset of a server's system clock from the true time. Without the last variable of the
    environment, its waits would end at once."""

    def __init__(self, directory):
        self.path = directory / "faketime"
        self.offset_ms = 0
        self.step_ms(0)
        self.environment = {"LD_PRELOAD": libfaketime(), "FAKETIME_TIMESTAMP_FILE": str(self.path),
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1",
                            "FAKETIME_FORCE_MONOTONIC_FIX": "0"}

    def step_ms(self, by_ms):
        self.offset_ms += by_ms
        new = self.path.with_suffix(".new")
        new.write_text(f"{self.offset_ms / 1000:+.3f}\n")
        new.rename(self.path)

    def freeze(self):
        """Stops the clock. Returns the time that it shows from now on."""
        now_s = int(time.time())
        new = self.path.with_suffix(".new")
        new.write_text(time.strftime("%Y-%m-%d %H:%M:%S\n", time.gmtime(now_s)))
        new.rename(self.path)
        return now_s * 1000

    def now_ms(self):
        return time.time() * 1000 + self.offset_ms
