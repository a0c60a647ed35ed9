# SPDX-License-Identifier: Apache-2.0
"""/metrics, as Prometheus reads it: the format in every state, and the correctness of each number.
"""
import os
import re
import subprocess
import threading
import time
import zlib
from collections import Counter

from admin import LISTEN, Admin
from bindings import ROOT
from certificates import Authority
from harness import HANG_GUARD_S, SLOW, ServerTest, dead_address, reserve_ahead, scaled, wait_for
from wire import COMPACT, STRICT, UNFRAMED, Form
from zookeeper_case import ZooKeeperTest

UNVERSIONED = Form(True, "unversioned")
DURATION = "snowflake_call_duration_seconds"
SAMPLE = re.compile(r'([a-z_]+)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})?) (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
TYPE = re.compile(r"# TYPE (\S+) (\S+)")


def name_of(family, **labels):
    """Returns the name of a sample with its labels, in the given order."""
    inner = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{family}{{{inner}}}" if labels else family


def calls(method, result="ok"):
    return name_of("snowflake_calls_total", method=method, result=result)


def refusals(reason):
    return name_of("snowflake_refusals_total", reason=reason)


def closed(reason):
    return name_of("snowflake_connections_closed_total", reason=reason)


def errors(kind):
    return name_of("snowflake_protocol_errors_total", kind=kind)


class Metrics:
    """One scrape: samples by name and labels, and types of families by name."""

    def __init__(self, text):
        self.text = text
        self.types = dict(TYPE.findall(text))
        self.samples = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            match = SAMPLE.fullmatch(line)
            if match is None or match[1] + match[2] in self.samples:
                raise AssertionError(f"not a sample, or there twice: {line}")
            self.samples[match[1] + match[2]] = float(match[3])

    def __getitem__(self, name):
        return self.samples[name]

    def family(self, name):
        """Returns the sum of all samples of a family."""
        return sum(value for sample, value in self.samples.items()
                   if sample.partition("{")[0] == name)

    def counts(self):
        """Returns the samples that may only grow."""
        return {sample: value for sample, value in self.samples.items()
                if (self.types.get(sample.partition("{")[0]) == "counter" or
                    sample.startswith(DURATION)) and not sample.startswith("process_")}

    def since(self, before):
        """Returns the growth of counts that have grown, except times."""
        return Counter({sample: value - before.samples.get(sample, 0)
                        for sample, value in self.counts().items()
                        if value != before.samples.get(sample, 0) and
                        not sample.startswith((f"{DURATION}_bucket", f"{DURATION}_sum"))})


class MetricsTest(ServerTest):
    def start(self, *options, **settings):
        server = super().start(*LISTEN, *options, **settings)
        self.admin = Admin(server)
        return server

    def scrape(self, admin=None):
        return Metrics((admin or self.admin).ask("/metrics").text)

    def checked(self, admin=None):
        """Returns a scrape, after promtool has accepted it."""
        metrics = self.scrape(admin)
        run = subprocess.run(["promtool", "check", "metrics"], input=metrics.text, text=True,
                             capture_output=True, timeout=HANG_GUARD_S)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""), metrics.text)
        return metrics

    def await_value(self, sample, value):
        wait_for(lambda: self.scrape()[sample] == value, what=f"{sample} {value}")

    def assert_counted(self, before, expected, but=()):
        """Checks that these counts have grown by these amounts, and no others. Bytes and times are
        counted after the reply was sent, when the client may already have read it."""
        def grown():
            return {sample: n for sample, n in self.scrape().since(before).items()
                    if sample.partition("{")[0] not in but}

        wait_for(lambda: grown().keys() >= expected.keys(), what=f"all of {expected}")
        self.await_value(f"{DURATION}_count", self.scrape().family("snowflake_calls_total"))
        self.assertEqual(grown(), expected)


