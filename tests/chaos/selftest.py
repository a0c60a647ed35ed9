# SPDX-License-Identifier: Apache-2.0
"""Tests that a run detects violations: with made-up replies, and with real servers that are
configured to issue the same IDs."""
import argparse
import contextlib
import pathlib
import random
import socket
import struct
import subprocess
import tempfile
import threading
import time
import traceback
import unittest
from unittest import mock

import faults
import thread_errors
from checker import SEQUENCE_MASK, Checker
from clients import DATACENTER_SHIFT, Asker, Drawer, Judge
from cluster import DATACENTER_ID, WORKER_BITS, Cluster
from hands import Hands
from harness import wait_for
from name_server import FAILING, MISSING, SILENT, SLOW, NameService, possible
from report import Run
from zookeeper import Ensemble

RESERVED_MS = 180_000
BASE = 1 << 40 << 22 | DATACENTER_ID << DATACENTER_SHIFT  # long ago, worker 0, sequence 0


def number(tick, sequence, worker=0):
    return BASE + (tick << 22) + (worker << 12) + sequence


class StubSlot:
    name = "slot"
    asked_at = 0.0


class StubLife:
    index = 0


class WhatTheCheckerFinds(unittest.TestCase):
    def setUp(self):
        self.checker = Checker()

    def record(self, *numbers, life=0):
        return self.checker.record(life, list(numbers))

    def test_the_same_single_id(self):
        self.assertEqual(self.record(number(1, 1)), 0)
        self.assertEqual(self.record(number(1, 1), life=1), 1)
        found = self.checker.examples[0]
        self.assertEqual((found.number, found.first_life, found.second_life), (number(1, 1), 0, 1))

    def test_one_id_within_a_batch(self):
        self.record(*(number(5, sequence) for sequence in range(100)))
        self.assertEqual(self.record(number(5, 99)), 1)
        self.assertEqual(self.record(number(5, 100)), 0)

    def test_batches_that_overlap(self):
        self.record(*(number(5, sequence) for sequence in range(100)))
        self.assertEqual(self.record(*(number(5, sequence) for sequence in range(90, 200))), 10)
        self.assertEqual(self.record(*(number(5, sequence) for sequence in range(80, 201))), 120)

    def test_twice_in_one_reply(self):
        self.assertEqual(self.record(number(1, 1), number(1, 2), number(1, 1)), 1)

    def test_a_batch_that_carries_into_the_next_tick(self):
        self.record(*(number(5, sequence) for sequence in range(SEQUENCE_MASK - 1,
                                                                SEQUENCE_MASK + 1)), number(6, 0))
        self.assertEqual(self.record(number(6, 0)), 1)
        self.assertEqual(self.record(number(6, 1)), 0)

    def test_another_worker_is_another_id(self):
        self.record(number(5, 5))
        self.assertEqual(self.record(number(5, 5, worker=1)), 0)

    def test_whatever_comes_in_whatever_order(self):
        chance = random.Random(1)
        seen = set()
        for _ in range(5000):
            tick, first, worker = (chance.randrange(40), chance.randrange(SEQUENCE_MASK - 600),
                                   chance.randrange(3))
            count = chance.choice((1, 1, 1, 2, 30, 500))
            numbers = [number(tick, sequence, worker) for sequence in range(first, first + count)
                       if count == 1 or chance.random() < 0.95]
            expected = sum(one in seen for one in numbers)
            seen.update(numbers)
            self.assertEqual(self.checker.record(chance.randrange(4), numbers), expected)


