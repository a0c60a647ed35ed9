# SPDX-License-Identifier: Apache-2.0
"""The server's performance goals, and whether they are met.

Ratios are computed within each round, between subjects measured directly after each other. The
median over the rounds counts.
"""
import dataclasses
import operator
import statistics

import handshakes
import clients
import pools
from neighbours import COSTLY
from experiments import BURST_KINDS, CONNECTIONS, FEW_CONNECTIONS, IDLE, IN_FLIGHT, point
from servers import (BARE, BARE_LOCAL, SUBJECT, SUBJECT_AUDITED, SUBJECT_LOCAL, SUBJECT_RELAY,
                     SUBJECT_SCRAPED, SUBJECT_TLS, SUBJECT_WIDE, THRIFT)

WALL = 4096000          # IDs per second that the layout allows
AT_THE_WALL = 0.95      # share of it at which the layout limits the rate
MAX_COST = 1.1
MAX_HANDSHAKE_COST = 1.15  # nginx handles a handshake in one thread, snowflaked in three
LATENCIES = [("p50", "p50", 1.2), ("p99", "p99", 1.5), ("p99_9", "p99.9", 1.5)]

_SIGNS = {">=": (operator.ge, "at least"), ">": (operator.gt, "above"),
          "<=": (operator.le, "at most"), "<": (operator.lt, "under")}
_DIGITS = {"": 2, "x": 3, "%": 1, "ms": 2, "us": 1, "ns": 2, "KiB": 2, "MB": 2}


@dataclasses.dataclass(frozen=True)
class Goal:
    what: str
    wanted: str
    measured: str
    met: bool | None  # None: not measured

    @property
    def verdict(self):
        return {True: "met", False: "**not met**", None: "not measured"}[self.met]


def judge(what, values, sign, limit, unit="x", note=""):
    """Compares the median of the values with the limit."""
    compare, word = _SIGNS[sign]
    digits = _DIGITS[unit]
    wanted = f"{word} {limit:g} {unit}".rstrip()
    if not values:
        return Goal(what, wanted, "-", None)
    median = statistics.median(values)
    spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    measured = f"{median:.{digits}f} {unit}".rstrip() + spread + note
    return Goal(what, wanted, measured, compare(median, limit))


def _scaled(values, factor):
    return [value * factor for value in values]


def _throughput(figures):
    def ratios(name):
        return figures.ratios("throughput", (SUBJECT, "16x1"), (name, "16x1"), "calls_per_s")

    what = "get_id, 16 connections, 1 in flight, ratio to"
    yield judge(f"{what} {BARE}", ratios(BARE), ">=", 0.95)
    yield judge(f"{what} redis", ratios("redis"), ">", 1)
    for name in THRIFT:
        yield judge(f"{what} {name}", ratios(name), ">=", 2)
    sustained = figures.values("throughput", SUBJECT, "sustained", "calls_per_s")
    yield judge(f"get_id, 16 connections, 32 in flight, sustained, of {WALL:,} a second",
                _scaled(sustained, 1 / WALL), ">=", 0.95)


def _batches(figures):
    ids = figures.values("batches", SUBJECT, "4x1", "ids_per_s")
    cpu = figures.values("batches", SUBJECT, "4x1", "cpu_share")
    yield judge(f"get_ids of 1,000, 4 connections, of {WALL:,} IDs a second",
                _scaled(ids, 1 / WALL), ">=", 0.99)
    yield judge("the server's CPU usage meanwhile, of one core", _scaled(cpu, 100), "<", 8, "%")


def _latency(figures):
    for key, label, limit in LATENCIES:
        ratios = figures.ratios("latency", (SUBJECT, "open"), (BARE, "open"), "latency_us", key)
        yield judge(f"{label} at 100,000 calls a second, ratio to {BARE}", ratios, "<=", limit)


def _idle(figures):
    loaded, alone = (SUBJECT, str(IDLE)), (SUBJECT, "0")
    kept = figures.ratios("idle", loaded, alone, "calls_per_s")
    with_idle = figures.by_round("idle", *loaded, "rss_bytes")
    without = figures.by_round("idle", *alone, "rss_bytes")
    each = [(with_idle[number] - without[number]) / IDLE / 1024
            for number in with_idle if number in without]
    yield judge(f"throughput lost with {IDLE:,} idle connections",
                [100 * (1 - ratio) for ratio in kept], "<", 5, "%")
    yield judge("resident memory of each idle connection", each, "<", 1, "KiB")


