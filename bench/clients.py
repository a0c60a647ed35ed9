# SPDX-License-Identifier: Apache-2.0
"""Measures each package in clients/ and the client that Thrift generates for the same language, in
one process: the runner of tests/clients."""
import functools
import json

from servers import SUBJECT, running
from tools import ROOT, Failure, run_to_its_end

LANGUAGES = ["Python", "Node", "Java", "Go"]  # not servers, but measured in the same way
POINT = "next_id"
PACE_PER_S = 10_000  # must match tests/clients/speed
LIMIT_S = 600        # to install and build the packages that a language needs


def _measure(name, seconds, build):
    with running(SUBJECT, build) as (_, port, _):
        printed, complaints = run_to_its_end(
            [ROOT / "tests" / "clients" / "speed", name, "--server", f"127.0.0.1:{port}",
             "--build", build, "--seconds", f"{seconds:g}"], 3 * seconds + LIMIT_S)
    try:
        return json.loads(printed)
    except ValueError as error:
        raise Failure(complaints.strip()[-500:]) from error


def measures(seconds):
    """Returns the steps of one round: (language, point, approximate seconds, function that
    measures)."""
    for name in LANGUAGES:
        yield name, POINT, 3 * seconds + 3, functools.partial(_measure, name, seconds)
