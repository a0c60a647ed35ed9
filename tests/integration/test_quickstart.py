# SPDX-License-Identifier: Apache-2.0
"""deploy/quickstart --cluster and --relay, until the end of all processes that it starts."""
import contextlib
import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import termios
import unittest

import default_port
from bindings import ROOT
from harness import BUILD, ELSEWHERE, HANG_GUARD_S, SANITIZED, Parts, temporary_directory, wait_for
from zookeeper import CLASS_PATH

QUICKSTART = ROOT / "deploy" / "quickstart"
TUTORIAL = ROOT / "docs" / "tutorial" / "first-cluster.md"
SERVES = "until Ctrl-C"
HAS_ZOOKEEPER = shutil.which("java") and all(path.exists() for path in CLASS_PATH)


class Quickstart(unittest.TestCase):
    """A run on its own terminal. Its processes are recognised by their environment."""
    option = None

    def setUp(self):
        default_port.borrow(self)
        self.scratch = temporary_directory(self)
        self.temporary = self.scratch / "temporary"
        self.temporary.mkdir()
        terminal, inside = os.openpty()
        self.terminal = open(terminal, "r+b", buffering=0)
        self.addCleanup(self.terminal.close)
        self.inside = open(inside, "r+b", buffering=0)
        self.addCleanup(self.inside.close)
        self.addCleanup(self.kill_all)

    def launch(self, *options, shown=False, **environment):
        """Starts it. Its output goes to the terminal if `shown`, otherwise to files."""
        with open(self.scratch / "out", "wb") as out, open(self.scratch / "err", "wb") as err:
            self.process = subprocess.Popen(
                # the tests may have been started with these signals ignored, which a shell cannot
                # undo
                ["env", "--default-signal=INT,HUP,TERM", QUICKSTART, self.option, *options],
                stdin=self.inside,
                stdout=self.inside if shown else out, stderr=self.inside if shown else err,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "SNOWFLAKE_BUILD": str(BUILD),
                     "TMPDIR": str(self.temporary), **environment},
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    @property
    def output(self):
        return (self.scratch / "out").read_text()

    @property
    def told(self):
        return (self.scratch / "err").read_text()

    def processes(self, name=""):
        """Returns the pids of processes of this run whose command line contains the name."""
        mark = f"TMPDIR={self.temporary}".encode()
        found = []
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (mark in (directory / "environ").read_bytes()
                        and name.encode() in (directory / "cmdline").read_bytes()):
                    found.append(int(directory.name))
            except OSError:
                continue  # the process has ended
        return found

    def kill_all(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def wait_told(self, text):
        wait_for(lambda: text in self.told or self.process.poll() is not None, text)
        self.assertIn(text, self.told)

    def assert_ends(self, status):
        self.assertEqual(self.process.wait(HANG_GUARD_S), status, self.told)
        self.assertEqual(self.processes(), [])
        self.assertEqual(list(self.temporary.iterdir()), [])

    def assert_released(self, servers):
        self.assertEqual(self.told.count(" released\n"), servers, self.told)

    def ids_shown(self):
        return [Parts.of(int(line)) for line in re.findall(r"^\d{15,19}$", self.output, re.M)]


@unittest.skipIf(ELSEWHERE, "needs servers of its own")
@unittest.skipIf(SANITIZED, "one build is enough")
@unittest.skipUnless(HAS_ZOOKEEPER, "not installed: libzookeeper-java libslf4j-java java")
class Cluster(Quickstart):
    option = "--cluster"

    def test_once(self):
        self.launch("--once")
        self.assert_ends(0)
        ids = self.ids_shown()
        decoded = re.findall(r"^\d{15,19} .* +1 +(\d+) +\d+$", self.output, re.M)
        addresses = re.findall(r"server \d on (\S+) is worker (\d+) of datacenter 1", self.told)
        self.assertEqual({parts.datacenter_id for parts in ids}, {1})
        self.assertEqual([parts.worker_id for parts in ids], [int(worker) for worker in decoded])
        self.assertEqual(len(addresses), 3)
        self.assertEqual({parts.worker_id for parts in ids},
                         {int(worker) for _, worker in addresses})
        for address, worker in addresses:
            self.assertRegex(self.output, rf"(?m)^ +1 +{worker} +{address} +serving ")
        self.assert_released(3)

    def test_ctrl_c(self):
        self.launch()
        self.wait_told(SERVES)
        self.terminal.write(b"\x03")
        self.wait_told("server 1 stopped")
        self.terminal.write(b"\x03")  # a second Ctrl-C
        self.assert_ends(0)
        self.assert_released(3)

    def test_the_end_of_a_server_is_told(self):
        self.launch()
        self.wait_told(SERVES)
        os.kill(self.processes("server/snowflaked")[0], signal.SIGKILL)
        self.wait_told("ended: exit status 137; 2 of 3 left")
        self.process.terminate()
        self.assert_ends(0)
        self.assert_released(2)

    def test_a_terminal_that_goes_away(self):
        self.launch(shown=True)
        screen = b""
        while SERVES.encode() not in screen:
            self.assertTrue(select.select([self.terminal], [], [], HANG_GUARD_S)[0], screen)
            screen += self.terminal.read(4096)
        self.inside.close()
        self.terminal.close()
        self.assert_ends(0)

    def test_stopped_before_it_serves(self):
        self.launch()
        self.wait_told("starting ZooKeeper")
        self.process.terminate()
        self.assert_ends(143)

    def run_tutorial(self, commands, replaced, **environment):
        """Starts a shell that runs the commands in a directory with the build."""
        for old, new in replaced.items():
            self.assertIn(old, commands)
            commands = commands.replace(old, new)
        script = self.scratch / "script"  # the pattern of pkill must not be in the command line
        script.write_text(commands)
        return subprocess.Popen(
            ["sh", "-e", script], cwd=self.scratch, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.temporary), **environment})

    def test_the_commands_of_the_tutorial(self):
        """Runs docs/tutorial/first-cluster.md with the addresses of this run."""
        start, watch, kill, replace = re.findall(r"^```sh\n(.*?)^```", TUTORIAL.read_text(),
                                                 re.MULTILINE | re.DOTALL)
        self.assertEqual(start, "deploy/quickstart --cluster\n")
        (self.scratch / "build").symlink_to(BUILD)
        self.launch()
        self.wait_told(SERVES)
        second, third = re.findall(r"server [23] on (\S+) is worker", self.told)
        zookeeper = re.search(r"ZooKeeper serves on (\S+)", self.told)[1]

        listed = self.run_tutorial(watch, {"127.0.0.1:12345": zookeeper,
                                           "snowflakectl top": "snowflakectl workers"})
        self.assertRegex(listed.communicate(timeout=HANG_GUARD_S)[0], rf"{second} +serving")

        killed = self.run_tutorial(kill, {"127.0.0.1:7610": second, "127.0.0.1:7611": third})
        self.assertRegex(killed.communicate(timeout=HANG_GUARD_S)[0], r"^\d{15,19}\n$")
        self.wait_told("server 2 ended: exit status 137")

        process = self.run_tutorial(f"exec {replace}", {"127.0.0.1:7610": second},
                                    SNOWFLAKE_ZOOKEEPER=zookeeper)
        started = next((line for line in process.stderr if " event=ready " in line), None)
        self.assertIsNotNone(started)
        process.send_signal(signal.SIGINT)
        self.assertIn(" event=worker-released ", process.communicate(timeout=HANG_GUARD_S)[1])
        self.assertEqual(process.returncode, 0)
        self.process.terminate()
        self.assert_ends(0)
        self.assert_released(2)

    def test_a_zookeeper_that_does_not_start(self):
        self.launch(JAVA_TOOL_OPTIONS="-XX:NoSuchOption")
        self.assert_ends(1)
        self.assertRegex(self.told, r"ZooKeeper does not start: .*NoSuchOption.*\n\Z")

    def test_an_unknown_option(self):
        self.launch("--twice")
        self.assert_ends(2)
        self.assertEqual(self.told, "quickstart: unknown argument --twice; see --help\n")


