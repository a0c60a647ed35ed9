# SPDX-License-Identifier: Apache-2.0
"""The packages in clients/, each beside the client that Thrift generates for the same language, in
one process: that with which tests/clients puts them to the test."""
import functools
import json

from servers import SUBJECT, running
from tools import ROOT, Failure, run_to_its_end

LANGUAGES = ["Python", "Node", "Java", "Go"]  # no servers, but they take part like them
POINT = "next_id"
PACE_PER_S = 10_000  # as tests/clients/speed has it
LIMIT_S = 600        # to install and build what the package of a language needs


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
    """(language, point, about how many seconds, what measures it) of one round."""
    for name in LANGUAGES:
        yield name, POINT, 3 * seconds + 3, functools.partial(_measure, name, seconds)
