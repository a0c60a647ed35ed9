# SPDX-License-Identifier: Apache-2.0
"""Measures the load on other servers at the death and the return of a server, every 10 ms."""
import bisect
import time
import typing

SAMPLE_S = 0.01
SLICES_S = (0.01, 0.1)
GROWTH_S = (0.1, 0.3, 1, 3, 10)


class Sample(typing.NamedTuple):
    """Totals of some servers since their start."""
    time_s: float
    connections: int  # accepted connections
    calls: int


class Watch:
    """Samples each server of a fleet, and runs actions at given times."""

    def __init__(self, fleet):
        self._fleet = fleet
        self.samples = [[] for _ in fleet.addresses]

    def run(self, until_s):
        while time.monotonic() < until_s:
            next_s = time.monotonic() + SAMPLE_S
            for samples, counters in zip(self.samples, self._fleet.counters()):
                if counters:
                    samples.append(Sample(time.monotonic(), counters["connections_accepted"],
                                          counters["calls"]))
            time.sleep(max(0, next_s - time.monotonic()))


def at(samples, time_s):
    """Returns (connections, calls) until this time."""
    index = bisect.bisect_right(samples, time_s, key=lambda sample: sample.time_s)
    return samples[index - 1][1:] if index else (0, 0)


def slices(of_servers, since_s, until_s, slice_s):
    """Returns the (connections, calls) of all these servers together, in each slice of the time."""
    count = round((until_s - since_s) / slice_s)
    edges = [[sum(column) for column in
              zip(*(at(samples, since_s + number * slice_s) for samples in of_servers))]
             for number in range(count + 1)]
    return [(after[0] - before[0], after[1] - before[1])
            for before, after in zip(edges, edges[1:])]


def highest(of_servers, since_s, until_s):
    """Returns the most that came in one slice, for each length of a slice."""
    found = {}
    for slice_s in SLICES_S:
        parts = slices(of_servers, since_s, until_s, slice_s)
        found[f"{slice_s * 1000:g} ms"] = {"connections": max(part[0] for part in parts),
                                           "calls": max(part[1] for part in parts)}
    return found


def growth(samples, since_s):
    """Returns how many connections a server has accepted, by the seconds since its return."""
    return {f"{after_s:g}": at(samples, since_s + after_s)[0] for after_s in GROWTH_S
            if samples and samples[-1].time_s >= since_s + after_s}
