# SPDX-License-Identifier: Apache-2.0
"""snowflakectl audit: reading the lines of an audit log, and finding duplicate IDs."""
import base64
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile

import audit
from ctl import CtlTest, InterruptTest, run
from harness import (CTL_ENVIRONMENT, EPOCH_MS, HANG_GUARD_S, SANITIZED, SNOWFLAKECTL, ServerTest,
                     may_mount, mount, scaled, wait_for)

LINE = "CgABAAAAAAAAAAELAAIAAAAJdXNlcmFnZW50CgADAAAAAAAAAAEA"
MEBIBYTE = 1 << 20
NOBODY = 65534


def line(number, agent=b"web", tag=1):
    agent = agent if isinstance(agent, bytes) else agent.encode()
    entry = struct.pack(f">bhqbhi{len(agent)}sbhqb", 10, 1, number, 11, 2, len(agent), agent,
                        10, 3, tag, 0)
    return base64.b64encode(entry).decode() + "\n"


def gap(missing):
    return line(0, b"", missing)


def at(time_ms, low=0):
    return time_ms - EPOCH_MS << 22 | low


class AuditTest(InterruptTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def file(self, name, *lines):
        path = self.directory / name
        path.write_text("".join(lines), encoding="ascii")
        return path

    def audit(self, *arguments, text=None, **settings):
        if text is not None:
            settings["stdin"] = open(self.file("input", text), encoding="ascii")
            self.addCleanup(settings["stdin"].close)
        return run("audit", *arguments, **settings)

    def objects(self, *arguments, **settings):
        return json.loads(self.assert_ok(self.audit("--json", *arguments, **settings)))

    def ids(self, *arguments, **settings):
        return [int(entry["id"]) for entry in self.objects(*arguments, **settings)]


class Listing(AuditTest):
    def test_what_is_shown(self):
        last = (1 << 63) - 1
        text = line(1, "useragent") + line(last, "b" * 300, -(1 << 63)) + gap(12)
        self.assertTrue(text.startswith(LINE + "\n"))
        self.assertEqual(self.assert_ok(self.audit(text=text)), (
            "                 id  time (UTC)                                 tag  agent\n"
            "                  1  2010-11-04T01:42:54.657Z                     1  useragent\n"
            f"{last}  2080-07-10T17:30:30.208Z  -9223372036854775808  {'b' * 256}...\n"
            f"{'-':>19}  {'-':24}  {'-':>20}  (12 missing here)\n"
        ))

    def test_json(self):
        text = line(1, "useragent") + line(2, b"\0\n\"\\\xc3\xa9", -2) + gap(12)
        self.assertEqual(self.objects(text=text), [
            {"id": "1", "time": "2010-11-04T01:42:54.657Z", "tag": "1", "agent": "useragent"},
            {"id": "2", "time": "2010-11-04T01:42:54.657Z", "tag": "-2",
             "agent": r"\x00\x0a\x22\x5c\xc3\xa9"},
            {"missing": 12}])
        self.assertEqual(self.objects(text=""), [])
        self.assertEqual(self.audit(text="").stdout, "")

    def test_files_in_their_order(self):
        first, second = self.file("first", line(1), line(2)), self.file("second", line(3), line(4))
        for files, numbers in (((first, second), [1, 2, 3, 4]), ((second, first), [3, 4, 1, 2]),
                               ((first, "-"), [1, 2, 9]), (("-", first), [9, 1, 2]), ((), [9]),
                               (("-",), [9]), ((first, first), [1, 2, 1, 2])):
            with self.subTest(files):
                self.assertEqual(self.ids(*files, text=line(9)), numbers)

    def test_a_last_line_without_an_end(self):
        first = self.file("first", line(1), line(2).strip())
        self.assertEqual(self.ids(first, self.file("second", "\n", line(3), "\n")), [1, 2, 3])

    def test_lines_that_are_damaged(self):
        good, cut = line(7).strip(), line(7)[:-5]
        first = self.file("first", "\n", line(1), f"{cut}\n", " ", line(2), line(3), cut)
        second = self.file("second", f"{good}\r\n", f"{good}{good}\n", line(-1), gap(0), "A" * 4097,
                           "\n", "A" * (3 * MEBIBYTE), "\n", line(4), "A" * MEBIBYTE)
        done = self.audit("--json", first, second)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([entry["id"] for entry in json.loads(done.stdout)], ["1", "3", "4"])
        said = [text.partition(': "')[0] for text in done.stderr.splitlines()]
        self.assertEqual(said, [f"snowflakectl: {text}" for text in (
            f"{first}:3: damaged, not an AuditLogEntry", f"{first}:4: damaged, not base64",
            f"{first}:6: damaged, not an AuditLogEntry", f"{second}:1: damaged, not base64",
            f"{second}:2: damaged, not an AuditLogEntry", f"{second}:3: damaged, a negative ID",
            f"{second}:4: damaged, a gap with fewer than one missing ID",
            f"{second}:5: damaged, longer than 4096 bytes",
            f"{second}:6: damaged, longer than 4096 bytes",
            f"{second}:8: damaged, longer than 4096 bytes")])
        self.assertIn('not base64: " CgAB', done.stderr)
        self.assertLess(len(done.stderr), 2500)

    def test_nothing_but_damage(self):
        done = self.audit("--json", text="x\n")
        self.assert_fails(done, 1, "standard input:1: damaged, not base64: \"x\"")
        self.assertEqual(json.loads(done.stdout),
                         {"error": 'standard input:1: damaged, not base64: "x"', "kind": "failed"})

    def test_a_line_that_does_not_end(self):
        with open("/dev/zero", "rb") as zeros:
            process = self.start("audit", "-", stdin=zeros)
            self.assertIn("standard input:1: damaged, longer than 4096 bytes",
                          process.stderr.readline())
            status = pathlib.Path(f"/proc/{process.pid}/io")
            wait_for(lambda: int(status.read_text().split()[1]) > scaled(1000) * MEBIBYTE)
            used = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            self.assertEqual(self.interrupt(process), ("", ""))
        if not SANITIZED:
            self.assertLess(int(used.partition("VmHWM:")[2].split()[0]), 32 << 10, used)

    def test_what_comes_is_shown_before_more_is_waited_for(self):
        process = self.start("audit", "--json", stdin=subprocess.PIPE)
        process.stdin.write(line(5))
        process.stdin.flush()
        begun = self.read_to(process, "}")
        output, _ = self.interrupt(process)
        self.assertEqual(json.loads(begun + output)[0]["id"], "5")

    def test_typed_at_a_terminal(self):
        """Ctrl-D ends the input, although a terminal could be read again."""
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)
        process = self.start("audit", "--json", stdin=follower)
        os.close(follower)
        # the first Ctrl-D ends the line; the second one ends the input
        os.write(leader, line(5).strip().encode() + b"\x04\x04")
        self.assertEqual(json.loads(process.stdout.read())[0]["id"], "5")
        self.assertEqual(process.wait(), 0)

    def test_agents(self):
        text = line(1, "web") + line(2, "we") + line(3, "webs") + gap(2) + line(4, "web")
        found = self.objects("--agent", "web", text=text)
        self.assertEqual([entry.get("id", entry.get("missing")) for entry in found], ["1", 2, "4"])

    def test_times(self):
        day = 1795305600000  # 2026-11-22T00:00:00Z
        moments = (day - 1, day, day + 1, day + 657, day + 86399999, day + 86400000)
        text = "".join(line(at(moment, 4095)) for moment in moments) + gap(1)
        for options, shown in (
                (("--from", day), moments[1:]), (("--to", day), moments[:2]),
                (("--from", "2026-11-22T00:00:00Z", "--to", "2026-11-22T23:59:59.999Z"),
                 moments[1:5]),
                (("--from", "2026-11-22t02:00:00.657+02:00"), moments[3:]),
                (("--to", "2026-11-21 16:00:00.657-08:00"), moments[:4]),
                (("--from", day + 1, "--to", day + 1), moments[2:3])):
            with self.subTest(options):
                found = self.objects(*options, text=text)
                self.assertEqual([int(entry["id"]) for entry in found[:-1]],
                                 [at(moment, 4095) for moment in shown])
                self.assertEqual(found[-1], {"missing": 1})

    def test_a_tick_that_is_longer(self):
        """If a tick is a second, its IDs may be from its end."""
        text = "".join(line(tick << 34) for tick in (1, 2, 3))
        layout = ("epoch_ms=0,tick_ms=1000,time_bits=29,datacenter_bits=0,worker_bits=21,"
                  "sequence_bits=13")
        for options, ticks in ((("--from", 2000), [2, 3]), (("--from", 1999), [1, 2, 3]),
                               (("--to", 2000), [1, 2]), (("--to", 1999), [1])):
            with self.subTest(options):
                self.assertEqual(self.ids("--layout", layout, *options, text=text),
                                 [tick << 34 for tick in ticks])

    def test_an_id_of_another_layout(self):
        text = line((1 << 53) - 1) + line(1 << 53)
        entries = self.objects("--layout", "js-safe", text=text)
        self.assertEqual([entry["time"] is None for entry in entries], [False, True])
        for option, value in (("--from", 0), ("--to", 253402300799999)):
            self.assertEqual(self.ids("--layout", "js-safe", option, value, text=text),
                             [(1 << 53) - 1])


