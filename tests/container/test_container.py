# SPDX-License-Identifier: Apache-2.0
"""Builds deploy/Dockerfile without changes, on a base made by mmdebstrap, because tests use no
registry; and runs the image as Kubernetes does."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from certificates import Authority
from harness import HANG_GUARD_S, wait_for
from kubernetes_bases import kustomize

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASE = "docker.io/library/debian:12-slim"
IMAGE = "localhost/snowflaked"
MOST_IMAGE_BYTES = 40_000_000
USER = 7609
ADMIN = "127.0.0.1:9990"
VERSION = "0.1.0+of.a.test"
# what runc can set in a container of a test
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
STORE = pathlib.Path(os.environ.get("SNOWFLAKE_TEST_BUILDS", ROOT / "build-tests")) / "containers"


def run(*command, stderr=subprocess.PIPE, **settings):
    """Runs a command. Returns its standard output. If it fails, the error contains its messages."""
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=stderr, text=True,
                          check=False, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def storage():
    return ("--root", STORE / "store", "--runroot", STORE / "run", "--storage-driver", "vfs")


def buildah(command, *arguments):
    return run("buildah", *storage(), command, *arguments,
               env={**os.environ, "BUILDAH_ISOLATION": "chroot"})


def podman(command, *arguments, **settings):
    return run("podman", *storage(), "--runtime", "runc", "--cgroup-manager", "cgroupfs", command,
               *arguments, **settings)


def make_base():
    """Makes an image that replaces Debian's for the Dockerfile."""
    archive = STORE / "base.tar"
    run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", archive)
    container = buildah("from", "scratch")
    buildah("add", "-q", container, archive, "/")
    buildah("commit", "-q", "--rm", container, BASE)


def make_image():
    with tempfile.TemporaryDirectory() as directory:
        # only tracked files
        files = run("git", "-C", ROOT, "ls-files", "-z").split("\0")
        for file in filter(None, files):
            target = pathlib.Path(directory, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, target)
        buildah("build", "--format=docker", "--pull-never", "-t", IMAGE,
                f"--build-arg=VERSION={VERSION}", "-f", f"{directory}/deploy/Dockerfile", directory)


def setUpModule():
    STORE.mkdir(parents=True, exist_ok=True)
    make_base()
    make_image()


def tearDownModule():
    buildah("rmi", "--all", "--force")
    shutil.rmtree(STORE)


class Image(unittest.TestCase):
    def test_it_is_small_and_holds_the_two_programs(self):
        [image] = json.loads(podman("image", "inspect", IMAGE))
        self.assertLess(image["Size"], MOST_IMAGE_BYTES)
        self.assertEqual(image["Config"]["User"], str(USER))
        # an option here would replace the same option of a config file
        self.assertEqual((image["Config"]["Entrypoint"], image["Config"].get("Cmd")),
                         (["snowflaked"], None))
        self.assertEqual(image["Healthcheck"]["Test"],
                         ["CMD", "curl", "-fsS", "-m", "2", "-o", "/dev/null",
                          f"http://{ADMIN}/livez"])
        for path in ("bin/sh", "usr/bin/apt", "src"):
            with self.assertRaises(AssertionError, msg=path):
                podman("run", "--rm", *LIMITS, f"--entrypoint=/{path}", IMAGE)
        for program in ("snowflaked", "snowflakectl"):
            self.assertRegex(podman("run", "--rm", *LIMITS, f"--entrypoint={program}", IMAGE,
                                    "--version"), f"^{program} {re.escape(VERSION)}$")
        for program in ("find", "chmod"):  # for the init container of ordinal/
            podman("run", "--rm", *LIMITS, f"--entrypoint={program}", IMAGE, "--version")


