# SPDX-License-Identifier: Apache-2.0
"""The default port of servers."""
import fcntl
import os
import pathlib
import tempfile

PORT = 7609


def borrow(test):
    """Waits until the test may use the default port until its end. Of all tests of this user, only
    one at a time may."""
    path = pathlib.Path(tempfile.gettempdir()) / f"snowflake-test-{os.geteuid()}-{PORT}.lock"
    lock = open(path, "w", encoding="utf-8")
    test.addCleanup(lock.close)
    fcntl.flock(lock, fcntl.LOCK_EX)