@unittest.skipIf(ELSEWHERE, "needs servers of its own")
@unittest.skipIf(SANITIZED, "one build is enough")
class Relay(Quickstart):
    option = "--relay"

    def test_once(self):
        self.launch("--once")
        self.assert_ends(0)
        killed = int(re.search(r"killing server (\d), which issued these IDs", self.told)[1])
        self.assertEqual([(parts.datacenter_id, parts.worker_id) for parts in self.ids_shown()],
                         [(1, killed)] * 3 + [(1, 3 - killed)] * 3)
        self.assertIn("the relay stopped", self.told)
        self.assert_released(1)

    def test_ctrl_c(self):
        self.launch()
        self.wait_told(SERVES)
        self.terminal.write(b"\x03")
        self.assert_ends(0)
        self.assert_released(1)

    def test_the_end_of_the_relay_is_told(self):
        self.launch()
        self.wait_told(SERVES)
        os.kill(self.processes("--relay\0" + "127.0.0.1:")[0], signal.SIGKILL)
        self.wait_told("the relay ended: exit status 137; 1 of 3 left")
        self.process.terminate()
        self.assert_ends(0)

    def test_one_of_the_two(self):
        self.launch("--cluster")
        self.assert_ends(2)
        self.assertEqual(self.told, "quickstart: --cluster excludes --relay; remove one of them\n")