class WhatTheJudgeFinds(unittest.TestCase):
    def setUp(self):
        self.judge = Judge(Checker())
        self.slot = StubSlot()
        self.last = 0

    def draw(self, *numbers):
        """Records a draw on one connection, by a call that began after 5 s."""
        self.last = self.judge.drawn(self.slot, StubLife, 5.0, numbers, self.last)

    def test_ids_that_do_not_increase(self):
        self.draw(number(1, 0))
        self.draw(number(1, 1))
        self.assertEqual(self.judge.disordered, [])
        self.draw(number(1, 1))
        self.draw(number(2, 1), number(2, 0))
        self.draw(number(1, 7, worker=1))
        self.assertEqual(len(self.judge.disordered), 3)

    def test_an_id_of_another_datacenter(self):
        self.draw(number(1, 1), number(1, 2, worker=1 << WORKER_BITS))
        self.assertEqual(len(self.judge.strangers), 1)

    def test_an_id_of_the_future(self):
        self.draw((1 << 41) - 1 << 22 | DATACENTER_ID << DATACENTER_SHIFT)
        self.assertEqual(len(self.judge.futures), 1)

    def test_a_server_serves_again_with_a_call_that_succeeds(self):
        self.judge.failed("WorkerIdUnavailable: none")
        self.assertEqual(self.slot.asked_at, 0.0)
        self.draw(number(1, 0))
        self.assertEqual(self.slot.asked_at, 5.0)


class Impostor:
    """Answers each call like get_timestamp or get_id, except that `alter` changes the method and
    the sequence ID."""

    index = 0

    def __init__(self, alter):
        self.alter = alter
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        connection, _ = self.listening.accept()
        # the client may have disconnected
        with contextlib.suppress(ConnectionError), connection, \
                connection.makefile("rwb") as stream:
            while length := stream.read(4):
                call = stream.read(struct.unpack(">I", length)[0])
                end = 8 + struct.unpack_from(">i", call, 4)[0]
                method, seqid = self.alter(call[8:end], *struct.unpack_from(">i", call, end))
                reply = struct.pack(f">II{len(method)}sibhqb", 0x80010002, len(method), method,
                                    seqid, 10, 0, number(1, seqid & SEQUENCE_MASK), 0)
                stream.write(struct.pack(">I", len(reply)) + reply)
                stream.flush()

    def close(self):
        self.thread.join()
        self.listening.close()


class ForeignReplies(unittest.TestCase):
    def told_by(self, client, alter):
        """Returns the violations that a client of such a server reports."""
        judge = Judge(Checker())
        impostor = Impostor(alter)
        self.addCleanup(impostor.close)
        client(StubSlot(), judge, 1).speak_to(impostor)
        return [text for _, text in judge.foreign]

    def test_what_does_not_answer_its_call_is_found(self):
        for name, alter in (("of another call", lambda method, seqid: (method, seqid + 1)),
                            ("of another method", lambda method, seqid: (b"get_other", seqid))):
            for client in (lambda *given: Drawer(*given, False), Asker):
                with self.subTest(name):
                    told = self.told_by(client, alter)
                    self.assertEqual(len(told), 1)
                    self.assertRegex(told[0], "^a reply to .*, not to ")

    def test_a_wrong_answer_is_found(self):
        """An ID is neither a worker ID nor a refusal."""
        told = self.told_by(Asker, lambda method, seqid: (method, seqid))
        self.assertGreater(len(told), 0)


class ThreadsThatEnd(unittest.TestCase):
    def test_one_that_ends_by_an_exception_fails_the_run(self):
        def parts():
            thread = threading.Thread(target=self.fail, args=("a check in a thread",))
            thread.start()
            thread.join()
            return []

        self.addCleanup(setattr, threading, "excepthook", threading.excepthook)
        with tempfile.TemporaryDirectory() as directory, mock.patch("report.Ensemble"):
            run = Run(argparse.Namespace(seed=1, seconds=15, build=None, kinds=None,
                                         logs=directory))
            run.parts = parts
            run.run()
        self.assertTrue(run.has_failed())
        self.assertRegex(run.problems[0], r"(?s)^Thread-\d+ .* ended: .*a check in a thread")


class Schedules(unittest.TestCase):
    regimes = ((faults.SHORT, 120), (faults.RESTORED, 120))

    def test_the_same_seed_gives_the_same_faults(self):
        for regime, seconds in self.regimes:
            first, again, other = (faults.schedule(seed, seconds, regime, faults.KINDS)
                                   for seed in (1, 1, 2))
            self.assertEqual(first, again)
            self.assertNotEqual(first, other)

    def test_every_kind_comes(self):
        for regime, seconds in self.regimes:
            kinds = {fault.kind for fault in faults.schedule(3, seconds, regime, faults.KINDS)}
            self.assertEqual(kinds, {kind for kind in faults.KINDS if regime.has(kind)})


