# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the pages in docs/ for operators, in the order of the page, on servers that
share a ZooKeeper. Meanwhile IDs are drawn from all of them.

In a block of commands, "# on HOST" names the host of the lines after it. `systemctl` starts, stops
and restarts the server of that host. An installation restarts the server, too: tests/package/ runs
installations. A command that is not known here is an error.
"""
import json
import pathlib
import re
import shlex
import shutil
import ssl
import subprocess

from bindings import ROOT
from ctl import run
from harness import HANG_GUARD_S
from tls_case import SERVER_NAMES, TlsTest
from zookeeper import CLASS_PATH
from zookeeper_case import (CALLS_WAIT, DATACENTER, SECRET, ZooKeeperTest, now_tick,
                            worker_id_of)

PAGES = ROOT / "docs"
ENSEMBLE = "zk1:2181,zk2:2181,zk3:2181"
CLOSED_ENSEMBLE = "zk1:12181,zk2:12181,zk3:12181"  # at ports that servers do not use
CONFIG = "/etc/snowflaked/snowflaked.conf"
SAMPLE_CONFIG = ROOT / "deploy" / "snowflaked.conf"
SECTION = r"^## (.*)\n"
# Sessions and reservations outlive each stall of a slow machine, so servers always serve.
LONG_SESSION_MS, LONG_RESERVATION_MS = 60000, 60000
SHELL = "org.apache.zookeeper.ZooKeeperMain"
SHELL_CLASS_PATH = [*CLASS_PATH, pathlib.Path("/usr/share/java/commons-cli.jar")]


def sections(page):
    """{heading: text} of a page; the text before the first heading is not in it."""
    parts = re.split(SECTION, (PAGES / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def blocks(text, language):
    """The blocks of code in that language, without their indent."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def commands(text):
    """(host or None, words) of each command."""
    for block in blocks(text, "sh"):
        host = None
        for line in block.replace("\\\n", " ").splitlines():
            if match := re.fullmatch(r"# on (\S+)", line):
                host = match[1]
            elif line and not line.startswith("#"):
                yield host, shlex.split(line, comments=True)


class PageTest(ZooKeeperTest):
    running = ("a.example", "b.example", "c.example")
    page = None

    def setUp(self):
        super().setUp()
        self.servers = {}
        self.run_command(None, ["snowflakectl", "--zookeeper", ENSEMBLE, "registry", "init"])
        for host in self.running:
            self.begin(host)

    def begin(self, host):
        self.servers[host] = self.member(*CALLS_WAIT, session_ms=LONG_SESSION_MS,
                                         reservation_ms=LONG_RESERVATION_MS, creates=False)
        self.draw(self.servers[host]).wait_ids()

    def systemctl(self, host, verb):
        if verb in ("stop", "restart"):
            server = self.servers.pop(host)
            self.assertEqual(server.terminate(), 0)
            self.assertIsNotNone(server.find("worker-released"), server.log)
        if verb in ("start", "restart"):
            self.begin(host)

    def word(self, word):
        if word in self.servers:
            return self.servers[word].name
        hosts = self.zookeeper.connect_string + self.root
        return {ENSEMBLE: hosts, CLOSED_ENSEMBLE: hosts,
                CONFIG: str(SAMPLE_CONFIG)}.get(word, word)

    def run_command(self, host, words):
        if words[0] == "snowflakectl":
            if "bench" in words:  # a short one, on a machine that can stall
                words[words.index("--duration") + 1] = "1"
                words += ["--timeout", "60000"]
            if "quarantine" in words:  # it asks at a terminal
                words.append("--yes")
            done = run(*map(self.word, words[1:]))
            self.assertEqual(done.returncode, 0, (words, done))
        elif words[0] == "systemctl" and words[2] == "snowflaked" and \
                words[1] in ("start", "stop", "restart"):
            self.systemctl(host, words[1])
        elif words[:2] == ["echo", "srvr"]:
            self.assertIn("Mode: ", self.tree.client.command(b"srvr"))
        elif words[:2] == ["apt-get", "install"]:
            self.systemctl(host, "restart")
        else:
            self.fail(f"{self.page}: nothing is known of {words}")

    def run_section(self, heading):
        found = list(commands(sections(self.page)[heading]))
        self.assertGreater(len(found), 0)
        for host, words in found:
            with self.subTest(words):
                self.run_command(host, words)

    def listed(self):
        done = run("--zookeeper", self.zookeeper.connect_string + self.root, "--json", "workers")
        self.assertEqual(done.returncode, 0, done)
        return {worker["address"] for worker in json.loads(done.stdout)}

    def assert_listed(self):
        self.assertEqual(self.listed(), {server.name for server in self.servers.values()})
        worker_ids = [worker_id_of(server) for server in self.servers.values()]
        self.assertEqual(len(set(worker_ids)), len(worker_ids))


