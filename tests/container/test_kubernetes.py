# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes: each base is made as kubectl makes it, and held against the API and against
the server that it starts."""
import configparser
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import harness

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASES = ROOT / "deploy" / "kubernetes"
# before this minor version of 1 kubectl knows directories and patches by other keys
KNOWS_KEYS = 21
OLD_KEYS = ((re.compile(r"^resources:\n  - \.\./base$", re.M), "bases:\n  - ../base"),
            (re.compile(r"^patches:\n  - path: ", re.M), "patchesStrategicMerge:\n  - "))
STOP_SPARE_S = 5  # what a stop may take beyond its options


def kubectl_minor():
    told = subprocess.run(["kubectl", "version", "--client", "-o", "json"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return int(re.match(r"\d+", json.loads(told)["clientVersion"]["minor"]).group())


def kustomize(name):
    """The objects of a base, as YAML."""
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "kubernetes"
        shutil.copytree(BASES, copy)
        if kubectl_minor() < KNOWS_KEYS:
            file = copy / name / "kustomization.yaml"
            text = file.read_text()
            for pattern, old in OLD_KEYS:
                text = pattern.sub(old, text)
            file.write_text(text)
        return subprocess.run(["kubectl", "kustomize", str(copy / name)], check=True,
                              stdout=subprocess.PIPE, text=True).stdout


def validate(text):
    return subprocess.run(["node", str(HERE / "validate.mjs")], input=text, text=True,
                          stdout=subprocess.PIPE, check=False)


class Checks:
    """What holds for each base."""
    name = None

    @classmethod
    def setUpClass(cls):
        cls.text = kustomize(cls.name)
        cls.objects = {(one["kind"], re.sub(r"-[a-z0-9]{10}$", "", one["metadata"]["name"])): one
                       for one in yaml.safe_load_all(cls.text)}
        cls.set = cls.objects["StatefulSet", "snowflake"]["spec"]
        cls.pod = cls.set["template"]["spec"]
        cls.container = cls.pod["containers"][0]
        config = configparser.ConfigParser()
        config.read_string(cls.objects["ConfigMap", "snowflaked"]["data"]["snowflaked.conf"])
        cls.config = config["snowflaked"]

    def test_the_api_knows_all_of_it(self):
        found = validate(self.text)
        self.assertEqual((found.stdout, found.returncode),
                         (f"{len(self.objects)} objects are valid\n", 0))

    def test_what_the_api_does_not_know_is_told(self):
        for right, wrong in (("replicas: 3", "replicas: three"), ("periodSeconds", "period"),
                             ("maxUnavailable", "maxUnavailabel"), ("serviceName:", "service:"),
                             ("policyTypes", "policyTypos")):
            with self.subTest(wrong):
                self.assertIn(right, self.text)
                self.assertEqual(validate(self.text.replace(right, wrong)).returncode, 1)

    def test_the_server_takes_the_config(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(self.objects["ConfigMap", "snowflaked"]["data"]["snowflaked.conf"])
            file.flush()
            told = subprocess.run([str(harness.SNOWFLAKECTL), "config", "check", file.name],
                                  stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((told.stderr, told.returncode), ("", 0), told.stdout)

    def test_whatever_is_named_is_there(self):
        labels = self.set["template"]["metadata"]["labels"]
        ports = {port["name"] for port in self.container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            self.assertIn(self.container[probe]["httpGet"]["port"], ports)
        self.assertEqual(self.set["selector"]["matchLabels"], labels)
        for kind, name in (("Service", "snowflake"), ("Service", "snowflake-servers")):
            service = self.objects[kind, name]["spec"]
            self.assertEqual(service["selector"], labels)
            self.assertLessEqual({port["targetPort"] for port in service["ports"]}, ports)
        for kind, key in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
            self.assertEqual(self.objects[kind, "snowflake"]["spec"][key]["matchLabels"], labels)
        self.assertIn(("Service", self.set["serviceName"]), self.objects)
        self.assertIn(("ServiceAccount", self.pod["serviceAccountName"]), self.objects)
        volumes = {one["name"] for one in self.pod["volumes"]} | {
            one["metadata"]["name"] for one in self.set.get("volumeClaimTemplates", [])}
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, volumes)

    def test_a_stop_has_the_time_that_it_may_take(self):
        options_ms = int(self.config["drain-delay"]) + int(self.config.get("stop-timeout", "5000"))
        self.assertGreater(self.pod["terminationGracePeriodSeconds"],
                           options_ms / 1000 + STOP_SPARE_S)

    def test_it_is_nobody_in_particular(self):
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])
        self.assertRegex((ROOT / "deploy" / "Dockerfile").read_text(),
                         rf"(?m)^USER {self.pod['securityContext']['runAsUser']}$")
        own = self.container["securityContext"]
        self.assertEqual((own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"],
                          own["capabilities"]), (False, True, {"drop": ["ALL"]}))
        self.assertFalse(self.pod["automountServiceAccountToken"])

    def test_servers_start_at_once_and_lie_apart(self):
        self.assertEqual(self.set["podManagementPolicy"], "Parallel")
        self.assertEqual({one["topologyKey"] for one in self.pod["topologySpreadConstraints"]},
                         {"kubernetes.io/hostname", "topology.kubernetes.io/zone"})


class Zookeeper(Checks, unittest.TestCase):
    name = "zookeeper"

    def test_worker_ids_are_zookeepers(self):
        self.assertIn("zookeeper", self.config)
        self.assertNotIn("worker-id", self.config)
        self.assertNotIn("volumeClaimTemplates", self.set)


class Ordinal(Checks, unittest.TestCase):
    name = "ordinal"

    def test_worker_ids_are_ordinals_with_a_volume_each(self):
        self.assertEqual(self.config["worker-id"], "ordinal")
        self.assertLessEqual(self.set["replicas"], 32)
        claim = self.set["volumeClaimTemplates"][0]
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOncePod"])
        mount = next(one["mountPath"] for one in self.container["volumeMounts"]
                     if one["name"] == claim["metadata"]["name"])
        self.assertTrue(self.config["state-directory"].startswith(f"{mount}/"))
