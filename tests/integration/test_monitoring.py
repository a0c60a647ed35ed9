# SPDX-License-Identifier: Apache-2.0
"""Alerts, dashboard and runbook: each alert fires for its fault in a real Prometheus that scrapes
real servers, and each query of the dashboard has a result."""
import contextlib
import itertools
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

import yaml

from bindings import ROOT
from certificates import Authority
from harness import PER_TICK, SLOW, dead_address, own_address, split_address, wait_for
from wire import STRICT
from zookeeper_case import ZooKeeperTest

MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
CASES = ROOT / "tests" / "monitoring" / "alerts.yaml"
RUNBOOK = ROOT / "docs" / "operations" / "runbook.md"
MANUAL = ROOT / "docs" / "man" / "snowflaked.8"
ALERTMANAGER = MONITORING / "alertmanager.yml"
CUSTOMIZE = MONITORING / "customize-alerts"
RUNBOOK_URL = "https://example.org/snowflake-c/blob/main/docs/operations/runbook.md"
SCRAPE_MS = 1000  # also the time that a slow server gets to answer
EVALUATION_MS = 200


def rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"]
            for rule in group["rules"]]


def cases():
    """Returns CASES. All scalars are texts: 0x9 is promtool's notation, not a number."""
    return yaml.load(CASES.read_text(), Loader=yaml.BaseLoader)


def runbook_entry(alert):
    return f"{RUNBOOK_URL}#{alert.lower()}"


def labels_of(words):
    """Returns the labels for the words of an instance and its labels in CASES."""
    given = dict(word.split("=", 1) if "=" in word else ("instance", word) for word in words)
    return {name: value for name, value in {"job": "snowflake", **given}.items() if value}


def alert_rule_tests(head, moments):
    """Yields promtool's tests for one alert in one case."""
    severity, _, name = head.rpartition(" ")
    for times, expected in moments.items():
        alerts = [] if expected == "silent" else [
            {"exp_labels": {"severity": severity, **labels_of(labels.split())},
             "exp_annotations": {"summary": summary, "runbook_url": runbook_entry(name)}}
            for labels, summary in expected.items()]
        for time in times.split():
            yield {"eval_time": time, "alertname": name, "exp_alerts": alerts}


def promtool_tests():
    """Returns CASES in promtool's format, a file for each interval of evaluation."""
    def series(text):
        metric, *words = text.split()
        labels = ",".join(f'{name}="{value}"' for name, value in labels_of(words).items())
        return f"{metric}{{{labels}}}"

    files = {}
    for case in cases():
        # rules are evaluated once per sample, but at most every 10 s
        interval = "10s" if case["interval"] == "5s" else case["interval"]
        file = files.setdefault(interval, {
            "rule_files": [str(ALERTS)], "evaluation_interval": interval, "tests": []})
        file["tests"].append({
            "name": case["name"], "interval": case["interval"],
            "input_series": [{"series": series(text), "values": values}
                             for text, values in case["series"].items()],
            "alert_rule_test": [test for head, moments in case["alerts"].items()
                                for test in alert_rule_tests(head, moments)]})
    return list(files.values())


def headings(text):
    return set(re.findall(r"^### (.*)$", text, re.MULTILINE))


