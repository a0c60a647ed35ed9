# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: changes of the config file take effect, or the log says that they need a restart."""
import os
import re
import signal
import subprocess

from harness import SLOW, SNOWFLAKED, ServerTest, scaled, wait_for
from wire import STRICT


def reread_options():
    """Returns the options that --help marks as reread on SIGHUP."""
    printed = subprocess.run([SNOWFLAKED, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    entries = re.split(r"\n  --", printed.stdout)[1:]
    return {re.match(r"[a-z-]+", entry)[0] for entry in entries
            if "reread on SIGHUP" in " ".join(entry.split())}


class Reload(ServerTest):
    def setUp(self):
        super().setUp()
        self.config = self.directory / "snowflaked.conf"

    def write(self, *lines):
        self.config.write_text("\n".join(("[snowflaked]", *lines, "")))

    def start_with(self, *lines, options=()):
        self.write(*lines)
        return self.start("--config", self.config, *options)

    def reload(self, server, *lines):
        self.write(*lines)
        said = self.hang_up(server, "reload")
        return said["changed"], said["needs_restart"]

    def assert_taken(self, server, name, value):
        self.assertEqual(self.reload(server, f"{name}={value}"), (name, "none"))
        self.assertEqual(self.reload(server, f"{name}={value}"), ("none", "none"))

    def effect_of_log_level(self):
        server = self.start_with()
        self.assertEqual(self.reload(server, "log-level=error"), ("log-level", "none"))
        server.send_signal(signal.SIGUSR1)
        self.write("log-level=debug")
        self.hang_up(server, "reload")
        server.send_signal(signal.SIGUSR2)
        server.wait_event("signal-ignored")
        self.assertEqual([event.name for event in server.events].count("signal-ignored"), 1)

    def effect_of_drain_delay(self):
        server = self.start_with("drain-delay=60000")
        self.assert_taken(server, "drain-delay", 5)
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(server.find("stopping").fields["drain_ms"], "5")

    def effect_of_stop_timeout(self):
        server = self.occupy(self.start_with("stop-timeout=600000", options=SLOW))
        self.assert_taken(server, "stop-timeout", 100)
        self.assertEqual(server.terminate(), 0)

    def effect_of_max_connections_per_address(self):
        server = self.start_with()
        with server.connect() as first, server.connect() as second:
            self.assert_taken(server, "max-connections-per-address", 2)
            with server.connect() as third:
                self.assertEqual(third.rest(), b"")
            self.assertEqual(self.reload(server), ("max-connections-per-address", "none"))
            for connection in (first, second):
                connection.call(STRICT, "get_timestamp")
            server.call("get_timestamp")

    def effect_of_allow(self):
        server = self.start_with()
        with server.connect() as first:
            first.call(STRICT, "get_timestamp")
            self.assert_taken(server, "allow", "192.0.2.1")
            with server.connect() as second:
                self.assertEqual(second.rest(), b"")
            first.call(STRICT, "get_timestamp")
            self.assertEqual(self.reload(server), ("allow", "none"))
            server.call("get_timestamp")

    def test_every_option_that_help_says_is_reread(self):
        effects = {name.removeprefix("effect_of_").replace("_", "-")
                   for name in dir(self) if name.startswith("effect_of_")}
        self.assertEqual(reread_options(), effects)
        for name in sorted(effects):
            with self.subTest(name):
                self.state = self.directory / name
                getattr(self, f"effect_of_{name.replace('-', '_')}")()

    def test_what_needs_a_restart_is_named(self):
        server = self.start_with("max-wait=1000", "drain-delay=60000", "datacenter-id=1",
                                 f"audit-log=file:{self.directory}/a")
        changes = (
            "max-wait=999", "drain-delay=0", "datacenter-id=2",
            f"audit-log=file:{self.directory}/b",
            "listen=127.0.0.1:1;127.0.0.1:2", "advertise=a:1", "layout=discord",
            "no-fast-path=true", "state-directory=/b", "on-clock-step=refuse")
        # --listen and --state-directory still have the command line's values
        restart = "advertise,datacenter-id,layout,max-wait,no-fast-path,audit-log"
        self.assertEqual(self.reload(server, *changes), ("drain-delay", restart))
        self.assertEqual(self.reload(server, *changes), ("none", restart))
        self.assertEqual(server.call("get_datacenter_id"), 1)

    def test_the_command_line_goes_before_the_file(self):
        server = self.start_with("drain-delay=7", options=("--drain-delay", 8))
        self.assertEqual(self.reload(server, "drain-delay=60000", "log-level=debug"),
                         ("log-level", "none"))
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(server.find("stopping").fields["drain_ms"], "8")

    def test_a_file_that_is_not_right_changes_nothing(self):
        server = self.start_with("drain-delay=7")
        for lines, words in ((("drain-delay=9", "log-level=loud"), 'log-level: "loud" is not one'),
                             (("drain-delay=9", "threads"), "is not KEY=VALUE"),
                             (("drain-delay=9", "worker-id=32"), "worker"),
                             (("drain-delay=9", "drian-delay=9"), "did you mean drain-delay?")):
            with self.subTest(lines):
                self.write(*lines)
                error = self.hang_up(server, "reload-failed")["error"]
                self.assertIn(words, error)
        self.config.unlink()
        self.assertIn("No such file", self.hang_up(server, "reload-failed")["error"])
        self.assertGreater(server.call("get_id", "good"), 0)
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(server.find("stopping").fields["drain_ms"], "7")
        self.assertIsNone(server.find("reload"))

    def test_what_is_no_config_file_is_not_waited_for(self):
        server = self.start_with("drain-delay=7")
        for name, make, words in (
                ("FIFO", os.mkfifo, "not a regular file"),
                ("directory", os.mkdir, "not a regular file"),
                ("device", lambda path: os.symlink("/dev/zero", path), "not a regular file"),
                ("huge file", lambda path: path.write_bytes(b"#" * (1 << 20) + b"\n"),
                 "has more than 1048576 bytes, the limit"),
                ("circle", lambda path: os.symlink(path, path), "symbolic links")):
            with self.subTest(name):
                self.config.rename(self.directory / f"before the {name}")
                make(self.config)
                self.assertIn(words, self.hang_up(server, "reload-failed")["error"])
        self.config.unlink()
        self.assertEqual(self.reload(server, "drain-delay=8"), ("drain-delay", "none"))

    def test_many_at_once(self):
        server = self.start_with()
        for _ in range(scaled(2000, 200)):
            server.send_signal(signal.SIGHUP)
        self.write("drain-delay=1")
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: any(each.name == "reload" and each.fields["changed"] == "drain-delay"
                             for each in list(server.events)), what="the last")
        self.assertGreater(server.call("get_id", "good"), 0)
        for _ in range(100):
            server.send_signal(signal.SIGHUP)
        self.assertEqual(server.terminate(), 0)

    def test_files_of_the_audit_log_are_opened_again_whatever_the_config_file_is(self):
        log = self.directory / "audit"
        server = self.start_with(f"audit-log=file:{log}")
        log.rename(self.directory / "audit.1")
        self.write("nonsense=1")
        self.hang_up(server, "reload-failed")
        wait_for(log.exists, what="the new file")

    def test_without_a_file(self):
        said = self.hang_up(self.start(), "reload")
        self.assertEqual((said["changed"], said["needs_restart"]), ("none", "none"))
