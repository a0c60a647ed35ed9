# SPDX-License-Identifier: Apache-2.0
"""Listening sockets that outlive the servers to which they are passed, like those of systemd."""
import fcntl
import socket

from harness import ServerTest

FIRST = 3  # SD_LISTEN_FDS_START
ABOVE = 100  # above all others, so that no descriptor is overwritten before it was moved


class PassedTest(ServerTest):
    def listen(self, host="127.0.0.1"):
        kept = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else
                                    socket.AF_INET, backlog=4096)
        self.addCleanup(kept.close)
        return kept

    def passing(self, *sockets, names=None, count=None, pid="$$"):
        """Returns the arguments of Server() that pass these sockets."""
        copies = [fcntl.fcntl(each.fileno(), fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in sockets]
        for copy in copies:
            self.addCleanup(socket.close, copy)
        moves = "".join(f"exec {FIRST + i}<&{copy} {copy}<&-;" for i, copy in enumerate(copies))
        environment = {"LISTEN_FDS": str(len(copies) if count is None else count)}
        if names:
            environment["LISTEN_FDNAMES"] = ":".join(names)
        return {"inherits": copies, "environment": environment,
                "wrapper": ("bash", "-c", f'{moves} LISTEN_PID={pid} exec "$0" "$@"')}
