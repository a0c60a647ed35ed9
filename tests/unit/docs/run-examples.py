#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run-examples.py SNOWFLAKED SNOWFLAKECTL

Runs the first calls of README.md against a real server, by the commands that stand there. One
whose tools are not installed is skipped, and said to be. Prints TAP.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from readme import EXAMPLES, ROOT, examples

NODE_MODULES = ROOT / "tests" / "integration" / "node_modules"
PYTHON_MODULES = "/usr/lib/python3/dist-packages"
README_PORT = "7609"
WORKER_ID = 7
START_LIMIT_S = 30
RUN_LIMIT_S = 120

NEEDS = {
    "first-id.sh": ["sh"],
    "first-id.py": ["thrift", *(f"{PYTHON_MODULES}/{name}" for name in ("thrift", "six.py"))],
    "first-id.js": ["thrift", "node", NODE_MODULES],
    "FirstId.java": ["thrift", "javac", "java", "/usr/share/java/thrift.jar"],
    "first-id.c": ["cc", "pkg-config"],
}


def is_there(tool):
    return os.path.exists(tool) if os.path.isabs(tool) else shutil.which(tool) is not None


def start_server(snowflaked, scratch):
    with open(scratch / "server.log", "wb") as log:
        return subprocess.Popen([snowflaked, "--listen", "127.0.0.1:0", "--state-directory",
                                 scratch / "state", "--worker-id", str(WORKER_ID)], stderr=log)


def wait_for_port(server, scratch):
    limit = time.monotonic() + START_LIMIT_S
    while True:
        log = (scratch / "server.log").read_text()
        if " event=ready " in log:
            return re.search(r"event=listening address=127\.0\.0\.1:(\d+)", log)[1]
        if server.poll() is not None or time.monotonic() > limit:
            sys.exit(f"the server does not start:\n{log}")
        time.sleep(0.02)  # lint: allow sleep: between two looks


def environment(build, port):
    """As if the tools and the library were installed, and the server where they look for it."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(build / "client"),
        "PATH": f"{build / 'client'}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(build / "meson-uninstalled"),
        "SNOWFLAKE_SERVERS": f"127.0.0.1:{port}",
    }


def run(name, commands, port, directory, settings):
    """What is wrong with the example, or None."""
    directory.mkdir()
    text = (EXAMPLES / name).read_text()
    (directory / name).write_text(text.replace(README_PORT, port))
    shutil.copy(ROOT / "snowflake.thrift", directory)
    if NODE_MODULES.is_dir():
        (directory / "node_modules").symlink_to(NODE_MODULES)
    done = subprocess.run(["sh", "-e", "-c", commands or f"sh -e {name}"], cwd=directory,
                          env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=RUN_LIMIT_S, check=False)
    ids = [int(number) for number in re.findall(r"\b\d{15,19}\b", done.stdout)]
    if done.returncode != 0 or not ids:
        return f"status {done.returncode}:\n{done.stdout}"
    if any(number >> 12 & 31 != WORKER_ID for number in ids):
        return f"not of worker {WORKER_ID}: {ids}"
    return None


def run_all(port, build, scratch):
    """Whether every example did what it should."""
    good = True
    shown = examples()
    print(f"1..{len(shown)}")
    for number, (name, (_, commands)) in enumerate(shown.items(), 1):
        absent = [str(tool) for tool in NEEDS[name] if not is_there(tool)]
        if absent:
            print(f"ok {number} {name} # SKIP not installed: {' '.join(absent)}")
            continue
        problem = run(name, commands, port, scratch / name, environment(build, port))
        print(f"{'not ok' if problem else 'ok'} {number} {name}")
        for line in (problem or "").splitlines():
            print(f"# {line}")
        good = good and not problem
    return good


def main(snowflaked, snowflakectl):
    build = pathlib.Path(snowflakectl).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="snowflake-examples-") as name:
        scratch = pathlib.Path(name)
        server = start_server(snowflaked, scratch)
        try:
            good = run_all(wait_for_port(server, scratch), build, scratch)
        finally:
            server.terminate()
            status = server.wait(START_LIMIT_S)
    return 0 if good and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
