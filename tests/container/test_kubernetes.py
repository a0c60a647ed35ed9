# SPDX-License-Identifier: Apache-2.0
"""Builds each base of deploy/kubernetes as kubectl does, and compares it with the API and with the
server that it starts."""
import configparser
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

import harness
from certificates import Authority
from kubernetes_bases import kustomize

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STOP_SPARE_S = 5  # maximum time of a stop beyond its options
PROBES = {"startupProbe", "livenessProbe", "readinessProbe"}
# kinds other than services that select pods, with the key of the selector
SELECTORS = {"PodDisruptionBudget": "selector", "NetworkPolicy": "podSelector"}


def validate(text):
    return subprocess.run(["node", str(HERE / "validate.mjs")], input=text, text=True,
                          stdout=subprocess.PIPE, check=False)


class Checks:
    """Checks of each base. `name`: its directory; `kind` and `app`: its workload; `config_file`:
    the map and the file of its options; `wrong`: a change that the API must refuse."""
    name = kind = app = config_file = wrong = None

    @classmethod
    def setUpClass(cls):
        cls.text = kustomize(cls.name)
        cls.objects = {(one["kind"], re.sub(r"-[a-z0-9]{10}$", "", one["metadata"]["name"])): one
                       for one in yaml.safe_load_all(cls.text)}
        cls.set = cls.objects[cls.kind, cls.app]["spec"]
        cls.pod = cls.set["template"]["spec"]
        cls.container = cls.pod["containers"][0]
        cls.containers = [*cls.pod.get("initContainers", []), *cls.pod["containers"]]
        map_name, file_name = cls.config_file
        cls.config_text = cls.objects["ConfigMap", map_name]["data"][file_name]
        config = configparser.ConfigParser()
        config.read_string(cls.config_text)
        cls.config = config["snowflaked"]

    def test_the_api_knows_all_of_it(self):
        found = validate(self.text)
        self.assertEqual((found.stdout, found.returncode),
                         (f"{len(self.objects)} objects are valid\n", 0))

    def test_what_the_api_does_not_know_is_told(self):
        for right, wrong in (("periodSeconds", "period"), ("policyTypes", "policyTypos"),
                             *self.wrong):
            with self.subTest(wrong):
                self.assertIn(right, self.text)
                self.assertEqual(validate(self.text.replace(right, wrong)).returncode, 1)

    def test_the_server_takes_the_config(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "snowflaked.conf")
            file.write_text(self.with_files(pathlib.Path(directory)))
            told = subprocess.run([str(harness.SNOWFLAKECTL), "config", "check", str(file)],
                                  stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((told.stderr, told.returncode), ("", 0), told.stdout)

    def with_files(self, _directory):
        """The config, with the files that it names."""
        return self.config_text

    def test_whatever_is_named_is_there(self):
        labels = self.set["template"]["metadata"]["labels"]
        ports = {port["name"] for port in self.container["ports"]}
        selected = self.set["selector"]["matchLabels"]
        for probe in PROBES & self.container.keys():
            self.assertIn(self.container[probe]["httpGet"]["port"], ports)
        self.assertLessEqual(selected.items(), labels.items())
        for (kind, name), one in self.objects.items():
            if name.startswith("snowflake-relay") != (self.app == "snowflake-relay"):
                continue  # tls/ has both
            if kind == "Service":
                self.assertEqual(one["spec"]["selector"], selected)
                self.assertLessEqual({port["targetPort"] for port in one["spec"]["ports"]}, ports)
            elif kind in SELECTORS:
                self.assertEqual(one["spec"][SELECTORS[kind]]["matchLabels"], selected)
        self.assertIn(("NetworkPolicy", self.app), self.objects)
        self.assertIn(("ServiceAccount", self.pod["serviceAccountName"]), self.objects)
        map_name, file_name = self.config_file
        self.assertIn(f"--config=/etc/snowflaked/{file_name}", self.container["args"])
        self.assertIn(map_name, [one["configMap"]["name"][:len(map_name)]
                                 for one in self.pod["volumes"] if "configMap" in one])
        volumes = {one["name"] for one in self.pod["volumes"]} | {
            one["metadata"]["name"] for one in self.set.get("volumeClaimTemplates", [])}
        self.assertEqual({mount["name"] for container in self.containers
                          for mount in container["volumeMounts"]}, volumes)

    def test_a_stop_has_the_time_that_it_may_take(self):
        options_ms = int(self.config["drain-delay"]) + int(self.config.get("stop-timeout", "5000"))
        self.assertGreater(self.pod["terminationGracePeriodSeconds"],
                           options_ms / 1000 + STOP_SPARE_S)

    def test_it_is_nobody_in_particular(self):
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])
        self.assertRegex((ROOT / "deploy" / "Dockerfile").read_text(),
                         rf"(?m)^USER {self.pod['securityContext']['runAsUser']}$")
        for container in self.containers:
            own = container["securityContext"]
            self.assertEqual((own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"],
                              own["capabilities"]), (False, True, {"drop": ["ALL"]}))
        self.assertFalse(self.pod["automountServiceAccountToken"])


    def test_one_image_that_kind_has(self):
        """With the tag latest, Kubernetes asks a registry by default."""
        version = re.search(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[1]
        for container in self.containers:
            self.assertIn(container["image"].rpartition("/")[2],
                          {f"snowflaked:{version}", "stunnel:5.68"})
            self.assertEqual(container["imagePullPolicy"], "IfNotPresent")

    def test_secrets_are_for_the_server_only(self):
        """Everyone can read a file of the default mode, 0644, and the server refuses that."""
        self.assertEqual(self.pod["securityContext"]["fsGroup"],
                         self.pod["securityContext"]["runAsGroup"])
        for volume in self.pod["volumes"]:
            if "secret" in volume:
                self.assertEqual(volume["secret"]["defaultMode"], 0o440)


class Servers(Checks):
    kind, app, config_file = "StatefulSet", "snowflake", ("snowflaked", "snowflaked.conf")
    wrong = (("replicas: 3", "replicas: three"), ("maxUnavailable", "maxUnavailabel"),
             ("serviceName:", "service:"))

    def test_their_services_and_their_budget(self):
        self.assertLessEqual({("Service", "snowflake"), ("Service", self.set["serviceName"]),
                              ("PodDisruptionBudget", "snowflake")}, self.objects.keys())

    def test_a_server_that_waits_is_not_restarted(self):
        paths = {probe: self.container[probe]["httpGet"]["path"] for probe in PROBES}
        self.assertEqual(paths, {"startupProbe": "/livez", "livenessProbe": "/livez",
                                 "readinessProbe": "/readyz"})
        if "zookeeper" in self.config:
            self.assertEqual(self.config["connect-timeout"], "3600000")  # the most

    def test_servers_start_at_once_and_lie_apart(self):
        self.assertEqual(self.set["podManagementPolicy"], "Parallel")
        self.assertEqual({one["topologyKey"] for one in self.pod["topologySpreadConstraints"]},
                         {"kubernetes.io/hostname", "topology.kubernetes.io/zone"})


class Zookeeper(Servers, unittest.TestCase):
    name = "zookeeper"

    def test_worker_ids_are_zookeepers(self):
        self.assertIn("zookeeper", self.config)
        self.assertNotIn("worker-id", self.config)
        self.assertNotIn("volumeClaimTemplates", self.set)


class Ordinal(Servers, unittest.TestCase):
    name = "ordinal"

    def test_worker_ids_are_ordinals_with_a_volume_each(self):
        self.assertEqual(self.config["worker-id"], "ordinal")
        self.assertLessEqual(self.set["replicas"], 32)
        claim = self.set["volumeClaimTemplates"][0]
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOncePod"])
        mount = next(one["mountPath"] for one in self.container["volumeMounts"]
                     if one["name"] == claim["metadata"]["name"])
        self.assertTrue(self.config["state-directory"].startswith(f"{mount}/"))

    def test_what_a_group_may_write_is_mended(self):
        """The init container removes what fsGroup can add to the state directory."""
        command = self.pod["initContainers"][0]["command"]
        self.assertEqual(self.pod["initContainers"][0]["image"], self.container["image"])
        image = (ROOT / "deploy" / "make-image-tree").read_text()
        for program in ("find", "chmod"):
            self.assertIn(program, command)
            self.assertRegex(image, rf"/usr/bin/{program}\b")
        with tempfile.TemporaryDirectory() as directory:
            volume = pathlib.Path(directory, "volume")
            state = volume / "state"
            own = [str(volume) if word == "/var/lib/snowflaked"
                   else str(os.geteuid()) if word == str(self.pod["securityContext"]["runAsUser"])
                   else word for word in command]
            volume.mkdir(mode=0o700)
            subprocess.run(own, check=True)  # before the first start
            state.mkdir()
            state.chmod(0o2770)
            (state / "a.json").touch()
            (state / "a.json").chmod(0o660)
            subprocess.run(own, check=True)
            self.assertEqual([oct(path.stat().st_mode & 0o7777) for path in
                              (state, state / "a.json")], ["0o2750", "0o640"])


class WithFiles:
    """Certificates and a password, as the Secrets of tls/ have them."""

    def with_files(self, directory):
        authority = Authority(directory)
        pair = authority.issue("server", "DNS:snowflake-servers")
        (directory / "auth").write_text("user:password")
        (directory / "auth").chmod(0o440)
        text = self.config_text
        for name, path in (("tls/tls.crt", pair.certificate), ("tls/tls.key", pair.key),
                           ("tls/ca.crt", authority.certificate),
                           ("zookeeper/auth", directory / "auth")):
            text = text.replace(f"/etc/snowflaked-{name}", str(path))
        return text

    def test_all_of_it_uses_tls(self):
        self.assertRegex(self.config["listen"], "^tls:")
        self.assertRegex(self.config.get("relay", "tls:"), "^tls:")
        for argument in self.container["args"]:
            self.assertNotRegex(argument, "--listen|--advertise=[^t]")


class ZookeeperTls(WithFiles, Servers, unittest.TestCase):
    name = "tls"

    def test_stunnel_outlives_the_server(self):
        """Without ZooKeeper, the server could not release its worker ID."""
        sidecar = self.pod["initContainers"][0]
        self.assertEqual(sidecar["restartPolicy"], "Always")
        conf = self.objects["ConfigMap", "snowflake-stunnel"]["data"]["zookeeper.conf"]
        self.assertEqual(",".join(re.findall(r"^accept = (\S+)$", conf, re.M)),
                         self.config["zookeeper"])
        self.assertIn("\nverifyChain = yes\n", conf)
        self.assertEqual(re.findall(r"^connect = (\S+):\d+$", conf, re.M),
                         re.findall(r"^checkHost = (\S+)$", conf, re.M))


class Relay(Checks, unittest.TestCase):
    name = "relay"
    kind, app, config_file = "DaemonSet", "snowflake-relay", ("snowflaked-relay", "relay.conf")
    wrong = (("maxSurge", "maxSruge"), ("internalTrafficPolicy", "internalTraficPolicy"))
    servers = "zookeeper"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fleet = list(yaml.safe_load_all(kustomize(cls.servers)))

    def of_fleet(self, kind, name):
        return next(one["spec"] for one in self.fleet
                    if (one["kind"], one["metadata"]["name"]) == (kind, name))

    def test_it_asks_the_servers_and_they_let_it(self):
        name, _, port = self.config["relay"].removeprefix("tls:").partition(":")
        service = self.of_fleet("Service", name)
        # so the name resolves to all of their addresses
        self.assertEqual(service["clusterIP"], "None")
        self.assertIn(int(port), [one["port"] for one in service["ports"]])
        allowed, = [source["podSelector"]["matchLabels"]
                    for rule in self.of_fleet("NetworkPolicy", "snowflake")["ingress"]
                    for source in rule["from"]
                    if "snowflake-client" in source.get("podSelector", {}).get("matchLabels", {})]
        self.assertLessEqual(allowed.items(), self.set["template"]["metadata"]["labels"].items())

    def test_it_is_none_of_the_servers(self):
        own = self.set["selector"]["matchLabels"]
        for kind, name in (("Service", "snowflake"), ("Service", "snowflake-servers")):
            self.assertNotEqual(self.of_fleet(kind, name)["selector"], own)
        names = {(one["kind"], one["metadata"]["name"]) for one in
                 yaml.safe_load_all(kustomize("zookeeper"))}
        self.assertEqual(names & {(one["kind"], one["metadata"]["name"]) for one in
                                  yaml.safe_load_all(kustomize("relay"))}, set())

    def test_applications_reach_that_of_their_node_also_without_a_server(self):
        service = self.objects["Service", self.app]["spec"]
        self.assertEqual(service["internalTrafficPolicy"], "Local")
        paths = {probe: self.container[probe]["httpGet"]["path"] for probe in PROBES}
        self.assertEqual(paths, {"startupProbe": "/readyz", "livenessProbe": "/livez",
                                 "readinessProbe": "/livez"})

    def test_a_node_has_one_while_it_gets_another(self):
        self.assertEqual(self.set["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 0)
        self.assertNotIn("hostPort", str(self.container["ports"]))

    def test_what_clients_leave_half_done_fits(self):
        """The sum from snowflaked(8), MEMORY, with 64 MiB for everything else."""
        pending = int(self.config["max-pending"]) + 65536 + 65536 + 8 * 10000
        limit = re.fullmatch(r"(\d+)Mi", self.container["resources"]["limits"]["memory"])[1]
        self.assertGreater((int(limit) - 64) << 20, int(self.config["max-connections"]) * pending)


class RelayTls(WithFiles, Relay):
    name = servers = "tls"


class Monitoring(unittest.TestCase):
    def test_the_operator_knows_all_of_it(self):
        text = kustomize("monitoring")
        found = validate(text)
        self.assertEqual((found.stdout, found.returncode), ("3 objects are valid\n", 0))
        for right, wrong in (("podMetricsEndpoints", "podMetricEndpoints"),
                             ("expr:", "expression:")):
            self.assertEqual(validate(text.replace(right, wrong)).returncode, 1, wrong)

    def test_the_alerts_are_those_of_the_other_installations(self):
        printed = subprocess.run([ROOT / "deploy/monitoring/customize-alerts", "--kubernetes"],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual((ROOT / "deploy/kubernetes/monitoring/prometheus-rule.yaml").read_text(),
                         printed)
        alerts = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())
        self.assertEqual(yaml.safe_load(printed)["spec"], alerts)

    def test_monitors_find_servers_and_relays(self):
        pods = {}
        for name in ("zookeeper", "relay"):
            for one in yaml.safe_load_all(kustomize(name)):
                if one["kind"] in ("StatefulSet", "DaemonSet"):
                    pods[one["metadata"]["name"]] = one["spec"]["template"]
        monitors = {one["metadata"]["name"]: one["spec"] for one in
                    yaml.safe_load_all(kustomize("monitoring")) if one["kind"] == "PodMonitor"}
        self.assertEqual(monitors.keys(), pods.keys())
        for name, monitor in monitors.items():
            self.assertLessEqual(monitor["selector"]["matchLabels"].items(),
                                 pods[name]["metadata"]["labels"].items())
            endpoint = monitor["podMetricsEndpoints"][0]
            self.assertIn(endpoint["port"], [port["name"] for port in
                                             pods[name]["spec"]["containers"][0]["ports"]])
            self.assertEqual(endpoint["relabelings"], [{"targetLabel": "job", "replacement": name}])
