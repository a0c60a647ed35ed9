# SPDX-License-Identifier: Apache-2.0
"""The config files and variables of snowflakectl, and config show. The unit test ctl-settings tests
their precedence, and the unit test snowflakectl-man compares them with the man page."""
import json
import pathlib
import tempfile

from ctl import CtlTest, cells, run
from fake_servers import Told
from harness import dead_address


class SettingsTest(CtlTest):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.directory / "snowflake" / "snowflakectl.conf"
        self.file.parent.mkdir()

    def configure(self, *lines):
        self.file.write_text("\n".join(("[snowflakectl]", *lines)))

    def ctl(self, *arguments, **variables):
        return run(*arguments, environment={"XDG_CONFIG_HOME": str(self.directory),
                                            **{f"SNOWFLAKE_{name}": value
                                               for name, value in variables.items()}})


class Show(SettingsTest):
    def test_values_and_sources(self):
        self.configure("# a comment", "server = a, b:1", "zookeeper=h/r", "timeout=7")
        done = self.ctl("--json", "config", "show", "--timeout", 8, TLS_KEY="key", TIMEOUT="9",
                        TLS_CA="ca")
        shown = {each["option"]: (each["value"], each["source"])
                 for each in json.loads(self.assert_ok(done))}
        self.assertEqual(shown, {
            "server": ("a,b:1", f"{self.file}:3"), "zookeeper": ("h/r", f"{self.file}:4"),
            "zookeeper-auth": (None, "default"), "postgresql": (None, "default"),
            "postgresql-schema": ("snowflake", "default"), "tls-ca": ("ca", "SNOWFLAKE_TLS_CA"),
            "tls-certificate": (None, "default"), "tls-key": ("key", "SNOWFLAKE_TLS_KEY"),
            "tls-any-name": ("false", "default"), "timeout": ("8", "command line")})

    def test_a_table(self):
        self.configure("server=a")
        rows = cells(self.assert_ok(self.ctl("config", "show")))
        self.assertEqual(rows[:3], [["option", "value", "source"],
                                    ["server", "a", f"{self.file}:2"],
                                    ["zookeeper", "-", "default"]])

    def test_it_takes_no_file(self):
        self.assert_fails(self.ctl("config", "show", "x"), 2,
                          "config takes show, or check and a file")


class Use(SettingsTest):
    def test_a_file_replaces_options(self):
        server = Told(worker_id=5)
        other = self.directory / "other"
        other.write_text(f"[snowflakectl]\nserver={server.address}\n")
        self.configure(f"server={server.address}", "timeout=60000")
        for arguments, variables in ((("ping",), {}), (("--config", other, "ping"), {}),
                                     (("ping",), {"CONFIG": str(other)})):
            with self.subTest(arguments, variables=variables):
                self.assertIn("worker 5", self.assert_ok(self.ctl(*arguments, **variables)))
        dead = dead_address(self)
        done = self.ctl("ping", SERVERS=dead)
        self.assertEqual((done.returncode, done.stdout),
                         (1, f"{dead}: cannot connect: Connection refused\n"))
        self.assertIn("worker 5", self.assert_ok(
            self.ctl("--server", server.address, "ping", SERVERS=dead)))

    def test_options_that_a_command_does_not_take(self):
        server = Told(worker_id=5)
        missing = str(self.directory / "missing")
        self.configure("zookeeper=h:x", f"zookeeper-auth={missing}")
        self.assertIn("worker 5", self.assert_ok(self.ctl("ping", SERVERS=server.address)))
        # without a server, neither the file nor the variables matter
        self.configure("nonsense")
        self.assert_ok(self.ctl("decode", "1", CONFIG=missing, TIMEOUT="x", TLS_CA=missing))

    def test_servers_or_zookeeper(self):
        server, dead = Told(worker_id=5), dead_address(self)
        self.configure("timeout=100", f"zookeeper={dead}", f"server={server.address}")
        in_vain = "no connection within 100 ms"
        self.assert_fails(self.ctl("workers"), 1, in_vain)
        self.assert_fails(self.ctl("workers", ZOOKEEPER=dead), 1, in_vain)
        self.assert_fails(self.ctl("--zookeeper", dead, "workers", SERVERS=server.address), 1,
                          in_vain)
        self.assert_fails(self.ctl("registry", "init", SERVERS=server.address), 1, in_vain)
        for arguments, variables in ((("--server", server.address), {}),
                                     ((), {"SERVERS": server.address}), ((), {"ZOOKEEPER": ""})):
            with self.subTest(arguments, variables=variables):
                listed = self.ctl("--timeout", 60000, "--json", *arguments, "workers", **variables)
                self.assertEqual([row["worker_id"] for row in json.loads(self.assert_ok(listed))],
                                 [5])

    def test_wrong_values_are_named(self):
        missing = str(self.directory / "missing")
        for lines, variables, command, words in (
                (["server=a:b"], {}, "ping", f"{self.file}:2: server: "),
                ([], {"SERVERS": "a,b:c"}, "ping", "SNOWFLAKE_SERVERS: "),
                (["timeout=0"], {}, "ping", f'{self.file}:2: timeout: "0" is not a whole number'),
                ([], {"TIMEOUT": "x"}, "ping", 'SNOWFLAKE_TIMEOUT: "x" is not a whole number'),
                (["zookeeper=h/"], {}, "top", f"{self.file}:2: zookeeper: "),
                (["zookeeper=h"], {"ZOOKEEPER_AUTH": missing}, "workers",
                 f"SNOWFLAKE_ZOOKEEPER_AUTH: {missing}: No such file"),
                (["zookeeper=h", f"zookeeper-auth={self.directory}"], {}, "registry",
                 f"{self.file}:3: zookeeper-auth: {self.directory} is not a regular file"),
                ([f"tls-ca={missing}"], {}, "id",
                 f"{self.file}:2: tls-ca: cannot use the certificates {missing}"),
                ([f"tls-certificate={missing}"], {"TLS_KEY": "k"}, "status",
                 f"{self.file}:2: tls-certificate: cannot use the certificate {missing}"),
                (["tls-ca=ca.pem"], {}, "ping",
                 f'{self.file}:2: tls-ca: "ca.pem" is not an absolute path'),
                (["servers=a"], {}, "ping", 'unknown key "servers"; did you mean server?'),
                (["nonsense"], {}, "ping", f"{self.file}:2: "),
                ([], {"CONFIG": missing}, "ping", "SNOWFLAKE_CONFIG: "),
                ([], {"TLS_ANY_NAME": "yes"}, "ping",
                 'SNOWFLAKE_TLS_ANY_NAME: "yes" is neither true nor false')):
            with self.subTest(lines, variables=variables):
                self.configure(*lines)
                arguments = ("registry", "init") if command == "registry" else (command,)
                self.assert_fails(self.ctl(*arguments, **variables), 2, words)
                done = self.ctl("--json", *arguments, **variables)
                self.assertEqual(json.loads(done.stdout)["kind"], "usage")

    def test_a_named_file_must_exist(self):
        missing = self.directory / "missing"
        for command in (("ping",), ("decode", "1")):
            self.assert_fails(self.ctl("--config", missing, *command), 2, "--config: ",
                              str(missing))
