# SPDX-License-Identifier: Apache-2.0
"""A systemd-journald for a test, in a mount namespace with its own /run.

    journal = Journal()
    server = self.launch(..., wrapper=journal.wrapper())
    journal.entries(SNOWFLAKE_EVENT="ready")
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from harness import wait_for

JOURNALD = "/lib/systemd/systemd-journald"

MOUNT_AND_RUN = f"""
mount -t tmpfs tmpfs /run && mkdir -p /run/log/journal /run/systemd/journal && exec {JOURNALD}
"""

# Like systemd for a unit, makes standard error a stream to the journal, with this identifier, unit
# and level, with levels before lines, and not for syslog, kernel or console.
ON_STREAM = r"""
import os, socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect("/run/systemd/journal/stdout")
stream.sendall(b"of-the-stream\n\n6\n1\n0\n0\n0\n")
os.dup2(stream.fileno(), 2)
status = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
os.execvp(sys.argv[1], sys.argv[1:])
"""


def skip_unless_possible():
    """Skips the test without the necessary rights, which even root may lack in a container."""
    unshare = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    if os.geteuid() != 0 or subprocess.run(unshare, capture_output=True, check=False).returncode:
        raise unittest.SkipTest("needs root and a mount namespace, for a journal of its own")
    if not (os.access(JOURNALD, os.X_OK) and shutil.which("journalctl")):
        raise unittest.SkipTest("needs systemd's journald and journalctl")
    if not pathlib.Path("/etc/machine-id").exists():
        raise unittest.SkipTest("journald needs /etc/machine-id")


def as_text(value):
    """Converts a value: journalctl shows unprintable ones as lists of bytes."""
    return bytes(value).decode() if isinstance(value, list) else value


class Journal:
    def __init__(self):
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT_AND_RUN],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._run = pathlib.Path(f"/proc/{self.process.pid}/root/run")
        wait_for(lambda: (self._run / "systemd/journal/stdout").exists())

    def close(self):
        self.go_on()
        self.process.terminate()
        self.process.wait()

    def stop(self):
        """Stops the process (SIGSTOP), so that it accepts nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def wrapper(self, stream=False):
        """Returns the command that starts a process with this journal. stream: also for its
        standard error."""
        enter = ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", "--"]
        return [*enter, sys.executable, "-c", ON_STREAM] if stream else enter

    def entries(self, **fields):
        """Returns the entries with these fields, oldest first."""
        output = subprocess.run(
            ["journalctl", f"--directory={self._run}/log/journal", "--output=json", "--all",
             "--no-pager", "--quiet", *(f"{key}={value}" for key, value in fields.items())],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        return [{key: as_text(value) for key, value in json.loads(line).items()}
                for line in output.split("\n")[:-1]]

    def wait_entry(self, **fields):
        return wait_for(lambda: self.entries(**fields))[0]
