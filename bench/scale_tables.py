# SPDX-License-Identifier: Apache-2.0
"""The figures of bench/scale as tables, and a model for larger fleets."""
import math

HOSTS = (10, 1000, 100000)
LAYOUT_IDS_PER_S = 4096000  # limit of one worker ID
LAYOUT_SHARE = 0.5          # share of it, so that another server can take over the clients of one
MAX_CONNECTIONS = 10000     # snowflaked's default
# share of it: pools choose at random, and those of a dead server are added
CONNECTION_SHARE = 0.5
CONNECTIONS_EACH = 2
LEAST_SERVERS = 3           # one may die while another is restarted
CORES = 1                   # cores of a server that calls may use
WORKER_IDS = 32             # worker IDs of a datacenter
SPARE = 2                   # worker IDs per server: all servers may be killed and replaced at once
WRITE_EVERY_S = 150         # a quarter of --reservation
# for lists: by one server, by all servers (docs/internals/registration.md)
READS_PER_S = (4, 1000)
READ_US = 80                # CPU time of ZooKeeper per read (likewise)


def table(heads, rows):
    """Returns a Markdown table. The first column is aligned left."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def rounded(value, digits=2):
    """Rounds to this many significant digits."""
    shown = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(shown)))) if shown else 0
    return f"{shown:,.{places}f}"


def _cost_row(what, servers, count, point):
    each, others = point["each"], rounded(point["span"]["others_cpu"])
    if point.get("overloaded"):
        return [what, servers, f"{count:,}", *["too busy"] * 5, others]
    return [what, servers, f"{count:,}", rounded(each["calls"]), rounded(each["bytes_received"]),
            rounded(each["bytes_sent"]), rounded(max(0, each["cpu_us"])),
            rounded(point["holder_cpu_us"]), others]


def _at(rate):
    return f"{rate:,.0f} IDs/s" if rate else "idle"


def costs(figures):
    """Returns the table of the costs of one more pool or relay."""
    rows = [_cost_row(f"pool, {_at(point['rate'])}", point["servers"], point["pools"], point)
            for point in figures.get("pools", {}).get("points", [])]
    if "relays" in figures:
        point = figures["relays"]
        rows.append(_cost_row("relay, idle", point["servers"], point["relays"], point))
    return rows and table(
        ["each, a second", "servers", "count", "calls", "bytes received", "bytes sent",
         "servers' CPU us", "own CPU us", "cores of others"], rows)


def _points_of_deaths(figures):
    """(who, point)"""
    found = [(f"{point['count']:,} pools, {_at(point['rate'])}", point)
             for point in figures.get("death", {}).get("points", [])]
    if "relays" in figures:
        point = figures["relays"]["death"]
        found.append((f"{point['count']:,} relays", point))
    return found


def deaths(figures):
    rows = [[who, point["servers"], point["lost"], point["settled"],
             point["surge"]["10 ms"]["connections"], point["surge"]["100 ms"]["connections"],
             point["steady"]["100 ms"]["calls"], point["surge"]["100 ms"]["calls"],
             point["failed"], point["empty_buffer"], rounded(point["longest_ms"])]
            for who, point in _points_of_deaths(figures)]
    return rows and table(
        ["after one server dies", "servers", "connections lost", "new in 4 s",
         "most in 10 ms", "most in 100 ms", "most calls in 100 ms, before", "after",
         "takes failed", "takes from an empty buffer", "longest take ms"], rows)


def returns(figures):
    rows = [[who, point["servers"], point["lost"],
             *(point["growth"].get(after, "-") for after in ("0.1", "0.3", "1", "3", "10")),
             point["return"]["100 ms"]["connections"]]
            for who, point in _points_of_deaths(figures)]
    return rows and table(
        ["after its return", "servers", "connections before", "after 0.1 s", "0.3 s", "1 s", "3 s",
         "10 s", "most in 100 ms"], rows)


def server(figures):
    if "server" not in figures:
        return ""
    one = figures["server"]
    return table([f"one server under full load, get_id_runs of {one['count']}", ""],
                 [["calls a second", rounded(one["calls_per_s"], 3)],
                  ["CPU us of a call", rounded(one["us_per_call"])]])


def memory(figures):
    rows = []
    if "connections" in figures:
        one = figures["connections"]
        rows += [["a connection, in the server", rounded(one["server_bytes"])],
                 ["a connection, in the kernel", rounded(one["kernel_bytes"])]]
    if "relays" in figures:
        rows += [[f"a relay, {name}", rounded(figures["relays"]["memory"][key])]
                 for name, key in (("resident", "rss"), ("proportional share", "pss"))]
    return rows and table(["memory", "bytes"], rows)


def zookeeper_costs(figures):
    """Returns (us of CPU time per write, us per second for the sessions)."""
    seldom, often = figures["zookeeper"]["points"]
    write_us = (often["cpu_us"] - seldom["cpu_us"]) / (often["writes"] - seldom["writes"])
    return write_us, max(0, seldom["cpu_us"] - write_us * seldom["writes"])


def zookeeper(figures):
    if "zookeeper" not in figures:
        return ""
    write_us, rest_us = zookeeper_costs(figures)
    count = figures["zookeeper"]["registered"]
    rows = [[f"{count} servers, --reservation {point['reservation_ms']:,}",
             rounded(point["writes"]), rounded(point["packets"]), rounded(point["cpu_us"])]
            for point in figures["zookeeper"]["points"]]
    rows += [["a write, computed from these", 1, "-", rounded(write_us)],
             ["the sessions", 0, "-", rounded(rest_us)]]
    return table(["ZooKeeper, a second", "writes", "requests", "us of CPU"], rows)


# Limits for the death of a server

AT_ONCE = 0.5     # share of the lost connections, within 100 ms
FEW = 50          # connections: this many may come together
RECONNECTS = 2          # connections per lost connection


def _storms_of(point):
    """Returns (whether it occurred, description) for each fault."""
    at_once, back = (point[name]["100 ms"]["connections"] for name in ("surge", "return"))
    limit = max(FEW, AT_ONCE * point["lost"])
    return [
        (point["failed"] > 0, f"{point['failed']} takes failed"),
        (point["settled"] > max(FEW, RECONNECTS * point["lost"]),
         f"{point['settled']} connections made for {point['lost']} that were lost"),
        (at_once > limit, f"{at_once} connections to the other servers within 100 ms"),
        (back > limit, f"{back} connections to the server that came back within 100 ms"),
    ]


def storms(figures):
    """Returns the faults at the death or the return of a server."""
    points = list(figures.get("death", {}).get("points", []))
    if "relays" in figures:
        points.append(figures["relays"]["death"])
    return [f"of {point['count']:,} with {point['servers']} servers: {what}"
            for point in points for is_so, what in _storms_of(point) if is_so]


# The model


def servers_for(hosts, rate, calls, us_per_call):
    """Returns (number of servers, reason for this number)."""
    wishes = {
        "one fails while another restarts": LEAST_SERVERS,
        "IDs": math.ceil(hosts * rate / (LAYOUT_IDS_PER_S * LAYOUT_SHARE)),
        "connections": math.ceil(hosts * CONNECTIONS_EACH / (MAX_CONNECTIONS * CONNECTION_SHARE)),
        "CPU": math.ceil(hosts * calls * us_per_call / 1e6 / CORES),
    }
    why = max(wishes, key=wishes.get)
    return wishes[why], why


def _model_of(hosts, point, busy_us, write_us):
    """Returns the needs of this many hosts, by name."""
    rate, each = point["rate"], point["each"]
    calls = hosts * each["calls"]
    servers, why = servers_for(hosts, rate, each["calls"], busy_us)
    connections = hosts * CONNECTIONS_EACH
    writes, reads = servers / WRITE_EVERY_S, min(READS_PER_S[0] * servers, READS_PER_S[1])
    return {
        "IDs a second": f"{hosts * rate:,.0f}",
        "calls a second": rounded(calls),
        "Mbit a second, without headers": rounded(
            8 * hosts * (each["bytes_received"] + each["bytes_sent"]) / 1e6),
        "cores of the servers, busy": rounded(calls * busy_us / 1e6),
        "the same, idle between calls": rounded(hosts * each["cpu_us"] / 1e6),
        "connections": f"{connections:,}",
        "**servers**": f"**{servers:,}**",
        "limited by": why,
        "datacenter IDs": math.ceil(servers * SPARE / WORKER_IDS),
        "connections of a server": rounded(connections / servers),
        "added to each if one dies": rounded(connections / servers / (servers - 1)),
        "ZooKeeper: writes a second": rounded(writes),
        "reads a second, at most": rounded(reads),
        "cores of ZooKeeper": rounded((writes * write_us + reads * READ_US) / 1e6),
    }


def model(figures):
    """Returns the model for hosts with a pool or a relay each, which all take at the measured
    rate."""
    taking = [point for point in figures.get("pools", {}).get("points", [])
              if point["rate"] and not point["overloaded"]]
    if not taking or "zookeeper" not in figures or "server" not in figures:
        return ""
    write_us, _ = zookeeper_costs(figures)
    columns = [_model_of(hosts, taking[0], figures["server"]["us_per_call"], write_us)
               for hosts in HOSTS]
    return table([f"hosts that take {_at(taking[0]['rate'])} each",
                  *(f"{hosts:,}" for hosts in HOSTS)],
                 [[what, *(column[what] for column in columns)] for what in columns[0]])


def markdown(run):
    about, figures = run["machine"], run["figures"]
    virtual = ", a virtual machine" if about["virtual"] else ""
    parts = [
        f"{about['day']}, {about['cores']} cores ({about['cpu']}{virtual}), Linux "
        f"{about['kernel']}, {about['versions']['snowflaked']}; `{run['command']}`.\n",
        costs(figures), server(figures), deaths(figures), returns(figures), memory(figures),
        zookeeper(figures), model(figures),
        "".join(f"Not measured: {name}: {why}\n"
                for name, why in (run["left_out"] | run["failed"]).items()),
    ]
    return "\n".join(part for part in parts if part)