class Misuse(AuditTest):
    def test_options(self):
        good = self.file("good", line(1))
        for words, *options in (
                (("--layout", '"x"'), "--layout", "x"), (("--agent",), "--agent", ""),
                (("--agent", "--duplicates"), "--agent", "a", "--duplicates"),
                (("--from TIME", '"x"'), "--from", "x"), (("--to TIME", '""'), "--to", ""),
                (("--from TIME", "-1"), "--from", "-1"),
                (("--from TIME",), "--from", "2026-11-22"),
                (("--from TIME",), "--from", "2026-11-22T00:00:00"),
                (("--from TIME",), "--from", "2026-W47-7T00:00:00Z"),
                (("--from TIME",), "--from", "2026-02-29T00:00:00Z"),
                (("--from TIME",), "--from", "253402300800000"),
                (("--from is after --to",), "--from", "2", "--to", "1"),
                (("--memory", "--duplicates"), "--memory", "64"),
                (("--memory MIB", '"0"', "65536"), "--duplicates", "--memory", "0"),
                (("--memory MIB", '"x"'), "--duplicates", "--memory", "x"),
                (("--memory MIB",), "--duplicates", "--memory", "65537")):
            for json_option in ((), ("--json",)):
                with self.subTest(options, json=json_option):
                    done = self.audit(*options, *json_option, good)
                    self.assert_fails(done, 2, *words)
                    if json_option:
                        self.assertEqual(json.loads(done.stdout)["kind"], "usage")
                    else:
                        self.assertEqual(done.stdout, "")

    def test_files(self):
        good, closed = self.file("good", line(1)), self.file("closed", line(2))
        closed.chmod(0)
        self.directory.chmod(0o755)
        settings = {"user": NOBODY} if os.geteuid() == 0 else {}
        for options in ((), ("--duplicates",)):
            for path, why in ((self.directory / "none", "No such file or directory"),
                              (self.directory, "Is a directory"), (closed, "Permission denied"),
                              (good / "x", "Not a directory")):
                with self.subTest(path, options=options):
                    done = self.audit(*options, good, path, **settings)
                    self.assert_fails(done, 2, f"cannot read {path}: {why}")
                    self.assertEqual(done.stdout, "")

    def test_standard_input(self):
        directory = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, directory)
        self.assert_fails(self.audit(stdin=directory), 2,
                          "cannot read standard input: Is a directory")
        self.assert_fails(self.audit("-", preexec_fn=lambda: os.close(0)), 1,
                          "cannot read standard input: Bad file descriptor")


