# SPDX-License-Identifier: Apache-2.0
"""A release: equal bytes, the right files, and IDs from what is installed. Programs and packages
come from the files of a release, not from the source tree."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import releases
from harness import HANG_GUARD_S, wait_for
from releases import ROOT, run

WORK = pathlib.Path()  # set by run: the directory of releases
EXAMPLES = ROOT / "docs" / "examples"
SIGNATURE = "SHA256SUMS.asc"
# Each file of a release: a pattern, with V for the version, and how many there are.
FILES = (
    (r"snowflake-V\.tar\.gz", 1), (r"snowflake-V\.spdx\.json", 1), (r"SHA256SUMS", 1),
    (SIGNATURE, 1), (r"snowflaked_V_\w+\.buildinfo", 1),
    (r"(snowflaked|snowflakectl|libsnowflake(-client)?0)_V_\w+\.deb", 4),
    (r"(snowflaked|snowflakectl|libsnowflake(-client)?0)-dbgsym_V_\w+\.deb", 4),
    (r"libsnowflake(-client)?-dev_V_\w+\.deb", 2),
    (r"snowflaked_client-V-py3-none-any\.whl", 1), (r"snowflaked[_-]client-V\.tar\.gz", 1),
    (r"snowflake-client-V\.(tgz|jar|pom)", 3), (r"snowflake-go-V\.tar\.gz", 1),
    (r"snowflaked-V-\w+\.oci\.tar", 1))


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="snowflake-released-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.release = WORK / "signed"
        self.version = re.search(r"snowflake-(.*)\.spdx\.json",
                                 self.find(r"snowflake-.*\.spdx\.json").name)[1]

    def find(self, pattern):
        """Returns the file whose name matches the pattern."""
        [found] = (file for file in self.release.iterdir() if re.fullmatch(pattern, file.name))
        return found


class Contents(ReleaseTest):
    def test_two_releases_are_equal(self):
        one, other = ({file.name: file.read_bytes() for file in (WORK / name).iterdir()}
                      for name in ("signed", "other"))
        del one[SIGNATURE]
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual([], [name for name in one if one[name] != other[name]])

    def test_what_is_there(self):
        names = [file.name for file in self.release.iterdir()]
        for pattern, count in FILES:
            pattern = pattern.replace("V", re.escape(self.version))
            found = [name for name in names if re.fullmatch(pattern, name)]
            self.assertEqual(len(found), count, pattern)
            names = [name for name in names if name not in found]
        self.assertEqual(names, [])

    def test_checksums_and_signature(self):
        """By the commands of the documentation. Of each other file, there is a checksum."""
        copy = self.scratch / "copy"
        shutil.copytree(self.release, copy)
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=copy)
        listed = {line.split()[1] for line in (copy / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual({file.name for file in copy.iterdir()} - listed,
                         {"SHA256SUMS", SIGNATURE})
        verify = ("gpg", "--verify", SIGNATURE, "SHA256SUMS")
        self.assertIn("Good signature", run(*verify, cwd=copy, env=releases.with_key(WORK)))
        with (copy / "SHA256SUMS").open("a") as file:
            file.write("\n")
        self.assertIn("BAD signature", run(*verify, cwd=copy, env=releases.with_key(WORK),
                                           status=1))

    def test_the_source_archive(self):
        run("tar", "--extract", "--directory", self.scratch, "--file",
            self.find(r"snowflake-\d.*\.tar\.gz"))
        sources = self.scratch / f"snowflake-{self.version}"
        self.assertEqual(run(sources / "deploy/version").strip(), self.version)
        tracked = run("git", "-C", WORK / "a", "ls-files", "-z").split("\0")
        for name in filter(None, tracked):
            self.assertTrue(os.path.lexists(sources / name), name)

    def test_the_package_of_the_server_has_what_operators_need(self):
        package = run("dpkg-deb", "--contents", self.find(r"snowflaked_.*\.deb"))
        for name in ("operations/runbook.md", "examples/monitoring/alerts.yaml",
                     "examples/monitoring/dashboard.json", "how-to/upgrade.md"):
            self.assertIn(f"/usr/share/doc/snowflaked/{name}\n", package)

    def test_each_file_and_dependency_is_in_the_sbom(self):
        sbom = json.loads(self.find(r".*\.spdx\.json").read_text())
        packages = {one["SPDXID"]: one for one in sbom["packages"]}
        self.assertEqual(len(packages), len(sbom["packages"]))
        checksums = dict(reversed(line.split()) for line in
                         (self.release / "SHA256SUMS").read_text().splitlines())
        described = {one["packageFileName"]: one["checksums"][0]["checksumValue"]
                     for one in packages.values() if "packageFileName" in one}
        del checksums[self.find(r".*\.spdx\.json").name], checksums[self.find(
            r".*\.buildinfo").name]
        self.assertEqual(described, checksums)
        edges = {}
        for one in sbom["relationships"]:
            self.assertIn(one["relatedSpdxElement"], packages)
            edges.setdefault((one["spdxElementId"], one["relationshipType"]), set()).add(
                packages[one["relatedSpdxElement"]]["name"])
        for file in self.release.glob("*.deb"):
            named = run("dpkg-deb", "--field", file, "Depends")
            [identifier] = (key for key, one in packages.items()
                            if one.get("packageFileName") == file.name)
            self.assertEqual(edges[identifier, "DEPENDS_ON"],
                             set(re.findall(r"(?:^|, )([\w.+-]+)", named)), file)
        [contained] = (names for (_, kind), names in edges.items() if kind == "CONTAINS")
        self.assertLessEqual({"snowflaked", "snowflakectl", "libc6", "libglib2.0-0", "libssl3",
                              "coreutils", "findutils"}, contained)


class Refusals(ReleaseTest):
    def refuse(self, status, words, *arguments, sources=None, **environment):
        printed = run((sources or WORK / "a") / "deploy/release", *arguments, status=status,
                      env={**releases.with_key(WORK), **environment})
        self.assertIn(words, printed)

    def test_wrong_arguments(self):
        missing = self.scratch / "no" / "such"
        (self.scratch / "file").touch()
        self.refuse(2, "DIRECTORY")
        self.refuse(2, f"{self.scratch} is not an empty directory; use a new one", self.scratch)
        self.refuse(2, f"{missing.parent}: no such directory; create it", missing)

    def test_nothing_is_made(self):
        directory = self.scratch / "release"
        self.refuse(1, "gpg has no secret key nobody@snowflake.invalid", "--sign",
                    "nobody@snowflake.invalid", directory)
        changed = self.scratch / "sources"
        releases.clone(WORK / "a", changed)
        with (changed / "README.md").open("a") as file:
            file.write("\n")
        self.refuse(1, "changes are not committed (README.md, 1 in all); commit or stash them",
                    directory, sources=changed)
        shutil.rmtree(changed / ".git")
        self.refuse(1, f"{changed} is not a git repository; clone", directory, sources=changed)
        self.assertFalse(directory.exists())


    def test_a_key_that_has_expired(self):
        home, key = self.scratch / "gnupg", "expired@snowflake.invalid"
        home.mkdir(mode=0o700)
        environment = {**os.environ, "GNUPGHOME": str(home)}
        self.addCleanup(run, "gpgconf", "--kill", "gpg-agent", env=environment)
        run("gpg", "--batch", "--passphrase", "", "--faked-system-time", "20200101T000000",
            "--quick-generate-key", key, "default", "default", "1d", env=environment)
        self.refuse(1, "cannot sign: gpg ended with status ", "--sign", key,
                    self.scratch / "release", GNUPGHOME=str(home))


class Clients(ReleaseTest):
    """The client packages, in a network with a server of the release, and no other host."""

    def setUp(self):
        super().setUp()
        for package in ("snowflaked", "snowflakectl"):
            run("dpkg-deb", "--extract", self.find(rf"{package}_.*\.deb"), self.scratch / "server")
        self.alone = subprocess.Popen(
            ("unshare", "--net", "sh", "-ec", "ip link set lo up; exec \"$@\"", "sh",
             self.scratch / "server/usr/sbin/snowflaked", "--state-directory",
             self.scratch / "state"), stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.alone.stderr.close)
        self.addCleanup(self.alone.wait, HANG_GUARD_S)
        self.addCleanup(self.alone.terminate)
        for line in self.alone.stderr:
            if " event=ready " in line:
                return
        self.fail(f"the server ended with {self.alone.wait(HANG_GUARD_S)}")

    def call(self, script, **environment):
        """Runs a script in an empty directory, with $RELEASE and $EXAMPLES. It must print IDs."""
        directory = self.scratch / "program"
        directory.mkdir(exist_ok=True)
        printed = run("nsenter", "--net", f"--target={self.alone.pid}", "sh", "-exc", script,
                      cwd=directory, env={
                          "PATH": os.environ["PATH"], "HOME": str(self.scratch),
                          "LC_ALL": "C.UTF-8", "RELEASE": str(self.release),
                          "EXAMPLES": str(EXAMPLES), "VERSION": self.version, **environment})
        self.assertRegex(printed, r"(?m)^.*\b\d{18,19}\b")

    def test_python_wheel(self):
        self.call("/usr/bin/python3 -m venv venv; venv/bin/pip install --no-index $RELEASE/*.whl\n"
                  "venv/bin/python3 $EXAMPLES/first-id.py\n"
                  "venv/bin/pip show snowflaked-client | grep \"^Version: $VERSION$\"")

    def test_python_sdist(self):
        self.call("/usr/bin/python3 -m venv --system-site-packages venv\n"
                  "venv/bin/pip install --no-index --no-build-isolation "
                  "$RELEASE/snowflaked?client-*.tar.gz\n"
                  "venv/bin/python3 $EXAMPLES/first-id.py")

    def test_node(self):
        self.call("npm install --offline $RELEASE/snowflake-client-*.tgz\n"
                  "cp $EXAMPLES/first-id.mjs . && node first-id.mjs\n"
                  "grep -F \"$VERSION\" node_modules/snowflake-client/package.json")

    def test_java(self):
        self.call("export CLASSPATH=$(echo $RELEASE/snowflake-client-*.jar)\n"
                  "javac -d . $EXAMPLES/FirstId.java && java -cp $CLASSPATH:. FirstId\n"
                  "grep \"<version>$VERSION</version>\" $RELEASE/*.pom")

    def test_go(self):
        self.call("tar -xf $RELEASE/snowflake-go-*.tar.gz\n"
                  "go mod init my-program\n"
                  "go mod edit -require example.com/snowflake@v0.0.0 "
                  "-replace example.com/snowflake=./snowflake-go-$VERSION\n"
                  "cp $EXAMPLES/first-id.go . && go run first-id.go", GOPROXY="off",
                  GOCACHE=os.environ.get("GOCACHE", f"{self.scratch}/cache"))


class Packages(ReleaseTest):
    """The Debian packages on machines that systemd has booted."""

    def on_machines(self, first, newer, *patterns):
        work = WORK / f"{first}-{newer}"
        for name, source in (("first", first), ("newer", newer)):
            if not (work / name).exists():
                (work / name).mkdir(parents=True)
                for file in (WORK / source).glob("*.deb"):
                    shutil.copy(file, work / name)
        print(run(ROOT / "tests/package/run", "--work", work, *patterns))

    def test_a_first_installation(self):
        """The server runs, and a program in C uses the library of the packages."""
        self.on_machines("signed", "other", ".Service.")

    def test_an_upgrade(self):
        """From the earlier version: no call fails, and no ID comes twice."""
        self.on_machines("earlier", "signed", ".Upgrade.", "test_an_upgrade_under_load")


class Image(ReleaseTest):
    def podman(self, *arguments):
        return run("podman", "--root", self.scratch / "store", "--runroot", self.scratch / "run",
                   "--storage-driver", "vfs", "--runtime", "runc", "--cgroup-manager", "cgroupfs",
                   *arguments)

    def test_it_issues_ids(self):
        loaded = self.podman("load", "--quiet", "--input", self.find(r".*\.oci\.tar"))
        image = loaded.split()[-1]
        self.assertEqual(image.rpartition("/")[2],
                         f"snowflaked:{self.version.replace('+', '-')}")
        [about] = json.loads(self.podman("image", "inspect", image))
        self.assertEqual((about["User"], about["Config"]["Entrypoint"]), ("7609", ["snowflaked"]))
        name = self.podman(
            "run", "--detach", "--network=none", "--read-only", "--cap-drop=ALL",
            "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", image,
            "--admin-listen=127.0.0.1:9990").split()[-1]
        self.addCleanup(self.podman, "rm", "--force", "--time=0", "--volumes", name)

        def is_ready():
            with contextlib.suppress(AssertionError):
                self.podman("exec", name, "curl", "-fsS", "http://127.0.0.1:9990/readyz")
                return True
            return False

        wait_for(is_ready, "the container to be ready")
        ids = self.podman("exec", name, "snowflakectl", "id", "-n", 3).split()
        self.assertEqual(len({int(number) for number in ids}), 3)
        self.assertEqual(self.podman("exec", name, "snowflaked", "--version").strip(),
                         f"snowflaked {self.version}")

    def test_docker_reads_it(self):
        """By manifest.json, in which older versions of docker look."""
        with tarfile.open(self.find(r".*\.oci\.tar")) as archive:
            [image] = json.load(archive.extractfile("manifest.json"))
            config = json.load(archive.extractfile(image["Config"]))
            self.assertEqual(config["config"]["Healthcheck"]["Test"],
                             ["CMD", "curl", "-fsS", "-m", "2", "-o", "/dev/null",
                              "http://127.0.0.1:9990/livez"])
            for name in image["Layers"]:
                archive.getmember(name)