OK = {
    "get_worker_id": (), "get_timestamp": (), "get_id": ("good",), "get_datacenter_id": (),
    "get_ids": ("good", 7), "get_worker": (), "get_workers": (), "get_counters": (),
    "get_ulids": ("good", 5), "get_uuids": ("good", 3), "get_id_runs": ("good", 5000),
}
IDS = {"get_id": ("snowflake_ids_total", 1), "get_ids": ("snowflake_ids_total", 7),
       "get_ulids": ("snowflake_ulids_total", 5), "get_uuids": ("snowflake_ids_total", 3),
       "get_id_runs": ("snowflake_ids_total", 5000)}
REFUSED = [
    ("get_id", ("1",), "agent"), ("get_ids", ("1", 7), "agent"), ("get_ids", ("good", 0), "count"),
    ("get_ids", ("good", -1), "count"), ("get_ulids", ("1", 7), "agent"),
    ("get_ulids", ("good", 0), "count"), ("get_uuids", ("good", 0), "count"),
    ("get_id_runs", ("1", 7), "agent"), ("get_id_runs", ("good", 0), "count"),
]
FOREIGN = {
    "http": b"GET / HTTP/1.1\r\n\r\n", "tls": b"\x16\x03\x01\x02\x00\x01",
    "proxy": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", "theader": b"\0\0\0\x64\x0f\xff\0\0",
    "json": b'[1,"get_id",1,0,{}]', "zlib": zlib.compress(b"get_id"), "thrift": b"\0\0\0\x20ab cd",
}


class Calls(MetricsTest):
    def one(self, server, form, method, arguments, expected):
        """Makes a call. Checks that only these counts, its connection and its bytes are counted."""
        before = self.scrape()
        message = form.call(method, *arguments)
        with server.connect() as connection:
            data = connection.encode(message)
            connection.send(data)
            received = self.received(connection, form)
        expected = {"snowflake_connections_accepted_total": 1, f"{DURATION}_count": 1,
                    "snowflake_received_bytes_total": len(data),
                    "snowflake_sent_bytes_total": received, **expected}
        with self.subTest(method=method, arguments=arguments, form=str(form)):
            # waits depend on the disk: the reservation of an idle server ends soon
            self.assert_counted(before, expected, but=("snowflake_call_waits_total",))

    @staticmethod
    def received(connection, form):
        """Returns the bytes of the only reply, after decoding it."""
        got = []
        read = connection.socket.recv
        connection._transport.socket = type("Tap", (), {
            "recv": lambda _, size: (got.append(piece := read(size)), piece)[1]})()
        connection.reply(form)
        return sum(map(len, got))

    def test_each_method(self):
        server = self.start()
        for form in (STRICT, UNFRAMED, COMPACT, UNVERSIONED):
            for method, arguments in OK.items():
                expected = {calls(method): 1}
                if method in IDS:
                    family, n = IDS[method]
                    expected[family] = n
                    if family == "snowflake_ids_total":
                        expected[name_of("snowflake_agent_ids_total", agent="good")] = n
                self.one(server, form, method, arguments, expected)

    def test_each_refusal(self):
        server = self.start()
        for form in (STRICT, COMPACT):
            for method, arguments, reason in REFUSED:
                self.one(server, form, method, arguments,
                         {calls(method, "refused"): 1, refusals(reason): 1})
            self.one(server, form, "get_idea", (),
                     {calls("other", "refused"): 1, refusals("method"): 1})
            self.one(server, form, "get_id", (None,),
                     {calls("get_id", "refused"): 1, refusals("agent"): 1})

    def test_pipelined(self):
        server = self.start()
        n = scaled(2000, 100)
        before = self.scrape()
        with server.connect() as connection:
            row = STRICT.call("get_id", "good") + STRICT.call("get_id", "1") + \
                STRICT.call("get_idea") + STRICT.call("get_worker_id")
            connection.send(row * n)
            for _ in range(4 * n):
                connection.reply(STRICT)
        self.assert_counted(before, {
            calls("get_id"): n, calls("get_id", "refused"): n, calls("other", "refused"): n,
            calls("get_worker_id"): n, refusals("agent"): n, refusals("method"): n,
            "snowflake_ids_total": n, name_of("snowflake_agent_ids_total", agent="good"): n,
            f"{DURATION}_count": 4 * n, "snowflake_connections_accepted_total": 1},
            but=("snowflake_received_bytes_total", "snowflake_sent_bytes_total"))

    def test_durations(self):
        server = self.start()
        began = time.monotonic()
        with server.connect() as connection:
            for _ in range(200):
                connection.call(STRICT, "get_ids", "good", 100)
        took = time.monotonic() - began
        self.await_value(f"{DURATION}_count", 200)
        metrics = self.scrape()
        self.assertLessEqual(metrics[f"{DURATION}_sum"], took)
        self.assertGreater(metrics[f"{DURATION}_sum"], 200 * 1e-6)
        buckets = [value for sample, value in metrics.samples.items()
                   if sample.startswith(f"{DURATION}_bucket")]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual(buckets[-1], 200)


