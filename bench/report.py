# SPDX-License-Identifier: Apache-2.0
"""Reports a run as Markdown: the machine, the goals, a table for each experiment, and failures."""
import statistics

import handshakes
import clients
import pools
from experiments import ALONE, BESIDE_RATE, EXPERIMENTS, IDLE, RATE, growth_points, point
from figures import Figures
from goals import WALL, compared_with, cost_ratios, goals
from neighbours import KINDS
from servers import (BARE, BARE_LOCAL, CHOICES, SERVERS, SUBJECT, SUBJECT_AUDITED, SUBJECT_LOCAL,
                     SUBJECT_RELAY, SUBJECT_SCRAPED, SUBJECT_TLS, SUBJECT_WIDE)

ROUNDS_OF_A_VERDICT = 9
NOTHING = "-"

PLOTS = {
    "throughput": [("throughput", "Calls a second of each server")],
    "latency": [("latency", "Latency by percentile, open loop")],
    "cost": [("cost", "CPU time per call over connections and over calls in flight")],
    "generator": [("generator", "Nanoseconds an ID costs")],
}


def _table(head, rows):
    """Makes a table. Every column except the first has numbers, and is aligned right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _number(value, form):
    return NOTHING if value is None else format(value, form)


def _spread(values, form):
    return f"{min(values):{form}} to {max(values):{form}}" if values else NOTHING


def _median(values, form):
    return format(statistics.median(values), form) if values else NOTHING


def _throughput(figures):
    parts = []
    for at, label in (("16x1", "one call in flight on each"), ("16x32", "32 in flight on each"),
                      ("sustained", "32 in flight on each, for longer")):
        rows = [_throughput_row(figures, name, at) for name in CHOICES
                if figures.values("throughput", name, at, "calls_per_s")]
        head = ["server", "calls/s", "min to max", f"{SUBJECT} to it", "p50 us", "p99 us",
                "p99.9 us", "CPU us/call", "CPU, cores", "of it kernel, %"]
        parts.append(f"get_id, 16 connections, {label}:\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


def _throughput_row(figures, name, at):
    def median(*key):
        return figures.median("throughput", name, at, *key)

    rates = figures.values("throughput", name, at, "calls_per_s")
    kernel = figures.values("throughput", name, at, "kernel_share")
    ratios = figures.ratios("throughput", (SUBJECT, at), (name, at), "calls_per_s")
    return [name, _median(rates, ",.0f"), _spread(rates, ",.0f"), _median(ratios, ".2f"),
            *(_number(median("latency_us", key), ",.0f") for key in ("p50", "p99", "p99_9")),
            _number(median("cpu_us_per_call"), ".2f"), _number(median("cpu_share"), ".2f"),
            _median([100 * share for share in kernel], ".0f")]


def _batches(figures):
    def values(*key):
        return figures.values("batches", SUBJECT, "4x1", *key)

    rates = values("ids_per_s")
    row = [_median(rates, ",.0f"), _spread(rates, ",.0f"),
           _median([rate / WALL for rate in rates], ".4f"),
           _median([100 * share for share in values("cpu_share")], ".1f")]
    head = ["IDs/s", "min to max", f"of {WALL:,}", "server CPU, % of a core"]
    return f"get_ids of 1,000, 4 connections:\n\n{_table(head, [row])}"


def _latency(figures):
    keys = ["p50", "p90", "p99", "p99_9", "p99_99", "max"]
    rows = []
    for name in (SUBJECT, BARE):
        row = [_median(figures.values("latency", name, "open", "latency_us", key), ",.1f")
               for key in keys]
        rows.append([name, *row])
    ratios = [figures.ratios("latency", (SUBJECT, "open"), (BARE, "open"), "latency_us", key)
              for key in keys]
    rows.append(["ratio", *(_median(values, ".2f") for values in ratios)])
    head = ["microseconds", *(key.replace("_", ".") for key in keys)]
    return (f"Open loop, {RATE:,} calls a second over 16 connections; the latency of a call is "
            f"measured from when it was due:\n\n{_table(head, rows)}")


def _idle(figures):
    rows = []
    for idle in ("0", str(IDLE)):
        rates = figures.values("idle", SUBJECT, idle, "calls_per_s")
        resident = figures.values("idle", SUBJECT, idle, "rss_bytes")
        rows.append([f"{int(idle):,}", _median(rates, ",.0f"), _spread(rates, ",.0f"),
                     _median([value / 1024 for value in resident], ",.0f")])
    head = ["idle connections", "calls/s", "min to max", "resident KiB"]
    return f"get_id, 16 busy connections, one call in flight on each:\n\n{_table(head, rows)}"


def _neighbours(figures):
    rows = [_neighbours_row(figures, kind) for kind in (ALONE, *KINDS)]
    head = ["neighbour", "p50 ms", "p99 ms", "min to max", "max ms", "its connections",
            "its calls/s", "its replies/s", "of them errors, %", "its CPU, cores"]
    return (f"get_id, one client at {BESIDE_RATE:,} calls a second, open loop; the latency of a "
            f"call is measured from when it was due:\n\n{_table(head, rows)}\n\n{_whats()}")


def _whats():
    """Describes the kinds of neighbours. Kinds that do the same have one line."""
    names = {}
    for name, kind in KINDS.items():
        names.setdefault(kind.what, []).append(name)
    return "\n".join(f"* {', '.join(same)}: {what}" for what, same in names.items())


def _neighbours_row(figures, kind):
    def latencies_ms(key):
        return [value / 1000 for value in figures.values("neighbours", SUBJECT, kind, "latency_us",
                                                         key)]

    def share(part, whole, form, factor=1):
        both = zip(figures.values("neighbours", SUBJECT, kind, "neighbour", part),
                   figures.values("neighbours", SUBJECT, kind, "neighbour", whole))
        return _median([factor * value / by for value, by in both if by], form)

    connections = f"{KINDS[kind].connections:,}" if kind in KINDS else NOTHING
    tails = latencies_ms("p99")
    return [kind, _median(latencies_ms("p50"), ",.2f"), _median(tails, ",.2f"),
            _spread(tails, ",.2f"), _median(latencies_ms("max"), ",.2f"), connections,
            share("sent", "seconds", ",.0f"), share("replies", "seconds", ",.0f"),
            share("errors", "replies", ".0f", 100), share("cpu_s", "seconds", ".2f")]


def _cost(figures):
    rows = []
    for connections, in_flight in growth_points():
        at = point(connections, in_flight)
        names = (BARE, SUBJECT, SUBJECT_WIDE)
        cost = [_number(figures.median("cost", name, at, "cpu_us_per_call"), ".3f")
                for name in names]
        rates = [_number(figures.median("cost", name, at, "calls_per_s"), ",.0f")
                 for name in names]
        ratios = [_median(cost_ratios(figures, at, name), ".3f") for name in names[1:]]
        judged = 1 if compared_with(figures, at) == SUBJECT_WIDE else 0
        ratios[judged] = f"**{ratios[judged]}**"
        rows.append([at, *cost, *ratios, *rates])
    head = ["connections x in flight", BARE, SUBJECT, "wide", "ratio", "ratio, wide",
            f"calls/s {BARE}", SUBJECT, "wide"]
    return f"""The server's CPU time per call, in microseconds. The load generator has its own core.

