# SPDX-License-Identifier: Apache-2.0
"""Measures each package in clients/, the client that Thrift generates for the same language, and
Redis clients, in one process: the runner of tests/clients."""
import contextlib
import functools
import json

from servers import SUBJECT, running
from tools import ROOT, Failure, run_to_its_end

LANGUAGES = ["Python", "Node", "Java", "Go"]  # not servers, but measured in the same way
REDIS = ["Python", "Node"]  # Java's and Go's Redis clients are not packaged
POINT = "next_id"
PACE_PER_S = 10_000  # must match tests/clients/speed
LIMIT_S = 600        # to install and build the packages that a language needs


def _measure(name, seconds, build):
    with contextlib.ExitStack() as ending:
        _, port, _ = ending.enter_context(running(SUBJECT, build))
        command = [ROOT / "tests" / "clients" / "speed", name, "--server", f"127.0.0.1:{port}",
                   "--build", build, "--seconds", f"{seconds:g}"]
        if name in REDIS:
            _, redis_port, _ = ending.enter_context(running("redis", build))
            command += ["--redis-port", str(redis_port)]
        printed, complaints = run_to_its_end(command, 5 * seconds + LIMIT_S)
    try:
        return json.loads(printed)
    except ValueError as error:
        raise Failure(complaints.strip()[-500:]) from error


def measures(seconds):
    """Returns the steps of one round: (language, point, approximate seconds, function that
    measures)."""
    for name in LANGUAGES:
        kinds = 5 if name in REDIS else 3
        yield name, POINT, kinds * (seconds + 1), functools.partial(_measure, name, seconds)
