# SPDX-License-Identifier: Apache-2.0
"""Describes the machine, and how busy it was before the measurements."""
import os
import pathlib
import platform
import re
import resource
import subprocess
import time

STEAL = 7  # index in /proc/stat: time that the host gave to other machines
LOOK_S = 1
BUSY_SHARE = 0.05  # share of all cores

PACKAGES = ["libssl3", "libthrift-0.17.0", "libthrift-java", "nginx-light", "python3-redis",
            "redis-server"]


def _output(*command):
    """Returns the first line of a command's output, or ""."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0] if done.returncode == 0 else ""


def ticks():
    """Returns the ticks used by processes or other virtual machines, and all ticks."""
    first = pathlib.Path("/proc/stat").read_text().splitlines()[0]
    fields = [int(field) for field in first.split()[1:9]]
    return sum(fields[:3]) + fields[STEAL], sum(fields)


class Others:
    """Measures how much of the machine other processes use, from its creation on."""

    def __init__(self):
        self.before = self._now()

    @staticmethod
    def _now():
        """Returns ticks(), and the ticks of this program."""
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF,
                                                   resource.RUSAGE_CHILDREN)]
        own_s = sum(usage.ru_utime + usage.ru_stime for usage in own)
        return *ticks(), own_s * os.sysconf("SC_CLK_TCK")

    def share(self):
        """Returns the share of all cores. A child process counts as another process until it has
        ended."""
        used, total, own = (now - then for now, then in zip(self._now(), self.before))
        return max(0, used - own) / max(1, total)


def busy_share():
    """Returns the used share of all cores over a second."""
    others = Others()
    time.sleep(LOOK_S)
    return others.share()


def wait_until_quiet(limit_s):
    """Waits until the machine is quiet, at most limit_s. Returns how busy it was in the last
    second."""
    deadline = time.monotonic() + limit_s
    while (share := busy_share()) >= BUSY_SHARE and time.monotonic() < deadline:
        pass
    return share


def _cpu():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    virtual = re.search(r"^flags\s*:.* hypervisor\b", text, re.MULTILINE)
    return {"cpu": model[1] if model else platform.machine(), "virtual": virtual is not None}


def _versions(build):
    versions = {name: _output("dpkg-query", "-W", "-f", "${Version}", name) for name in PACKAGES}
    versions["java"] = _output("java", "-version")
    versions["snowflaked"] = _output(build / "server" / "snowflaked", "--version")
    return {name: version or "unknown" for name, version in versions.items()}


def describe(build):
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        **_cpu(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "compiler": _output("cc", "--version"),
        "busy_before": busy_share(),
        "load_average_before": os.getloadavg()[0],
        "versions": _versions(build),
    }