class Upgrade(PageTest):
    page = "how-to/upgrade.md"

    def test_upgrade_and_roll_back(self):
        for heading in ("Before you begin", "Upgrade the servers", "Roll back"):
            self.run_section(heading)
        self.assert_listed()


class Checklist(PageTest):
    page = "operations/checklist.md"

    def test_before_the_first_client(self):
        self.run_section("Before the first client")
        self.assert_listed()


class ReplaceAHost(PageTest):
    page = "how-to/replace-a-host.md"

    def test_with_zookeeper(self):
        self.run_section("With ZooKeeper")
        self.assertEqual(set(self.servers), {"b.example", "c.example", "d.example"})
        self.assert_listed()


class Decommission(PageTest):
    page = "how-to/decommission.md"

    def test_a_server(self):
        self.run_section("Remove a server")
        self.assertEqual(set(self.servers), {"a.example", "b.example"})
        self.assert_listed()


class DecommissionDatacenter(PageTest):
    page = "how-to/decommission.md"
    running = ("a.example", "b.example")

    def test_a_datacenter(self):
        other = self.member(datacenter_id=7)
        self.run_section("Remove a datacenter")
        self.assertEqual(self.listed(), {other.name})


class Backup(PageTest):
    page = "how-to/backup.md"
    own_zookeeper = True

    def systemctl(self, host, verb):
        """The data is lost when the last server has stopped."""
        super().systemctl(host, verb)
        if verb == "stop" and not self.servers:
            self.tree.client.delete(self.root, recursive=True)

    def test_zookeepers_data_is_lost(self):
        self.run_section("After a loss")
        self.assertEqual(set(self.servers), set(self.running))
        self.assert_listed()


class Restore(PageTest):
    """test_quarantine covers what the command refuses, and what servers do afterwards."""
    page = "how-to/restore-zookeeper.md"

    def test_the_steps(self):
        for host in self.running:
            self.systemctl(host, "stop")
        before = now_tick()
        self.run_section("Steps")
        floor, _ = self.tree.client.get(f"{self.root}/datacenters/{DATACENTER}/floor")
        self.assertGreater(json.loads(floor)["floor_tick"], before)


class ShellTest(ZooKeeperTest):
    """Runs the commands of zkCli.sh in a page."""

    def zk_cli(self, block, replacements):
        for placeholder, text in {"/snowflake": self.root, **replacements}.items():
            block = block.replace(placeholder, text)
        done = subprocess.run(
            ["java", "-cp", ":".join(map(str, SHELL_CLASS_PATH)), SHELL, "-server",
             self.zookeeper.connect_string], input=block + "quit\n", text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_GUARD_S)
        self.assertEqual(done.returncode, 0, done.stdout)


class RegistryId(ShellTest):
    page = "how-to/backup.md"

    def test_it_is_restored(self):
        text = sections(self.page)["After a loss"]
        block, = blocks(text[text.index("### The registry ID is lost\n"):], "")
        self.member().terminate()
        known = self.tree.registry_id()
        for is_missing in (False, True):
            with self.subTest(is_missing):
                self.tree.client.set(f"{self.root}/registry", b'{"id":"damaged"}')
                if is_missing:
                    self.tree.client.delete(f"{self.root}/registry")
                self.assert_refused(self.member("--registry-id", known, ready=False), 1,
                                    "event=failed", "restore the ID as in docs/how-to/backup.md")
                self.zk_cli(block, {"REGISTRY-ID": known})
                self.member("--registry-id", known).terminate()