def _beside(figures, what, kinds, limit_ms):
    """Yields the kind of neighbour with the highest median of p99; nothing if one of them is
    missing."""
    def values_ms(kind, key):
        return _scaled(figures.values("neighbours", SUBJECT, kind, "latency_us", key), 1e-3)

    tails = {kind: values_ms(kind, "p99") for kind in kinds}
    if not all(tails.values()):
        return judge(what, [], "<", limit_ms, "ms")
    worst = max(kinds, key=lambda kind: statistics.median(tails[kind]))
    return judge(what, tails[worst], "<", limit_ms, "ms", note=f", with {worst}; max "
                 f"{statistics.median(values_ms(worst, 'max')):.2f} ms")


def _neighbours(figures):
    yield _beside(figures, "p99 of a paced client during bursts on 100 connections, the worst kind",
                  BURST_KINDS, 5)
    yield _beside(figures, "p99 of a paced client during get_ids(10000) on 1,000 connections",
                  ["greedy"], 20)
    yield _beside(figures, "p99 of a paced client during costly calls on 1,000 connections, the "
                  "worst kind", list(COSTLY), 20)
    yield _beside(figures, "p99 of a paced client during pipelines that are reset", ["resets"], 20)


def compared_with(figures, at):
    """Returns the snowflaked to compare with the bare server, which no layout limits, at a
    point."""
    rate = figures.median("cost", BARE, at, "calls_per_s")
    return SUBJECT_WIDE if rate and rate > AT_THE_WALL * WALL else SUBJECT


def cost_ratios(figures, at, name):
    return figures.ratios("cost", (name, at), (BARE, at), "cpu_us_per_call")


def _worst_cost(figures, what, points):
    """Yields the point with the highest median; nothing if one of the points is missing."""
    ratios = {at: cost_ratios(figures, at, compared_with(figures, at)) for at in points}
    if not all(ratios.values()):
        return judge(what, [], "<=", MAX_COST)
    worst = max(points, key=lambda at: statistics.median(ratios[at]))
    return judge(what, ratios[worst], "<=", MAX_COST, note=f", at {worst}")


def _cost(figures):
    yield _worst_cost(figures, "CPU time per call, 1 to 10,000 connections, the worst point",
                      [point(connections, 1) for connections in CONNECTIONS])
    yield _worst_cost(figures, "CPU time per call, 1 to 1,000 in flight, the worst point",
                      [point(connections, in_flight) for connections in FEW_CONNECTIONS
                       for in_flight in IN_FLIGHT])


def _generator(figures):
    """Yields the goals of bench/generator/run, compared with its limits."""
    found = [goal for goal in figures.generator("goals") if "at_most" in goal or "at_least" in goal]
    for goal in found:
        sign, limit = ("<=", goal["at_most"]) if "at_most" in goal else (">=", goal["at_least"])
        yield judge(f"generator: {goal['what']}", [goal["value"]], sign, limit, unit="")
    if not found:
        yield Goal("generator", "-", "-", None)


def _memory(figures):
    for at, label in (("16x1", "1 in flight"), ("16x32", "32 in flight")):
        anonymous = figures.values("memory", SUBJECT, at, "anonymous_bytes")
        yield judge(f"anonymous memory, 16 connections, {label}", _scaled(anonymous, 1e-6), "<", 2,
                    "MB")
    for key, label in (("first_start_ms", "start to first answer, fresh"),
                       ("next_start_ms", "start to first answer, with an existing state")):
        yield judge(label, figures.values("memory", SUBJECT, "start", key), "<", 10, "ms")


def _audit(figures):
    for at, label, kept, written in (("16x1", "1 in flight", 0.95, 1),
                                     ("16x32", "32 in flight", 0.7, 0.9)):
        ratios = figures.ratios("audit", (SUBJECT_AUDITED, at), (SUBJECT, at), "calls_per_s")
        shares = figures.values("audit", SUBJECT_AUDITED, at, "share_written")
        yield judge(f"get_id, 16 connections, {label}, with an audit log, ratio to none", ratios,
                    ">=", kept)
        yield judge(f"IDs that it has, 16 connections, {label}", _scaled(shares, 100), ">=",
                    100 * written, "%")


def _scraped(figures):
    for at, label in (("16x1", "1 in flight"), ("16x32", "32 in flight")):
        ratios = figures.ratios("scraped", (SUBJECT_SCRAPED, at), (SUBJECT, at), "calls_per_s")
        yield judge(f"get_id, 16 connections, {label}, with a scrape a second, ratio to none",
                    ratios, ">=", 0.99)


