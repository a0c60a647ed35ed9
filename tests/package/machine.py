# SPDX-License-Identifier: Apache-2.0
"""A Debian that systemd has booted in a container. Its processes, its network and its changes to
the root end with it.
"""
import os
import pathlib
import socket
import subprocess
import tempfile

from harness import HANG_GUARD_S, wait_for

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Machine:
    def __init__(self, root, *shared):
        """shared: directories that the container can read under the same path."""
        self._directory = tempfile.TemporaryDirectory(prefix="snowflake-machine-")
        console = pathlib.Path(self._directory.name, "console")
        address = f"{self._directory.name}/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, console.open("wb") as log:
            notify.bind(address)
            notify.settimeout(HANG_GUARD_S)
            # if this test is killed, the container must end, too
            self._nspawn = subprocess.Popen((
                "setpriv", "--pdeathsig", "TERM", "systemd-nspawn", "--quiet", "--boot",
                "--kill-signal=SIGKILL", f"--directory={root}", "--volatile=overlay",
                "--private-network", "--register=no", "--keep-unit", "--notify-ready=yes",
                "--console=pipe",
                *(f"--bind-ro={directory}" for directory in shared)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": address})
            try:
                self._leader = self._hear(notify)
            except OSError as error:
                self.close()
                raise AssertionError(f"not booted: {error}\n{console.read_text()}") from error

    @staticmethod
    def _hear(notify):
        """Waits until the container has booted. Returns the process ID of its init."""
        leader = None
        while True:
            for line in notify.recv(4096).decode().splitlines():
                name, _, value = line.partition("=")
                if name == "X_NSPAWN_LEADER_PID":
                    leader = int(value)
                if line == "READY=1":
                    return leader

    def close(self):
        """Ends the container without a shutdown."""
        self._nspawn.terminate()
        self._nspawn.wait(HANG_GUARD_S)
        self._directory.cleanup()

    def start(self, *command, stderr=subprocess.STDOUT):
        """Starts a process in the container, whose output can be read."""
        return subprocess.Popen(
            ("nsenter", "--target", str(self._leader), "--all", "env", "--ignore-environment",
             "--default-signal=INT", f"PATH={PATH}", "DEBIAN_FRONTEND=noninteractive",
             *map(str, command)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)

    def run(self, *command, status=0):
        """Runs a command. Returns its output. Fails on another exit status."""
        process = self.start(*command)
        try:
            output, _ = process.communicate(timeout=HANG_GUARD_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output = f"{process.communicate()[0]}\nstill running after {HANG_GUARD_S} s"
        if process.returncode != status:
            raise AssertionError(f"{' '.join(map(str, command))}: {process.returncode}\n{output}")
        return output

    def property(self, name, unit="snowflaked.service"):
        return self.run("systemctl", "show", "--value", "--property", name, unit).strip()

    def wait_until_active(self, unit="snowflaked.service"):
        wait_for(lambda: self.property("ActiveState", unit) == "active", f"{unit} is active")