class Password(ShellTest):
    """test_zookeeper_auth runs the same steps while servers restart."""
    page = "how-to/zookeeper-password.md"
    OLD = "cluster:before"

    def acls(self):
        """The entries of all znodes, as (scheme, ID, permissions)."""
        def below(path):
            yield path
            for name in self.tree.client.get_children(path):
                yield from below(f"{path}/{name}")
        for auth in (SECRET, self.OLD):
            self.tree.client.add_auth("digest", auth)
        return [{(entry.id.scheme, entry.id.id) for entry in self.tree.client.get_acls(path)[0]}
                for path in below(self.root)]

    def test_the_commands(self):
        from kazoo.security import make_digest_acl_credential

        def digest(auth):
            return "digest", make_digest_acl_credential(*auth.split(":", 1))
        world, network = ("world", "anyone"), ("ip", "127.0.0.0/8")
        expected = {
            "Set a first password": [{digest(SECRET), network}, {digest(SECRET)}],
            "Rotate the password": [{digest(self.OLD), digest(SECRET)}, {digest(SECRET)}],
            "Remove the password": [{world}],
        }
        text = sections(self.page)
        for heading, acls in expected.items():
            self.member().terminate()  # the tree is there, and open
            if heading != "Set a first password":
                self.zk_cli(f"addauth digest {self.OLD}\nsetAcl -R {self.root} auth::cdrwa\n", {})
            found = blocks(text[heading], "")
            self.assertEqual(len(found), len(acls), heading)
            for block, acl in zip(found, acls):
                with self.subTest(heading, block=block):
                    self.zk_cli(block, {"USER:OLD": self.OLD, "USER:NEW": SECRET,
                                        "10.1.0.0/16": "127.0.0.0/8"})
                    self.assertEqual(self.acls(), [acl] * len(self.acls()))
            self.zk_cli(f"addauth digest {SECRET}\nsetAcl -R {self.root} world:anyone:cdrwa\n", {})


class ReplaceTheCa(TlsTest):
    """With client certificates. In each step, the clients that the page lets call can call."""

    def setUp(self):
        super().setUp()
        self.pair_in_use = self.pair._replace(certificate=self.directory / "server.pem",
                                              key=self.directory / "server.key")
        self.install(self.pair)
        shutil.copy(self.authority.certificate, self.directory / "ca.pem")
        shutil.copy(self.others.certificate, self.directory / "new-ca.pem")
        self.new_client = self.others.issue("new-billing", "DNS:billing.example")

    def install(self, pair):
        shutil.copy(pair.certificate, self.pair_in_use.certificate)
        shutil.copy(pair.key, self.pair_in_use.key)

    def context(self, pair):
        """Of a client that trusts the CAs in ca.pem now."""
        context = ssl.create_default_context(cafile=self.directory / "ca.pem")
        context.load_cert_chain(*pair)
        return context

    def test_the_steps(self):
        append, remove = blocks(sections("how-to/tls.md")["Replace the CA"], "sh")
        server = self.serve("--tls-client-ca", self.directory / "ca.pem", pair=self.pair_in_use)
        self.assert_serves(server, self.context(self.billing))
        subprocess.run(["sh", "-e", "-c", append], cwd=self.directory, check=True)
        self.hang_up(server, "certificate")
        self.assert_serves(server, self.context(self.billing))
        self.install(self.others.issue("new-server", *SERVER_NAMES))
        self.hang_up(server, "certificate")
        for client in (self.billing, self.new_client):
            self.assert_serves(server, self.context(client))
        self.assertIsNone(server.find("handshake-failed"))
        subprocess.run(["sh", "-e", "-c", remove], cwd=self.directory, check=True)
        self.hang_up(server, "certificate")
        self.assert_serves(server, self.context(self.new_client))
        with self.assertRaises((OSError, AssertionError)):
            self.assert_serves(server, self.context(self.billing))
        server.wait_event("handshake-failed")