class OverHttp(MetricsTest):
    def test_counted_as_calls(self):
        """Requests are counted by method and result, without connections, bytes and durations."""
        self.start()
        agent = name_of("snowflake_agent_ids_total", agent="good")
        for path, expected in {
                "/id?agent=good": {calls("get_id"): 1, "snowflake_ids_total": 1, agent: 1},
                "/id?agent=1": {calls("get_id", "refused"): 1, refusals("agent"): 1},
                "/ids?agent=good&n=7": {calls("get_ids"): 1, "snowflake_ids_total": 7, agent: 7},
                "/ids?agent=good&n=0": {calls("get_ids", "refused"): 1, refusals("count"): 1},
                "/workers.json": {calls("get_workers"): 1}}.items():
            before = self.scrape()
            self.admin.ask(path)
            with self.subTest(path=path):
                self.assertEqual(self.scrape().since(before), expected)


class Waiting(MetricsTest):
    def test_parked(self):
        server = self.start(*SLOW)
        with server.connect() as connection:
            before = self.scrape()
            began = time.monotonic()
            sent = 0

            def is_parked():
                """Sends as many calls again if all were answered before the scrape."""
                nonlocal sent
                more = max(16 * 5, sent)
                connection.send(STRICT.call("get_id", "good") * more)
                sent += more
                return self.scrape()["snowflake_waiting_calls"] == 1
            wait_for(is_parked, "a call that is parked")
            for _ in range(sent):
                connection.reply(STRICT)
        self.await_value("snowflake_waiting_calls", 0)
        self.await_value(f"{DURATION}_count", sent)
        took = time.monotonic() - began  # the server may read the clock after the reply has arrived
        after = self.scrape()
        self.assertGreaterEqual(after["snowflake_call_waits_total"], 4)
        spent = after[f"{DURATION}_sum"] - before[f"{DURATION}_sum"]
        self.assertGreater(spent, 3 * 0.1)  # a tick for each wait except the first
        self.assertLessEqual(spent, took * 16)

    def test_reset_while_it_waits(self):
        server = self.start(*SLOW)
        connection = server.connect()
        connection.send(STRICT.call("get_id", "good") * 16 * 300)
        self.await_value("snowflake_waiting_calls", 1)
        connection.reset()
        self.await_value("snowflake_waiting_calls", 0)
        self.assertEqual(self.scrape()["snowflake_connections"], 0)

    def test_refused_for_the_wait(self):
        server = self.start(*SLOW[:-1], 50)
        with server.connect() as connection:
            connection.send(STRICT.call("get_ids", "good", 16) * 3)
            replies = [connection.reply(STRICT) for _ in range(3)]
        metrics = self.scrape()
        refused = sum(reply.value.success is None for reply in replies)
        self.assertGreaterEqual(refused, 1)
        self.assertEqual(metrics[calls("get_ids", "refused")], refused)
        self.assertEqual(metrics.family("snowflake_refusals_total"), refused)