def _local_socket(figures):
    for name, label, limit in ((BARE_LOCAL, f"{BARE} there", 0.95),
                               (SUBJECT, "itself by TCP", 1.9)):
        ratios = figures.ratios("local-socket", (SUBJECT_LOCAL, "16x1"), (name, "16x1"),
                                "calls_per_s")
        yield judge(f"get_id on a local socket, 16 connections, 1 in flight, ratio to {label}",
                    ratios, ">=", limit)


def _relay(figures):
    ratios = figures.ratios("relay", (SUBJECT_RELAY, "16x1"), (SUBJECT, "16x1"), "calls_per_s")
    yield judge("get_id through a relay, 16 connections, 1 in flight, ratio to the server itself",
                ratios, ">=", 0.95)


def _tls(figures):
    for at, label, kept in (("16x1", "1 in flight", 0.65), ("16x32", "32 in flight", 0.9)):
        ratios = figures.ratios("tls", (SUBJECT_TLS, at), (SUBJECT, at), "calls_per_s")
        yield judge(f"get_id with TLS, 16 connections, {label}, ratio to plain", ratios, ">=", kept)
    for ours, theirs in handshakes.PAIRS:
        for key, what, sign, limit in (("handshakes_per_s", "handshakes a second", ">=", 0.95),
                                       ("cpu_us_each", "CPU time of a handshake", "<=",
                                        MAX_HANDSHAKE_COST)):
            ratios = figures.ratios("tls", (ours, handshakes.POINT), (theirs, handshakes.POINT),
                                    key)
            yield judge(f"{what}, {ours}, ratio to {theirs}", ratios, sign, limit)


def _pool(figures):
    def values(at, key, factor=1):
        return _scaled(figures.values("pool", pools.POOL, at, key), factor)

    for threads in (1, 2):
        ours = figures.by_round("pool", pools.POOL, pools.burst_point(threads), "burst_ns")
        theirs = figures.by_round("pool", pools.CACHED, pools.CACHED_POINT, f"ns_{threads}")
        # a burst measures the cost of an ID for its thread; the other measures the cost over all
        # threads
        ratios = [threads * theirs[number] / ours[number] for number in ours
                  if number in theirs and ours[number]]
        yield judge(f"IDs in bursts of {pools.BURST_IDS:,}, threads: {threads}, ratio to "
                    f"{pools.CACHED}", ratios, ">=", 5)
    for servers, wanted in ((1, 4.0), (2, 7.5)):
        at = pools.sustained_point(servers)
        yield judge(f"million IDs a second from the pool, sustained, servers: {servers}",
                    values(at, "ids_per_s", 1e-6), ">=", wanted, unit="")
        yield judge(f"takes that failed meanwhile, servers: {servers}", values(at, "failed"), "<=",
                    0, unit="")
    yield judge(f"takes that failed, {pools.KILL_RATE:,} IDs a second, one of two servers killed",
                values(pools.KILL_POINT, "failed"), "<=", 0, unit="")
    yield judge("the longest take meanwhile", values(pools.KILL_POINT, "longest_us", 1e-3), "<", 5,
                "ms")


def _clients(figures):
    for name in clients.LANGUAGES:
        def values(key, at=name):
            return figures.values("clients", at, clients.POINT, key)

        ratios = figures.ratio_of("clients", (name, clients.POINT), "ids_per_s", "plain_per_s")
        yield judge(f"{name}: IDs a second with prefetch, ratio to the generated client", ratios,
                    ">=", 20)
        yield judge(f"{name}: p99 of next_id at {clients.PACE_PER_S:,} a second",
                    values("p99_us"), "<", 100, "us")
        yield judge(f"{name}: calls that failed meanwhile", values("failed"), "<=", 0, unit="")
        yield judge(f"{name}: end of a call that no server answers, after its deadline",
                    values("late_ms"), "<", 50, "ms")
        if name in clients.REDIS:
            ratios = figures.ratio_of("clients", (name, clients.POINT), "calls_per_s",
                                      "redis_per_s")
            yield judge(f"{name}: calls a second without prefetch, ratio to a Redis client", ratios,
                        ">=", 1)


JUDGES = {"throughput": _throughput, "batches": _batches, "latency": _latency, "idle": _idle,
          "neighbours": _neighbours, "cost": _cost, "generator": _generator, "memory": _memory,
          "audit": _audit, "scraped": _scraped, "local-socket": _local_socket, "pool": _pool,
          "relay": _relay, "tls": _tls, "clients": _clients}


def goals(figures, experiments):
    for name in experiments:
        yield from JUDGES[name](figures)