@unittest.skipUnless(possible(), "needs root")
class Names(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="snowflake-chaos-")
        self.addCleanup(directory.cleanup)
        self.names = NameService(directory.name)
        self.addCleanup(self.names.close)

    def look_up(self, name):
        """(whether it is found, after how many seconds)"""
        began = time.monotonic()
        found = subprocess.run([*self.names.wrapper(), "getent", "ahosts", name],
                               stdout=subprocess.DEVNULL, check=False).returncode == 0
        return found, time.monotonic() - began

    def test_troubles_are_those_of_their_domain(self):
        for what, is_found, least_s in ((SILENT, False, 2), (SLOW, True, 0.3),
                                        (MISSING, False, 0), (FAILING, False, 0)):
            with self.subTest(what):
                self.names.trouble("one.chaos", what, 0.3)
                found, took_s = self.look_up("zk1.one.chaos")
                self.assertEqual(found, is_found)
                self.assertGreaterEqual(took_s, least_s)
                self.assertTrue(self.look_up("zk1.another-one.chaos")[0])
        self.names.heal("one.chaos")
        self.assertTrue(self.look_up("zk1.one.chaos")[0])


class Sabotage(unittest.TestCase):
    def test_two_servers_on_one_worker_id_are_found(self):
        """Each server has its own state directory, which users must not do."""
        directory = tempfile.TemporaryDirectory(prefix="snowflake-chaos-")
        self.addCleanup(directory.cleanup)
        judge = Judge(Checker())
        lives = []
        cluster = Cluster(pathlib.Path(directory.name), None, ("--worker-id", 3), lives)
        self.addCleanup(cluster.close)
        for name in ("one", "two"):
            drawer = Drawer(cluster.add(name), judge, name, True)
            self.addCleanup(drawer.join)
            self.addCleanup(drawer.stop)
            drawer.start()
        wait_for(lambda: judge.checker.duplicates, "a duplicate to be found")
        wait_for(lambda: judge.checker.duplicates > 100, "many duplicates to be found")
        found = next(one for one in judge.checker.examples if one.first_life != one.second_life)
        self.assertNotEqual(lives[found.first_life].slot, lives[found.second_life].slot)

    def test_a_restore_without_quarantine_is_found(self):
        """The fault must be able to cause duplicates. The server that does not notice the restore
        must have a reservation that is longer than a restore takes, and was made after the backup.
        """
        directory = tempfile.TemporaryDirectory(prefix="snowflake-chaos-")
        self.addCleanup(directory.cleanup)
        ensemble = Ensemble()
        self.addCleanup(ensemble.close)
        ensemble.start()
        judge = Judge(Checker())
        drawers = []

        def attach(slot):
            drawers.append(Drawer(slot, judge, slot.name, True))
            drawers[-1].start()

        regime = faults.RESTORED._replace(reservation_ms=RESERVED_MS)
        cluster = Cluster(pathlib.Path(directory.name), ensemble.connect_string, regime.options, [])
        hands = Hands(cluster, ensemble, attach, lambda slot: None, quarantines=False)
        slot = cluster.add("one")
        attach(slot)
        try:
            wait_for(lambda: judge.checker.checked, "the server to serve")
            backup = hands.back_up(faults.BACKUPS[0])
            wait_for(lambda: slot.life.server.call("get_worker").reserved_until_ms
                     > time.time() * 1000 + RESERVED_MS / 3, "a long reservation")
            hands.restore_with_straggler(slot, backup, lambda: wait_for(
                lambda: judge.checker.duplicates > 100, "many duplicates to be found"))
        finally:
            for drawer in drawers:
                drawer.stop()
            hands.close()
            cluster.close()


def main():
    ended = []
    thread_errors.watch(lambda *error: ended.append(error))
    suite = unittest.defaultTestLoader.loadTestsFromModule(__import__(__name__))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for thread, error in ended:
        print(f"{thread.name} ended:", *traceback.format_exception(*error))
    failed = len(result.failures) + len(result.errors) + len(ended)
    print(f"chaos: {result.testsRun - failed} passed, {failed} failed")
    return 1 if failed else 0
