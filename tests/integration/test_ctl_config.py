# SPDX-License-Identifier: Apache-2.0
"""snowflakectl config check: the same errors as snowflaked's."""
import json
import os
import pathlib
import subprocess
import tempfile

from bindings import ROOT
from ctl import CtlTest, run
from harness import ENVIRONMENT, HANG_GUARD_S, SNOWFLAKED

# Wrong config files: the group, a key, a value, or options that contradict each other.
WRONG = ("listen = here\n", "[snowflaked]\nlistn=127.0.0.1\n", "[snowflaked]\nthreads=0\n",
         "[snowflaked]\nthreads=1\nthreads=2\n", "[other]\n", "[snowflaked]\nlayout=none\n",
         "[snowflaked]\nreservation=1000\n", "[snowflaked]\nzookeeper=a:1\n",
         "[snowflaked]\nsequence-start=4097\n", "[snowflaked]\nworker-id=32\n",
         "[snowflaked]\nstate-directory=here\n", "[snowflaked]\nlog-level=loud\n",
         "[snowflaked]\nconfig=/etc/x\n", "[snowflaked]\naudit-log=file:x\n", "\0")


class ConfigCheck(CtlTest):
    def write(self, text):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (directory / "a.conf").write_text(text)
        return directory / "a.conf"

    def server_says(self, path):
        """Returns snowflaked's error for a wrong config file."""
        done = subprocess.run([SNOWFLAKED, "--config", path], env=ENVIRONMENT, text=True,
                              stderr=subprocess.PIPE, timeout=HANG_GUARD_S, check=False)
        self.assertEqual(done.returncode, 2)
        return done.stderr.removeprefix("snowflaked: ")

    def test_what_is_wrong_is_what_the_server_says(self):
        for text in WRONG:
            with self.subTest(text):
                path = self.write(text)
                said = self.server_says(path)
                done = run("config", "check", path)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (1, "", f"snowflakectl: {said}"))
                done = run("--json", "config", "check", path)
                self.assertEqual((done.returncode, json.loads(done.stdout)),
                                 (1, {"error": said.rstrip("\n"), "kind": "failed"}))

    def test_a_file_that_cannot_be_read(self):
        for path in ("/nonexistent/a.conf", "/"):
            said = self.server_says(path)
            done = run("config", "check", path)
            self.assertEqual((done.returncode, done.stderr), (2, f"snowflakectl: {said}"))

    def test_wrong_use(self):
        for words in ((), ("check",), ("check", ""), ("check", "a", "b"), ("show", "a")):
            self.assert_fails(run("config", *words), 2, "check and a file")
        done = run("config", "check", "a", "--zookeeper", "b")
        self.assert_fails(done, 2, "does not take --zookeeper")
        self.assertNotIn("--server", done.stderr)

    def test_files_that_the_server_cannot_use(self):
        """The server ends with the same error."""
        path = self.write("")
        near = path.parent
        (near / "password").write_text("user:password")
        (near / "password").chmod(0o644)
        (near / "broken.pem").write_text("broken")
        os.mkfifo(near / "fifo")
        tls = "listen=tls:127.0.0.1:0\ntls-certificate={0}/{1}\ntls-key={0}/{1}\n"
        for text in (tls.format(near, "missing.pem"), tls.format(near, "broken.pem"),
                     f"zookeeper=127.0.0.1:1\ndatacenter-id=1\nzookeeper-auth={near}/password\n",
                     f"relay=127.0.0.1:1\ntls-ca={near}/missing.pem\n",
                     f"audit-log=file:{near}/missing/audit\n", f"audit-log=file:{near}/fifo\n"):
            with self.subTest(text):
                path.write_text(f"[snowflaked]\n{text}")
                server = subprocess.run(
                    [SNOWFLAKED, "--config", path, "--log-format=json"], env=ENVIRONMENT, text=True,
                    stderr=subprocess.PIPE, timeout=HANG_GUARD_S, check=False)
                self.assertEqual(server.returncode, 2 if "tls" in text or "password" in text else 1)
                error = json.loads(server.stderr.splitlines()[-1])["error"]
                done = run("config", "check", path)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (1, "", f"snowflakectl: {error}\n"))

    def test_what_is_not_at_its_default(self):
        path = self.write("")
        near = path.parent
        (near / "password").write_text("user:password")
        (near / "password").chmod(0o600)
        path = self.write("[snowflaked]\nlisten=*:7609; [::1]:1\nadvertise=a.example\n"
                          "worker-id=mac\nzookeeper=a:1,b:2/x\ndatacenter-id=3\n"
                          "max-ahead=10\nmax-wait=7\nno-fast-path=true\nlog-level=debug\n"
                          f"zookeeper-auth={near}/password\nsequence-start=continue\n"
                          f"layout=twitter\naudit-log=file:{near}/a;scribe://b.example\n")
        expected = [
            ("listen", "*:7609;[::1]:1", "127.0.0.1:7609"),
            ("advertise", "a.example:7609", None),
            ("datacenter-id", "3", None),
            ("worker-id", "mac", None),
            ("zookeeper", "a:1,b:2/x", None),
            ("zookeeper-auth", f"{near}/password", None),
            ("sequence-start", "continue", "1"),
            ("max-wait", "7", "1000"),
            ("no-fast-path", "true", "false"),
            ("audit-log", f"file:{near}/a;scribe://b.example", None),
            ("log-level", "debug", "info"),
        ]
        lines = self.assert_ok(run("config", "check", path)).splitlines()
        self.assertEqual(lines[0], "ok")
        self.assertEqual([tuple(line.split()) for line in lines[1:]],
                         [("option", "value", "default"),
                          *((name, value, default or "-") for name, value, default in expected)])
        found = json.loads(self.assert_ok(run("--json", "config", "check", path)))
        self.assertEqual(found, {
            "file": str(path), "ok": True,
            "not_default": [{"option": name, "value": value, "default": default}
                            for name, value, default in expected]})

    def test_bytes_that_are_no_text(self):
        path = self.write("")
        odd_log = str(path.parent).encode() + b"/a\xfd"
        path.write_bytes(b"[snowflaked]\nstate-directory=/\xff\naudit-log=file:" + odd_log + b"\n")
        odd = path.with_name("b\udcfd")  # a byte of FD
        path.rename(odd)
        found = json.loads(self.assert_ok(run("--json", "config", "check", odd)))
        self.assertEqual(found["file"], str(path.with_name("b\ufffd")))
        self.assertEqual([each["value"] for each in found["not_default"]],
                         ["/\ufffd", f"file:{odd.parent}/a\ufffd"])
        text = self.assert_ok(run("config", "check", odd))
        self.assertIn("/\\xff", text)

    def test_a_layout_is_told_by_its_fields(self):
        path = self.write("[snowflaked]\nlayout=js-safe\n")
        [told] = json.loads(self.assert_ok(run("--json", "config", "check", path)))["not_default"]
        self.assertEqual(told["option"], "layout")
        self.assertIn("total_bits=53", told["value"])
        self.assertIn("epoch_ms=1288834974657,", told["default"])

    def test_nothing_is_given(self):
        for text in ("", "# no\n", "[snowflaked]\nmax-ahead=10\n"):
            self.assertEqual(self.assert_ok(run("config", "check", self.write(text))), "ok\n")

    def test_the_sample(self):
        text = self.assert_ok(run("config", "check", ROOT / "deploy" / "snowflaked.conf"))
        self.assertEqual([line.split() for line in text.splitlines()],
                         [["ok"], ["option", "value", "default"],
                          ["admin-listen", "127.0.0.1:9990", "-"]])
