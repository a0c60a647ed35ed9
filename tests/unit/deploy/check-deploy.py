#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check-deploy.py SERVICE VERSION

Whether deploy/ agrees with the tree and with itself: what the packages are built with and which
version they are, where the socket unit listens, and how little SERVICE, the systemd unit, may do.
Without systemd-analyze, where there is no systemd, that last one is left out.
"""
import pathlib
import re
import shutil
import subprocess
import sys

DEPLOY = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "deploy"
# Debian takes these for granted, or meson brings them.
NOT_NAMED = {"gcc", "libc6-dev", "ninja-build"}
EXPOSURE = 15  # in tenths, of 100


def find(pattern, path):
    return re.search(pattern, (DEPLOY / path).read_text(), re.MULTILINE | re.DOTALL)[1]


def check_build_depends():
    wanted = set(find(r"^BUILD=\((.*?)\)", "install-packages").split()) - NOT_NAMED
    named = find(r"^Build-Depends:(.*?)^\S", "debian/control")
    named = set(re.findall(r"^ ([\w.+-]+)", named, re.MULTILINE)) - {"debhelper-compat"}
    for package in sorted(wanted ^ named):
        yield f"{package} is in one of install-packages and debian/control, not in the other"


def check_version(version):
    newest = find(r"\A\w+ \((.*?)\)", "debian/changelog")
    if newest != version:
        yield f"debian/changelog is of {newest}, meson.build of {version}"


def check_socket():
    address = find(r"^#listen=(\S+)", "snowflaked.conf")
    listens = find(r"^ListenStream=(\S+)", "snowflaked.socket")
    if listens != address:
        yield f"snowflaked.socket listens on {listens}, the server on {address}"


def check_exposure(service):
    if shutil.which("systemd-analyze") is None:
        return
    analyzed = subprocess.run(
        ("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager",
         service), capture_output=True, text=True, timeout=60)
    if analyzed.returncode != 0 or "Overall exposure level" not in analyzed.stdout:
        yield f"systemd-analyze: {analyzed.stderr}{analyzed.stdout}"


def main():
    service, version = sys.argv[1:]
    problems = [*check_build_depends(), *check_version(version), *check_socket(),
                *check_exposure(service)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
