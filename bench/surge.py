# SPDX-License-Identifier: Apache-2.0
"""What the death of a server, and its return, bring to the others: counted each 10 ms."""
import bisect
import time
import typing

SAMPLE_S = 0.01
SLICES_S = (0.01, 0.1)
GROWTH_S = (0.1, 0.3, 1, 3, 10)


class Sample(typing.NamedTuple):
    """Of some servers together, since their start."""
    time_s: float
    connections: int  # that were accepted
    calls: int


class Watch:
    """Asks each server of a fleet again and again, and does at set times what is to be done."""

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
    """(connections, calls) until then."""
    index = bisect.bisect_right(samples, time_s, key=lambda sample: sample.time_s)
    return samples[index - 1][1:] if index else (0, 0)


def slices(of_servers, since_s, until_s, slice_s):
    """(connections, calls) of all these servers together, in each slice of the time."""
    count = round((until_s - since_s) / slice_s)
    edges = [[sum(column) for column in
              zip(*(at(samples, since_s + number * slice_s) for samples in of_servers))]
             for number in range(count + 1)]
    return [(after[0] - before[0], after[1] - before[1])
            for before, after in zip(edges, edges[1:])]


def highest(of_servers, since_s, until_s):
    """The most that came in one slice, for each length of them."""
    found = {}
    for slice_s in SLICES_S:
        parts = slices(of_servers, since_s, until_s, slice_s)
        found[f"{slice_s * 1000:g} ms"] = {"connections": max(part[0] for part in parts),
                                           "calls": max(part[1] for part in parts)}
    return found


def growth(samples, since_s):
    """How many connections a server has been asked for, by the seconds since its return."""
    return {f"{after_s:g}": at(samples, since_s + after_s)[0] for after_s in GROWTH_S
            if samples and samples[-1].time_s >= since_s + after_s}