{_table(head, rows)}

"wide" is {SUBJECT} with a layout of 22 sequence bits. Where epoll-fixed exceeds {WALL:,} calls a
second, {SUBJECT} with the default layout waits for the clock. Each time it wakes, it has less
to do, and the cost of the wake-up is shared by fewer calls. In these rows, the table compares
epoll-fixed with "wide", and in all other rows with {SUBJECT}. The ratio that counts is in bold."""


def _generator(figures):
    rows = []
    for case in figures.generator("cases"):
        cost = case["ns_per_id"]
        rows.append([case["name"], str(case["threads"]), str(case["batch"]),
                     f"{cost['median']:.2f}", f"{cost['min']:.2f} to {cost['max']:.2f}",
                     f"{1e9 / cost['median']:,.0f}"])
    head = ["in process, without the network", "threads", "IDs at a time", "ns/ID", "min to max",
            "IDs/s"]
    compared = [[goal["what"], f"{goal['value']:.2f} x"] for goal in figures.generator("goals")
              if "at_least" not in goal and "at_most" not in goal]
    return f"{_table(head, rows)}\n\n{_table(['ratio of the medians', 'measured'], compared)}"


def _memory(figures):
    rows = []
    for at, label in (("16x1", "16 connections, 1 in flight"),
                      ("16x32", "16 connections, 32 in flight")):
        for key, name in (("anonymous_bytes", "anonymous"), ("rss_bytes", "resident")):
            values = [value / 1024 for value in figures.values("memory", SUBJECT, at, key)]
            rows.append([f"{name} memory, {label}, KiB", _median(values, ",.0f"),
                         _spread(values, ",.0f")])
    for key, label in (("first_start_ms", "start to first answer, fresh, ms"),
                       ("next_start_ms", "the same with an existing state, ms")):
        values = figures.values("memory", SUBJECT, "start", key)
        rows.append([label, _median(values, ".2f"), _spread(values, ".2f")])
    return _table(["what", "median", "min to max"], rows)


def _audit(figures):
    rows = []
    for at in ("16x1", "16x32"):
        with_log, without = (figures.values("audit", name, at, "calls_per_s")
                             for name in (SUBJECT_AUDITED, SUBJECT))
        ratios = figures.ratios("audit", (SUBJECT_AUDITED, at), (SUBJECT, at), "calls_per_s")
        shares = figures.values("audit", SUBJECT_AUDITED, at, "share_written")
        rows.append([at, _median(without, ",.0f"), _median(with_log, ",.0f"),
                     _median(ratios, ".2f"), _spread(ratios, ".2f"),
                     _median([100 * share for share in shares], ".1f")])
    head = ["connections x in flight", "calls/s without", "with", "ratio", "min to max",
            "IDs that the log has, %"]
    return f"get_id, every ID in an audit log, a file:\n\n{_table(head, rows)}"


def _with_and_without(figures, experiment, name):
    """Returns a table that compares `name` with the plain server."""
    rows = []
    for at in ("16x1", "16x32"):
        having, without = (figures.values(experiment, each, at, "calls_per_s")
                           for each in (name, SUBJECT))
        ratios = figures.ratios(experiment, (name, at), (SUBJECT, at), "calls_per_s")
        rows.append([at, _median(without, ",.0f"), _median(having, ",.0f"),
                     _median(ratios, ".3f"), _spread(ratios, ".3f")])
    return _table(["connections x in flight", "calls/s without", "with", "ratio", "min to max"],
                  rows)


def _scraped(figures):
    table = _with_and_without(figures, "scraped", SUBJECT_SCRAPED)
    return f"get_id, while /metrics is asked for once a second:\n\n{table}"


def _local_socket(figures):
    rows = []
    for at in ("16x1", "16x32"):
        for name, tcp in ((SUBJECT_LOCAL, SUBJECT), (BARE_LOCAL, BARE)):
            def values(*key, name=name, at=at):
                return figures.values("local-socket", name, at, *key)

            ratios = figures.ratios("local-socket", (name, at), (tcp, at), "calls_per_s")
            rows.append([at, tcp, _median(values("calls_per_s"), ",.0f"),
                         _spread(values("calls_per_s"), ",.0f"),
                         _median(values("latency_us", "p50"), ",.0f"),
                         _median(figures.values("local-socket", tcp, at, "calls_per_s"), ",.0f"),
                         _median(ratios, ".2f"), _spread(ratios, ".2f")])
    head = ["connections x in flight", "server", "calls/s", "min to max", "p50, us", "by TCP",
            "ratio", "min to max"]
    return f"get_id on a local socket, compared with TCP:\n\n{_table(head, rows)}"


def _relay(figures):
    table = _with_and_without(figures, "relay", SUBJECT_RELAY)
    return f"get_id, through a relay, whose server is on the same machine too:\n\n{table}"


def _handshakes_row(figures, name):
    def values(key):
        return figures.values("tls", name, handshakes.POINT, key)

    def to_peer(key):
        peer = dict(handshakes.PAIRS).get(name)
        ratios = peer and figures.ratios("tls", (name, handshakes.POINT),
                                         (peer, handshakes.POINT), key)
        return _median(ratios, ".2f") if ratios else NOTHING

    rates, costs = values("handshakes_per_s"), values("cpu_us_each")
    return [name, _median(rates, ",.0f"), _spread(rates, ",.0f"), to_peer("handshakes_per_s"),
            _median(costs, ",.0f"), _spread(costs, ",.0f"), to_peer("cpu_us_each"),
            _median(values("cpu_share"), ".2f")]


def _tls(figures):
    table = _with_and_without(figures, "tls", SUBJECT_TLS)
    costs = [[at, *(_number(figures.median("tls", name, at, "cpu_us_per_call"), ".2f")
                    for name in (SUBJECT, SUBJECT_TLS))] for at in ("16x1", "16x32")]
    cost = _table(["connections x in flight", "CPU us/call without", "with"], costs)
    rows = [_handshakes_row(figures, name) for name in handshakes.COMPARED]
    shaken = _table(["handshakes", "a second", "min to max", "to nginx", "CPU us each",
                     "min to max", "to nginx", "CPU, cores"], rows)
    return (f"get_id over TLS 1.3, each on cores of its own:\n\n{table}\n\n{cost}\n\n"
            "Full handshakes of TLS 1.3 with an ECDSA certificate on P-256, by a client of "
            f"{handshakes.CONNECTIONS} connections that ends each at once:\n\n{shaken}")


def _pool(figures):
    rows = []
    for threads in (1, 2):
        for who, at, key, factor in ((pools.POOL, pools.burst_point(threads), "burst_ns", threads),
                                     (pools.CACHED, pools.CACHED_POINT, f"ns_{threads}", 1)):
            rates = [factor * 1e3 / ns for ns in figures.values("pool", who, at, key) if ns]
            rows.append([f"{who}, {threads} threads", _median(rates, ",.1f"),
                         _spread(rates, ",.1f")])
    for servers in (1, 2):
        rates = [value / 1e6 for value in
                 figures.values("pool", pools.POOL, pools.sustained_point(servers), "ids_per_s")]
        rows.append([f"{pools.POOL}, {pools.sustained_point(servers)}", _median(rates, ",.2f"),
                     _spread(rates, ",.2f")])
    table = _table(["who", "million IDs/s", "min to max"], rows)
    longest = [value / 1e3 for value in
               figures.values("pool", pools.POOL, pools.KILL_POINT, "longest_us")]
    return (f"IDs in the process that takes them: prefetched bursts of {pools.BURST_IDS:,}, and "
            f"as fast as servers deliver them:\n\n{table}\n\nOne of two servers is "
            f"killed under {pools.KILL_RATE:,} IDs a second: the longest take "
            f"{_median(longest, '.2f')} ms ({_spread(longest, '.2f')}).")


def _clients(figures):
    rows = []
    for name in clients.LANGUAGES:
        def values(key, factor=1, at=name):
            return [value * factor for value in
                    figures.values("clients", at, clients.POINT, key)]

        ratios = figures.ratio_of("clients", (name, clients.POINT), "ids_per_s", "plain_per_s")
        rows.append([name, _median(values("plain_per_s"), ",.0f"),
                     _median(values("ids_per_s"), ",.0f"), _median(ratios, ".0f"),
                     _spread(ratios, ".0f"), _median(values("p50_us"), ".1f"),
                     _median(values("p99_us"), ".1f"), _median(values("longest_us"), ",.0f"),
                     _median(values("late_ms"), ".1f")])
    table = _table(["language", "generated client, IDs/s", "package, IDs/s", "ratio",
                    "min to max", "p50 us", "p99 us", "longest us", "deadline + ms"], rows)
    rows = [[name, *(_median(figures.values("clients", name, clients.POINT, key), ",.0f")
                     for key in ("calls_per_s", "redis_per_s"))] for name in clients.REDIS]
    other = _table(["language", "package without prefetch, calls/s", "Redis client, INCR/s"], rows)
    return ("next_id of one thread with prefetched IDs, compared with get_id of the client that "
            f"Thrift generates; latencies at {clients.PACE_PER_S:,} a second:\n\n{table}\n\n"
            f"next_id without prefetch, compared with a Redis client:\n\n{other}")


TABLES = {"throughput": _throughput, "batches": _batches, "latency": _latency, "idle": _idle,
          "neighbours": _neighbours, "cost": _cost, "generator": _generator, "memory": _memory,
          "audit": _audit, "scraped": _scraped, "local-socket": _local_socket, "pool": _pool,
          "relay": _relay, "tls": _tls, "clients": _clients}


def _machine(about, options):
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    kind = "virtual machine" if about["virtual"] else "machine"
    return (f"{about['day']}: {about['cpu']}, {about['cores']} cores, a {kind}, Linux "
            f"{about['kernel']}; {about['compiler']}; {versions}. Other programs used "
            f"{100 * about['busy_before']:.0f}% of the CPU before the run and "
            f"{100 * about['busy_meanwhile']:.0f}% during it; the load average beforehand was "
            f"{about['load_average_before']:.2f}. The server and the load generator share the "
            f"machine. Medians of {options['rounds']} interleaved rounds of "
            f"{options['seconds']:g} s per point.")


def _goals(figures, options):
    rows = [[goal.what, goal.wanted, goal.measured, goal.verdict]
            for goal in goals(figures, options["experiments"])]
    note = ""
    if options["rounds"] < ROUNDS_OF_A_VERDICT:
        note = (f"\n\nWith {options['rounds']} rounds the verdicts are of little worth: it takes "
                f"{ROUNDS_OF_A_VERDICT}.")
    return _table(["what", "goal", "median (min to max)", "verdict"], rows) + note


def _failures(figures):
    lines = [f"* {record['experiment']}, {record['server']}, {record['point']}, round "
             f"{record['round']}: {record['error']}" for record in figures.failures]
    return "\n".join(lines)


def markdown(run, plots=()):
    """Returns the report of a run in the form of bench/run --json. plots: names of the plots."""
    figures = Figures(run["records"])
    options = run["options"]
    parts = ["# What `bench/run` measured",
             "For the method and the limits, see [performance.md](../explanation/performance.md).",
             "## The machine", _machine(run["machine"], options),
             "The servers: " + "; ".join(f"{name}, {server.what}"
                                         for name, server in SERVERS.items()) + ".",
             "## Goals", _goals(figures, options)]
    for name in options["experiments"]:
        parts += [f"## {EXPERIMENTS[name].title}", TABLES[name](figures)]
        parts += [f"![{title}]({plot}.svg)" for plot, title in PLOTS.get(name, [])
                  if plot in plots]
    if figures.failures:
        parts += ["## What failed", _failures(figures)]
    return "\n\n".join(parts) + "\n"


def is_good(run):
    """Returns whether everything was measured and, if there were enough rounds for a verdict, all
    goals are met."""
    figures = Figures(run["records"])
    options = run["options"]
    if figures.failures or not figures.records:
        return False
    return (options["rounds"] < ROUNDS_OF_A_VERDICT or
            all(goal.met for goal in goals(figures, options["experiments"])))
