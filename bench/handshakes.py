# SPDX-License-Identifier: Apache-2.0
"""Measures TLS handshakes: the same client makes them with servers of any protocol."""
import functools
import json

import certificates
from probes import cpu_ns, children
from servers import (NGINX, NGINX_MUTUAL, NGINX_TWO, SERVERS, SUBJECT_MUTUAL, SUBJECT_TLS, running)
from tools import Failure, cores_apart, keep_to, run_to_its_end

POINT = "handshakes"
PAIRS = [(SUBJECT_TLS, NGINX), (SUBJECT_MUTUAL, NGINX_MUTUAL)]  # compared with each other
COMPARED = [*(name for pair in PAIRS for name in pair), NGINX_TWO]
CONNECTIONS = 16
LIMIT_S = 60


def _cpu_s(pid):
    return sum(map(cpu_ns, [pid, *children(pid)])) / 1e9


def _command(build, directory, port, seconds, threads, with_certificate):
    """Returns the command of the client, which counts handshakes that the server has completed in
    order."""
    settings = {"port": port, "seconds": seconds, "threads": threads,
                "connections": CONNECTIONS // threads,
                "ca": certificates.certificate(directory)}
    if with_certificate:
        settings["certificate"] = certificates.certificate(directory, certificates.CLIENT)
        settings["key"] = certificates.key(directory, certificates.CLIENT)
    return [build / "bench" / "shaker" / "bench-shaker",
            *(f"--{key}={value}" for key, value in settings.items())]


def _measure(name, seconds, build):
    """A handshake costs the client more than the server. So if each has one core, the server's CPU
    time says more than the number of handshakes."""
    server_cores, load_cores = cores_apart()
    with_certificate = certificates.CLIENT in SERVERS[name].tls
    with running(name, build, server_cores) as (process, port, directory):
        before_s = _cpu_s(process.pid)
        printed, complaints = run_to_its_end(
            keep_to(load_cores, _command(build, directory, port, seconds,
                                         min(max(1, len(load_cores)), CONNECTIONS),
                                         with_certificate)), seconds + LIMIT_S)
        cpu_s = _cpu_s(process.pid) - before_s
    try:
        result = json.loads(printed)
    except ValueError as error:
        raise Failure(f"bench-shaker failed: {complaints.strip()[-500:]}") from error
    return {"handshakes_per_s": result["handshakes"] / result["seconds"],
            "cpu_us_each": cpu_s * 1e6 / result["handshakes"],
            "cpu_share": cpu_s / result["seconds"]}


def measures(seconds):
    """Returns the steps of one round: (server, point, approximate seconds, function that
    measures)."""
    for name in COMPARED:
        yield name, POINT, seconds + 0.5, functools.partial(_measure, name, seconds)