class Files(unittest.TestCase):
    def test_promtool_finds_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            files = []
            for number, tests in enumerate(promtool_tests()):
                files.append(pathlib.Path(directory) / f"{number}.yaml")
                files[-1].write_text(yaml.safe_dump(tests))
            for words in (("check", "rules", ALERTS), ("test", "rules", *files)):
                done = subprocess.run(["promtool", *map(str, words)], text=True, check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_alert_is_tried_both_ways(self):
        silent, fires = set(), set()
        for case in itertools.chain(*(file["tests"] for file in promtool_tests())):
            for one in case["alert_rule_test"]:
                (fires if one["exp_alerts"] else silent).add(one["alertname"])
        names = {rule["alert"] for rule in rules()}
        self.assertEqual((silent, fires), (names, names))

    def test_the_runbook_has_each_alert_and_each_event_that_matters(self):
        events = (ROOT / "common" / "log-events.h").read_text()
        log = (ROOT / "common" / "log.c").read_text()
        levels = re.findall(r'LOG_EVENT\(LOG_[A-Z_]+, "([a-z-]+)", (WARNING|ERROR)', events)
        self.assertGreater(len(levels), 20)
        wanted = {rule["alert"] for rule in rules()} | {name for name, _ in levels}
        wanted |= {name.replace("zookeeper", "postgresql") for name in wanted
                   if f'"{name.replace("zookeeper", "postgresql")}",' in log}
        self.assertEqual(headings(RUNBOOK.read_text()), wanted)

    def test_each_entry_of_the_runbook_has_three_parts(self):
        entries = re.split(r"^### (.*)$", RUNBOOK.read_text(), flags=re.MULTILINE)
        for name, text in zip(entries[1::2], entries[2::2]):
            with self.subTest(name):
                self.assertEqual(re.findall(r"^\* \*\*(\w+):\*\*", text, re.MULTILINE),
                                 ["Meaning", "Check", "Fix"])

    def test_alerts_say_where_they_are_explained(self):
        for rule in rules():
            with self.subTest(rule["alert"]):
                self.assertEqual(rule["annotations"]["runbook_url"], runbook_entry(rule["alert"]))
                self.assertIn(rule["labels"]["severity"], ("page", "ticket"))

    def customize(self, *options):
        done = subprocess.run([CUSTOMIZE, *options], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_customized(self):
        """Without options, nothing changes. With all, neither the address nor a job is left."""
        self.assertEqual(self.customize(), ALERTS.read_text())
        text = self.customize("--runbook-url", "https://wiki.example/ids", "--jobs", "ids-.*",
                              "--relay-jobs", "ids-relay.*")
        groups = yaml.safe_load(text)["groups"]
        rule = groups[0]["rules"][0]
        self.assertEqual(rule["annotations"]["runbook_url"],
                         f"https://wiki.example/ids#{rule['alert'].lower()}")
        expressions = " ".join(rule["expr"] for group in groups for rule in group["rules"])
        self.assertEqual(set(re.findall(r'job!?=?~"(.*?)"', expressions)),
                         {"ids-.*", "ids-relay.*"})
        self.assertNotIn(RUNBOOK_URL, text)

    def test_alertmanager_names_alerts_and_receivers_that_exist(self):
        config = yaml.safe_load(ALERTMANAGER.read_text())
        names = {rule["alert"] for rule in rules()}
        for rule in config["inhibit_rules"]:
            source, target = (
                set(re.search(r'alertname=~?"(.*?)"', rule[key][0])[1].split("|"))
                for key in ("source_matchers", "target_matchers"))
            with self.subTest(source):
                self.assertLessEqual(source | target, names)
                self.assertFalse(source & target)
        routes = [config["route"], *config["route"]["routes"]]
        self.assertEqual({route["receiver"] for route in routes},
                         {receiver["name"] for receiver in config["receivers"]})

    def test_a_spike_that_has_ended_does_not_fire(self):
        """A rate contains the spike for the length of its window, so `for` is longer."""
        for rule in rules():
            for window in re.findall(r"rate\(.*?\[(\w+)\]", rule["expr"]):
                with self.subTest(rule["alert"]):
                    self.assertGreater(seconds(rule["for"]), seconds(window))

    def test_there_are_such_metrics(self):
        """All metrics in queries are in the manual, which is compared with real servers."""
        names = set(re.findall(r"\n\.TP\n\.B ((?:snowflake|process)_[a-z_]+)", MANUAL.read_text()))
        self.assertGreater(len(names), 30)
        for file in (ALERTS, CASES, MONITORING / "dashboard.json", RUNBOOK):
            used = set(re.findall(r"\b(?:snowflake|process)_[a-z_]+\b", file.read_text()))
            with self.subTest(file.name):
                self.assertGreater(len(used), 3)
                self.assertEqual({name.removesuffix("_bucket") for name in used} - names, set())


def seconds(duration):
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]


def with_short_durations(text):
    """Returns the rules with a second instead of each minute."""
    def shorter(match):
        number, unit = int(match[1]), match[2]
        return f"{ {'s': number * 1000 // 60, 'm': number * 1000, 'h': number * 60000}[unit]}ms"
    text = re.sub(r"(?<=for: )(\d+)([smh])", shorter, text)
    # rate() needs some scrapes
    return re.sub(r"(?<=\[)(\d+)([mh])(?=\])", lambda match: f"{max(int(match[1]), 4)}s", text)


class Prometheus:
    def __init__(self, test, targets, alerts):
        directory = test.directory / "prometheus"
        directory.mkdir()
        (directory / "alerts.yaml").write_text(alerts)
        (directory / "prometheus.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": f"{SCRAPE_MS}ms", "scrape_timeout": f"{SCRAPE_MS}ms",
                       "evaluation_interval": f"{EVALUATION_MS}ms"},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [{"job_name": "snowflake",
                                "static_configs": [{"targets": targets}]}]}))
        self.fired = {}  # {alert: instances}
        self.address = own_address(test)
        self.log = (directory / "log").open("w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={directory}/prometheus.yaml",
             f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address={self.address}"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        test.addCleanup(self.end)
        wait_for(self._ready, "Prometheus")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def ask(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url) as reply:
            return json.load(reply)["data"]

    def _ready(self):
        with contextlib.suppress(OSError):
            return self.ask("query", query="up")["result"]
        return None

    def look(self):
        """Records the firing alerts, by instance if they have one. An alert can disappear for a
        moment if a scrape is late, so earlier ones are kept."""
        alerts = [alert["labels"] for alert in self.ask("alerts")["alerts"]
                  if alert["state"] == "firing"]
        for labels in alerts:
            self.fired.setdefault(labels["alertname"], set()).add(labels.get("instance"))
        return {labels["alertname"] for labels in alerts}

    def wait_firing(self, *names, limit=30):
        try:
            wait_for(lambda: self.look() and set(names) <= self.fired.keys(),
                     f"{names} to fire")
        except AssertionError as error:
            raise AssertionError(f"{error}\nfired: {self.fired}") from None

    def wait_firing_of(self, name, servers):
        """Waits until the alert fires for each of these servers. Returns the other servers for
        which it has fired."""
        wanted = {admin_address(server) for server in servers}
        wait_for(lambda: self.look() and wanted <= self.fired.get(name, set()),
                 f"{name} to fire of {wanted}")
        return self.fired[name] - wanted


def admin_address(server):
    return server.wait_event("admin-listening").fields["address"]


class Fires(ZooKeeperTest):
    """A fleet with a fault of every kind, and a Prometheus that scrapes every second."""
    own_zookeeper = True

    def with_admin(self, start, *options, **settings):
        return start(*options, "--admin-listen", "127.0.0.1:0", **settings)

    def alone(self, name, *options):
        """Starts a server with its own state directory."""
        return self.with_admin(self.launch, "--state-directory", self.directory / name,
                               *options).wait_ready()

    def relay_of(self, server):
        return self.with_admin(self.launch, "--relay", "%s:%d" % server.address).wait_ready()

    def with_tls(self, start, *options, days, **settings):
        """Starts a server with an additional TLS address."""
        self.authority = Authority(self.directory)
        pair = self.authority.issue("server", "IP:127.0.0.1", days=days)
        return self.with_admin(start, "--listen", "tls:127.0.0.1:0", "--tls-certificate",
                               pair.certificate, "--tls-key", pair.key, *options, **settings)

    def test_alerts_for_real_faults(self):
        members = [self.with_admin(self.member, reservation_ms=12000) for _ in range(3)]
        misused = self.alone("misused", "--audit-log", f"scribe://{dead_address(self)}")
        full = self.alone("full", "--max-connections", 1)
        slow = self.alone("slow", *SLOW, "--max-connections-per-address", 1)
        secured = self.with_tls(self.launch, "--state-directory", self.directory / "secured",
                                "--allow", "127.0.0.1", days=1).wait_ready()
        cut_off, relay = self.relay_of(members[0]), self.relay_of(misused)
        servers = [*members, misused, full, slow, secured, cut_off, relay]
        prometheus = Prometheus(self, [admin_address(server) for server in servers],
                                with_short_durations(ALERTS.read_text()))
        self.keep_busy(slow)
        self.misuse(misused, full, slow)
        self.knock(secured)
        members[0].kill()
        prometheus.wait_firing("SnowflakeDown", "SnowflakeAuditFails", "SnowflakeWorkerIdTwice",
                               "SnowflakeWrongCalls", "SnowflakeProtocolErrors",
                               "SnowflakeRefusesConnections", "SnowflakeRefusesAddress",
                               "SnowflakeNearlyFull", "SnowflakeNearItsLimit",
                               "SnowflakeCertificateEndsSoon", "SnowflakeCertificateEnds",
                               "SnowflakeHandshakesFail", "SnowflakeNotAllowed")
        self.assertEqual(prometheus.wait_firing_of("SnowflakeRefusesConnections", [full]), set())
        self.assertEqual(prometheus.wait_firing_of("SnowflakeRelayDisconnected", [cut_off]), set())
        self.assertEqual(prometheus.fired.keys() & {"SnowflakeRefusesCalls", "SnowflakeOverloaded"},
                         set())
        self.without_zookeeper(prometheus, members[1:])

    def without_zookeeper(self, prometheus, members):
        self.zookeeper.close()
        prometheus.wait_firing("SnowflakeRegistryLost", "SnowflakeZooKeeperLost",
                               "SnowflakeExtendingFails", "SnowflakeReservationRunsOut")
        connection = members[0].connect()
        self.addCleanup(connection.close)
        members[0].wait_event("reservation-spent")
        self.again_and_again(lambda: connection.call(STRICT, "get_id", "good"))
        prometheus.wait_firing("SnowflakeReservationSpent", "SnowflakeNotReady",
                               "SnowflakeRefusesCalls", "SnowflakeDatacenterDown")
        wait_for(lambda: len(prometheus.ask(
            "query", query="snowflake_reservation_left_seconds == 0")["result"]) > len(members),
                 "an idle server with files, that has 0 s left, too")
        self.assertEqual(prometheus.wait_firing_of("SnowflakeReservationSpent", members), set())

    def misuse(self, server, full, narrow):
        """Makes all mistakes of clients, also with a full server, and with one where this address
        has reached its limit."""
        connection, kept = server.connect(), full.connect()
        self.addCleanup(connection.close)
        self.addCleanup(kept.close)

        def once():
            connection.call(STRICT, "get_id", "good")
            connection.call(STRICT, "get_id", "not valid")
            kept.call(STRICT, "get_timestamp")  # an idle connection would be closed to make room
            with socket.create_connection(server.address) as one:
                one.sendall(b"GET / HTTP/1.1\r\n\r\n")
            for other in (full, narrow):
                socket.create_connection(other.address).close()
        self.again_and_again(once)

    def knock(self, server):
        """Connects without TLS to a TLS port, and from an address that is not allowed."""
        def once():
            with contextlib.suppress(ConnectionError):
                with socket.create_connection(split_address(
                        server.addresses[1].removeprefix("tls:"))) as one:
                    one.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with socket.create_connection(server.address, source_address=("127.0.0.9", 0)):
                pass
        self.again_and_again(once)

    def keep_busy(self, server):
        """Gives a SLOW server more calls than it can answer, until the end of the test."""
        connection = server.connect()
        self.addCleanup(connection.close)
        calls = STRICT.call("get_id", "good") * PER_TICK
        connection.send(calls * 20)

        def once():
            connection.send(calls)
            for _ in range(PER_TICK):
                connection.reply(STRICT)
        self.again_and_again(once)

    def again_and_again(self, once):
        """Repeats a function in a thread until the end of the test."""
        end = threading.Event()

        def go_on():
            while not end.wait(0.02):
                once()
        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(end.set)

    def test_the_dashboard_has_something_to_show(self):
        """Each query of the dashboard has a non-empty result."""
        server = self.with_admin(self.member, "--audit-log", f"file:{self.directory}/audit",
                                 reservation_ms=10000)
        other = self.with_tls(self.member, days=90)
        other.call("get_id", "good")
        server.call("get_id", "good")
        relay = self.relay_of(server)
        relay.call("get_id", "good")
        prometheus = Prometheus(self, [admin_address(one) for one in (server, other, relay)],
                                "groups: []")
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        panels = dashboard["panels"]
        variables = [(variable["name"], match[1])
                     for variable in dashboard["templating"]["list"]
                     if (match := re.fullmatch(r"query_result\((.*)\)",
                                               str(variable["query"])))]
        self.assertEqual(len(variables), 1)
        queries = [(panel["title"], target["expr"]) for panel in panels
                   for target in panel.get("targets", ())]
        self.assertGreater(len(queries), 35)
        for title, query in [*queries, *variables]:
            with self.subTest(title, query=query):
                for name, value in (("$job", "snowflake"), ("$instance", ".*"),
                                    ("$datacenter", ".*"),
                                    ("$__rate_interval", "4s")):
                    query = query.replace(name, value)
                wait_for(lambda: prometheus.ask("query", query=query)["result"], query)