class Connections(MetricsTest):
    def test_protocol_errors(self):
        server = self.start()
        for kind, data in FOREIGN.items():
            before = self.scrape()
            with server.connect() as connection:
                connection.send(data)
                told = len(connection.rest())
            expected = {errors(kind): 1, closed("bad_bytes"): 1,
                        "snowflake_connections_accepted_total": 1,
                        "snowflake_received_bytes_total": len(data)}
            if told:
                expected["snowflake_sent_bytes_total"] = told
            with self.subTest(kind=kind):
                self.assert_counted(before, expected)

    def test_closed_for_their_time(self):
        server = self.start("--frame-timeout", 100, "--idle-timeout", 2000)
        with server.connect() as idle, server.connect() as frame:
            frame.send(b"\0\0\0\x20")
            self.await_value(closed("frame_timeout"), 1)
            self.await_value(closed("idle_timeout"), 1)
            self.assertEqual(idle.rest() + frame.rest(), b"")
        metrics = self.scrape()
        self.assertEqual(metrics.family("snowflake_connections_closed_total"), 2)
        self.assertEqual(metrics.family("snowflake_protocol_errors_total"), 0)

    def test_open(self):
        server = self.start("--max-connections", 50)
        with server.connect() as one, server.connect() as other:
            for connection in (one, other):
                connection.call(STRICT, "get_timestamp")
            metrics = self.scrape()
            self.assertEqual(metrics["snowflake_connections"], 2)
            self.assertEqual(metrics["snowflake_max_connections"], 50)


class Scrapes(MetricsTest):
    def test_never_less(self):
        server = self.start("--threads", 2)
        ended = threading.Event()
        problems = []

        def call(agent):
            with server.connect() as connection:
                while not ended.is_set():
                    connection.call(STRICT, "get_ids", agent, 3)
                    connection.call(STRICT, "get_id", "1")

        def scrape():
            before = self.scrape()
            for _ in range(scaled(100, 10)):
                after = self.scrape()
                problems.extend((sample, value, after.samples.get(sample))
                                for sample, value in before.counts().items()
                                if after.samples.get(sample, -1) < value)
                before = after

        callers = [threading.Thread(target=call, args=(f"agent-{n}",)) for n in range(2)]
        scrapers = [threading.Thread(target=scrape) for _ in range(4)]
        for thread in callers + scrapers:
            thread.start()
        for thread in scrapers:
            thread.join()
        ended.set()
        for thread in callers:
            thread.join()
        self.assertEqual(problems, [])
        self.await_value(f"{DURATION}_count", self.scrape().family("snowflake_calls_total"))
        metrics = self.checked()
        self.assertEqual(metrics["snowflake_ids_total"], 3 * metrics[calls("get_ids")])
        self.assertEqual(metrics[f"{DURATION}_count"], metrics.family("snowflake_calls_total"))

    def test_many_agents(self):
        server = self.start("--threads", 1)
        with server.connect() as connection:
            for n in range(300):
                connection.call(STRICT, "get_ids", f"agent-{n}", n + 1)
        metrics = self.checked()
        agents = {sample: value for sample, value in metrics.samples.items()
                  if sample.startswith("snowflake_agent_ids_total")}
        self.assertEqual(agents, {
            **{name_of("snowflake_agent_ids_total", agent=f"agent-{n}"): n + 1
               for n in range(256)},
            name_of("snowflake_agent_ids_total", agent="other_agents"): sum(range(257, 301))})

    def test_sinks_with_quotes_and_of_bytes(self):
        """Each sink has a label, and promtool accepts all of them."""
        quoted = f'{self.directory}/a "log" of \\ and \u00e9'
        sinks = {f"file:{quoted}": quoted.replace("\\", "\\\\").replace('"', '\\"'),
                 **{os.fsdecode(f"file:{self.directory}/".encode() + name):
                    f"{self.directory}/a\\\\{octal}"
                    for name, octal in ((b"a\xff", 377), (b"a\xfe", 376))}}
        self.start(*(word for sink in sinks for word in ("--audit-log", sink)))
        metrics = self.checked()
        for label in sinks.values():
            for family in ("queued_ids", "dropped_ids_total", "failing"):
                sample = name_of(f"snowflake_audit_{family}", sink=f"file:{label}")
                self.assertEqual(metrics[sample], 0)

    def test_the_process_in_its_unit(self):
        """The unit in deploy/ only exposes processes in /proc."""
        unit = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
                'mount -t proc -o subset=pid proc /proc && exec "$0" "$@"')
        if subprocess.run([*unit, "true"], capture_output=True, check=False).returncode:
            self.skipTest("needs root and a mount namespace")
        began = int(time.time())
        for wrapper in ((), unit):
            with self.subTest(wrapper):
                self.state = self.directory / f"state {len(wrapper)}"
                self.start(wrapper=wrapper)
                process = {name: value for name, value in self.checked().samples.items()
                           if name.startswith("process_")}
                started = process["process_start_time_seconds"]
                self.assertGreaterEqual(started, began - 1)
                self.assertLessEqual(started, time.time())
                self.assertEqual(len(process), 6)
                for _ in range(50):
                    self.assertEqual(self.scrape()["process_start_time_seconds"], started)