SUMMARY = ("{} entries, {} of them repeated; {} IDs, {} of them issued more than once")


class Duplicates(AuditTest):
    def assert_found(self, done, lines, *counts, status=1):
        self.assertEqual(done.returncode, status, done)
        *shown, summary = done.stdout.splitlines()
        self.assertEqual([text.split() for text in shown[1:]], lines)
        self.assertEqual(summary, SUMMARY.format(*counts))

    def test_what_is_one(self):
        time = "2010-11-04T01:42:54.657Z"
        first = self.file("first", line(5), line(1, "a", 1), line(2), line(3), line(3), gap(7))
        second = self.file("second", line(2), line(1, "b", 1), line(4, "web", 2), "\n", line(4),
                           line(4), line(3), line(1, "a", 1), gap(5))
        done = self.audit("--duplicates", first, second)
        self.assert_found(done, [
            ["1", time, "1", "a", f"{second}:8"], ["1", time, "1", "b", f"{second}:2"],
            ["4", time, "1", "web", f"{second}:6"], ["4", time, "2", "web", f"{second}:3"],
        ], 12, 5, 5, 2)
        self.assertEqual(done.stderr, "snowflakectl: 12 IDs are missing from the log, in 2 gaps; "
                                      "they may be duplicates too\n")

    def test_a_reader_that_has_had_enough(self):
        """If the reader ends before a duplicate was printed, the status must not mean that there is
        none."""
        path = self.file("log", line(1), line(1, "web", 2))
        for options, status in (((), 0), (("--duplicates",), 1)):
            with self.subTest(options):
                reader, writer = os.pipe()
                os.close(reader)
                with open(writer, "wb") as output:
                    done = self.audit(*options, path, stdout=output)
                self.assertEqual((done.returncode, done.stderr), (status, ""))

    def test_json(self):
        path = self.file("log", line(1), line(2), line(1, "web", 2))
        done = self.audit("--duplicates", "--json", path)
        self.assert_fails(done, 1, SUMMARY.format(3, 0, 2, 1))
        entry = {"id": "1", "time": "2010-11-04T01:42:54.657Z", "agent": "web", "file": str(path)}
        self.assertEqual(json.loads(done.stdout), [{**entry, "tag": "1", "line": 1},
                                                   {**entry, "tag": "2", "line": 3}])
        done = self.audit("--duplicates", "--json", text=line(1))
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, []))

    def test_none_and_damage(self):
        """Undamaged lines are compared if their time is in the range."""
        late = line(at(EPOCH_MS + 1)) * 2 + line(at(EPOCH_MS + 1), "b") + line(at(EPOCH_MS + 2))
        for text, options, status, *counts in (
                (line(1) + line(2) + line(1), (), 0, 3, 1, 2, 0), ("", (), 0, 0, 0, 0, 0),
                (late, ("--from", EPOCH_MS + 2), 0, 1, 0, 1, 0),
                (line(1) + "x\n", (), 1, 1, 0, 1, 0)):
            with self.subTest(text, options=options):
                done = self.audit("--duplicates", *options, text=text)
                self.assertEqual((done.returncode, done.stdout),
                                 (status, SUMMARY.format(*counts) + "\n"))
        done = self.audit("--duplicates", text=line(1) + "x\n" + line(1, "web", 2))
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (1, 4))