class Lives(unittest.TestCase):
    """A container like that of a pod of ordinal/: read-only, without privileges, on a volume whose
    directory belongs to root and the server's group."""

    def setUp(self):
        volume = tempfile.TemporaryDirectory()
        self.addCleanup(volume.cleanup)
        self.volume = pathlib.Path(volume.name)
        os.chown(self.volume, 0, USER)
        self.volume.chmod(0o2775)

    @contextlib.contextmanager
    def server(self, *options, own=True):
        """`own`: with the admin address and a state directory on the command line."""
        if own:
            options = (f"--admin-listen={ADMIN}", "--state-directory=/var/lib/snowflaked/state",
                       *options)
        name = f"snowflake-{os.getpid() % 1000}-3"
        podman("run", "--detach", f"--name={name}", f"--hostname={name}", "--network=none",
               "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", *LIMITS,
               f"--volume={self.volume}:/var/lib/snowflaked", IMAGE, *options)
        try:
            self.wait_healthy(name)
            yield name
        finally:
            podman("rm", "--force", "--time=0", name)

    @staticmethod
    def wait_healthy(name):
        def is_healthy():
            with contextlib.suppress(AssertionError):
                podman("healthcheck", "run", name)
                return True
            return False
        wait_for(is_healthy, f"{name} to be healthy")

    def ids(self, name):
        return [int(line) for line in
                podman("exec", name, "snowflakectl", "id", "-n", 100).splitlines()]

    def test_ids_stay_unique_over_stops_and_kills(self):
        seen = []
        for end in ("stop", "kill"):
            for _ in range(2):
                with self.server("--worker-id=ordinal") as name:
                    seen += self.ids(name)
                    self.assertEqual(podman("exec", name, "snowflakectl", "decode", "--json",
                                            seen[-1]).count('"worker_id":3'), 1)
                    podman(end, name)
        self.assertEqual(len(set(seen)), 4 * 100)
        self.assertEqual(seen, sorted(seen))

    def test_a_stop_is_in_order(self):
        with self.server("--worker-id=1") as name:
            self.ids(name)
            podman("stop", f"--time={HANG_GUARD_S}", name)
            [container] = json.loads(podman("inspect", name))
            self.assertEqual(container["State"]["ExitCode"], 0)
            # podman returns the server's standard error separately
            self.assertIn("event=worker-released",
                          podman("logs", name, stderr=subprocess.STDOUT))

    def test_tls_of_a_config_file(self):
        """The image has no --listen that would replace the file's, and the health check works."""
        pair = Authority(self.volume).issue("server", "IP:127.0.0.1")
        os.chown(pair.key, 0, USER)
        pathlib.Path(pair.key).chmod(0o640)
        (self.volume / "snowflaked.conf").write_text(
            "[snowflaked]\nlisten=tls:127.0.0.1:7609\n"
            f"admin-listen={ADMIN}\n"
            "tls-certificate=/var/lib/snowflaked/server.pem\n"
            "tls-key=/var/lib/snowflaked/server.key\n"
            "state-directory=/var/lib/snowflaked/state\n")
        with self.server("--config=/var/lib/snowflaked/snowflaked.conf", own=False) as name:
            self.assertIn("event=listening address=tls:127.0.0.1:7609",
                          podman("logs", name, stderr=subprocess.STDOUT))

    def test_health_is_that_of_the_server(self):
        with self.server("--worker-id=1") as name:
            podman("kill", "--signal=STOP", name)
            with self.assertRaises(AssertionError):
                podman("healthcheck", "run", name)
            podman("kill", "--signal=CONT", name)
            self.wait_healthy(name)


class Pod(unittest.TestCase):
    """The container of the StatefulSet in ordinal/, with its arguments, environment, files and
    probes. It has its own network without other hosts."""

    def setUp(self):
        objects = {one["kind"]: one for one in yaml.safe_load_all(kustomize("ordinal"))}
        self.spec = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.files = {name: pathlib.Path(directory.name, name) for name in ("config", "state")}
        for path in self.files.values():
            path.mkdir()
            os.chown(path, 0, USER)
            path.chmod(0o2775)
        for name, text in objects["ConfigMap"]["data"].items():
            (self.files["config"] / name).write_text(text)
        self.name = f"snowflake-{os.getpid()}-2"

    def start(self):
        variables = {"POD_NAME": self.name, "POD_NAMESPACE": "default"}
        self.assertEqual({one["name"] for one in self.spec["env"]}, set(variables))
        arguments = [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], argument)
                     for argument in self.spec["args"]]
        mounts = [f"--volume={self.files[mount['name']]}:{mount['mountPath']}"
                  + (":ro" if mount.get("readOnly") else "") for mount in self.spec["volumeMounts"]]
        podman("run", "--detach", f"--name={self.name}", f"--hostname={self.name}",
               "--network=none", "--read-only", "--cap-drop=ALL",
               "--security-opt=no-new-privileges", *LIMITS, *mounts, IMAGE, *arguments)
        self.addCleanup(podman, "rm", "--force", "--time=0", self.name)
        self.pid = podman("inspect", "--format={{.State.Pid}}", self.name)

    def probe(self, kind):
        """Returns the status of a probe, requested as by the kubelet."""
        ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}
        get = self.spec[kind]["httpGet"]
        script = ("import sys, http.client; c = http.client.HTTPConnection('127.0.0.1',"
                  f" int(sys.argv[1]), timeout={HANG_GUARD_S}); c.request('GET', sys.argv[2]);"
                  " print(c.getresponse().status)")
        with contextlib.suppress(AssertionError):  # no process listens yet, or any longer
            return int(run("nsenter", "--target", self.pid, "--net", "/usr/bin/python3", "-c",
                           script, ports[get["port"]], get["path"]))
        return None

    def wait_probe(self, kind, status):
        wait_for(lambda: self.probe(kind) == status, f"{kind} to be {status}")

    def test_its_life_as_the_probes_see_it(self):
        self.start()
        self.wait_probe("readinessProbe", 200)
        self.assertEqual(self.probe("livenessProbe"), 200)
        draw = ("exec", self.name, "snowflakectl", "id")
        number = int(podman(*draw))
        self.assertEqual(number >> 12 & 31, 2)
        podman("kill", "--signal=TERM", self.name)
        self.wait_probe("readinessProbe", 503)
        self.assertEqual(self.probe("livenessProbe"), 200)
        # it still serves while the endpoint is removed
        self.assertGreater(int(podman(*draw)), number)
        self.assertEqual(podman("wait", self.name), "0")
