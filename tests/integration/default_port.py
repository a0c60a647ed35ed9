# SPDX-License-Identifier: Apache-2.0
"""The port that a server takes which is told none."""
import fcntl
import os
import pathlib
import tempfile

PORT = 7609


def borrow(test):
    """Waits for the test's turn, which lasts until its end: of all that are run by this user, one
    at a time may have servers there."""
    path = pathlib.Path(tempfile.gettempdir()) / f"snowflake-test-{os.geteuid()}-{PORT}.lock"
    lock = open(path, "w", encoding="utf-8")
    test.addCleanup(lock.close)
    fcntl.flock(lock, fcntl.LOCK_EX)