class MuchData(AuditTest):
    """Several files with more entries than fit in memory."""
    ENTRIES = scaled(400_000, 60_000)

    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir()

    def make_files(self):
        """Makes files with a duplicate at both ends, one in adjacent lines, and an entry that was
        delivered twice."""
        numbers = list(range(1, self.ENTRIES + 1))
        random.Random(1).shuffle(numbers)
        lines = [line(number, "agent") for number in numbers]
        lines.append(line(numbers[0], "agent", 2))
        lines.insert(1000, line(numbers[999], "other"))
        lines.append(lines[5000])
        third = len(lines) // 3
        return [self.file(str(i), *lines[i * third:None if i == 2 else (i + 1) * third])
                for i in range(3)]

    def find(self, *files, memory=1, limits=(), **environment):
        limited = [] if SANITIZED else ["/usr/bin/prlimit", *limits, "--"]
        return subprocess.run([*limited, SNOWFLAKECTL, "audit", "--duplicates", "--memory",
                               str(memory), *files], env={**CTL_ENVIRONMENT, **environment},
                              capture_output=True, check=False, text=True, timeout=HANG_GUARD_S)

    def test_it_is_found(self):
        files = self.make_files()
        found = []
        for memory, limits in ((1, (f"--data={16 * MEBIBYTE}",)), (64, ("--fsize=0",))):
            done = self.find(*files, memory=memory, limits=limits, TMPDIR=str(self.temporary))
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            self.assertEqual(done.stdout.splitlines()[-1],
                             SUMMARY.format(self.ENTRIES + 3, 1, self.ENTRIES, 2))
            self.assertEqual(len(done.stdout.splitlines()), 1 + 2 * 2 + 1)
            found.append(done.stdout)
        self.assertEqual(*found)

    def test_sort_is_missing(self):
        done = self.find(self.file("log", line(1)), PATH=str(self.directory))
        self.assert_fails(done, 1, "--duplicates needs sort(1)", "No such file or directory")
        self.assertEqual(done.stdout, "")

    def test_a_temporary_file_that_cannot_be_made(self):
        path = self.directory / "none"
        self.assert_fails(self.find(*self.make_files(), TMPDIR=str(path)), 1,
                          "cannot sort the entries", str(path), "No such file or directory",
                          "TMPDIR")

    def test_a_full_disk(self):
        if not may_mount():
            self.skipTest("needs the right to mount")
        mount(self.temporary, "size=1m,mode=0700")
        self.addCleanup(subprocess.run, ["umount", self.temporary], check=True)
        done = self.find(*self.make_files(), TMPDIR=str(self.temporary))
        self.assert_fails(done, 1, "cannot sort the entries", str(self.temporary), "No space",
                          "TMPDIR")
        self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_nothing_is_left(self):
        lines = "".join(line(number) for number in range(1, 60_000))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                process = self.start("audit", "--duplicates", "--memory", 1, stdin=subprocess.PIPE,
                                     env={**CTL_ENVIRONMENT, "TMPDIR": str(self.temporary)})
                process.stdin.write(lines)
                process.stdin.flush()
                wait_for(lambda: list(self.temporary.iterdir()), "sort to write a file")
                self.assertEqual(self.interrupt(process, number), ("", ""))
                wait_for(lambda: not list(self.temporary.iterdir()), "sort to remove its files")


class OfAServer(ServerTest, CtlTest):
    def test_what_it_has_written(self):
        """The command reads the same entries as Thrift's own code."""
        path = self.directory / "audit"
        server = self.start("--audit-log", f"file:{path}")
        host, port = server.address
        count = scaled(25_000, 2_000)
        numbers = self.assert_ok(run("--server", f"{host}:{port}", "id", "-n", count, "--agent",
                                     "infra-dm")).split()
        server.terminate()
        shown = [(entry["id"], entry["agent"], entry["tag"])
                 for entry in json.loads(self.assert_ok(run("audit", "--json", path)))]
        self.assertEqual(shown, [(str(entry.id), entry.agent, str(entry.tag))
                                 for entry in audit.read(path)])
        self.assertEqual([(number, "infra-dm") for number in numbers],
                         [entry[:2] for entry in shown])
        self.assertEqual(self.assert_ok(run("audit", "--duplicates", path, path)),
                         SUMMARY.format(2 * count, count, count, 0) + "\n")