class States(MetricsTest):
    def assert_state(self, name, ready):
        metrics = self.checked()
        self.assertEqual([sample for sample, value in metrics.samples.items()
                          if sample.startswith("snowflake_server_state") and value],
                         [name_of("snowflake_server_state", state=name)])
        self.assertEqual(metrics["snowflake_ready"], ready)
        self.assertEqual("snowflake_worker_info{" in metrics.text,
                         name not in ("starting", "waiting"))

    def test_waiting_serving_draining(self):
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        server.wait_event("state", to="waiting")
        self.assert_state("waiting", 0)
        server = self.start("--worker-id", 1, "--drain-delay", 2 * 1000 * HANG_GUARD_S)
        self.assert_state("serving", 1)
        server.begin_stop()
        self.assert_state("draining", 0)
        server.kill()

    def test_starting(self):
        server = self.launch(*LISTEN, "--zookeeper", dead_address(self), "--datacenter-id", 1)
        self.admin = Admin(server)
        self.assert_state("starting", 0)


def documented(manual):
    """Returns {name: (type, labels)} from the section METRICS."""
    section = manual.split("\n.SH METRICS\n")[1].split("\n.SH ")[0]
    found = {}
    for name, about in re.findall(r"\n\.TP\n\.B ([a-z_]+)\n\(([^)]*)\)", section):
        kind, *labels = re.split("[;,] ", about)
        found[name] = (kind, frozenset(labels))
    return found


class Manual(ZooKeeperTest, MetricsTest):
    maxDiff = None

    def test_manual(self):
        """The manual lists each family with its type and labels, and no others."""
        server = self.member(*LISTEN, "--audit-log", f"file:{self.directory}/log")
        self.admin = Admin(server)
        server.call("get_id", "good")
        wait_for(lambda: {"snowflake_worker_ids", "snowflake_registry_clock_skew_seconds"} <=
                 self.scrape().types.keys(), what="what ZooKeeper tells")
        pair = Authority(self.directory).issue("other")
        other = self.member(*LISTEN, "--listen", "tls:127.0.0.1:0", "--tls-certificate",
                            pair.certificate, "--tls-key", pair.key)
        wait_for(lambda: "snowflake_peers_clock_skew_seconds" in
                 self.scrape(Admin(other)).types, what="the clock of the other")
        relay = self.launch(*LISTEN, "--relay", "%s:%d" % server.address).wait_ready()
        relay.call("get_id", "good")
        seen = {}
        for admin in (self.admin, Admin(other), Admin(relay)):
            metrics = self.checked(admin)
            for family, kind in metrics.types.items():
                seen.setdefault(family, (kind, set()))
            for sample in metrics.samples:
                name, _, labels = sample.partition("{")
                family = name if name in seen else DURATION
                seen[family][1].update(label for label, _ in LABEL.findall(labels))
        seen[DURATION][1].discard("le")
        manual = (ROOT / "docs" / "man" / "snowflaked.8").read_text()
        self.assertEqual(documented(manual),
                         {family: (kind, frozenset(labels))
                          for family, (kind, labels) in seen.items()})
        self.assertEqual({family for family in seen if family.startswith("snowflake_relay_")},
                         self.scrape(Admin(relay)).types.keys() - self.scrape().types.keys())
