# SPDX-License-Identifier: Apache-2.0
"""The migrations in docs/how-to/migrate.md. Each test issues IDs with a small port of another
system, and then with a server that it starts by the command in the document. The ports equal the
other systems in their bits and in their sequence. They use the worker ID of the server, which is
the worst case.
"""
import itertools
import json
import pathlib
import random
import re
import shlex
import time

from bindings import ROOT
from ctl import run
from harness import LONG_WAIT_MS, ServerTest, wait_for
from wire import STRICT

AHEAD_MS = 5000  # all ports run ahead by this much, so that a time of "now" proves nothing
EACH_MS = 4  # a power of two, so that no counter wraps within a millisecond
DRAWN = 5000  # more than the IDs of a millisecond, so that all IDs of one are included
DOCUMENT = (ROOT / "docs/how-to/migrate.md").read_text()


def now_ms():
    return time.time_ns() // 1_000_000


def commands():
    """Returns {heading: options of the snowflaked command below it}."""
    parts = re.split(r"^#+ (.*)\n", DOCUMENT, flags=re.MULTILINE)
    found = {heading: re.search(r"^snowflaked (.*)$", text, re.MULTILINE)
             for heading, text in zip(parts[1::2], parts[2::2])}
    return {heading: shlex.split(match[1]) for heading, match in found.items() if match}


COMMANDS = commands()


def option(options, name, default=None):
    return options[options.index(name) + 1] if name in options else default


def mac():
    """Returns the low ten bits of the MAC address of the first interface that has one, like a port.
    None if there is no such interface."""
    found = [(int((path / "ifindex").read_text()), (path / "address").read_text().strip())
             for path in pathlib.Path("/sys/class/net").iterdir()]
    found = [address for _, address in sorted(found)
             if re.fullmatch(r"(..:){5}..", address) and address != "00:00:00:00:00:00"]
    return int(found[0].replace(":", ""), 16) & 1023 if found else None


class Twitter:
    """The rule of most ports: a tick begins at 0; when the sequence is used up, they wait for the
    next tick. Here the next tick is used at once, because the test controls the clock."""
    epoch_ms, tick_ms, max_sequence = 1288834974657, 1, 4095
    batch = DRAWN  # batch for a server with this layout

    def __init__(self, datacenter_id, worker_id):
        self.datacenter_id, self.worker_id = datacenter_id, worker_id
        self.tick, self.sequence = -1, 0

    def first(self):
        return 0

    def next(self, time_ms):
        tick = (time_ms - self.epoch_ms) // self.tick_ms
        if tick > self.tick:
            self.tick, self.sequence = tick, self.first()
        elif self.sequence < self.max_sequence:
            self.sequence += 1
        else:
            self.tick, self.sequence = self.tick + 1, self.first()
        return self.number()

    def number(self):
        return self.tick << 22 | self.datacenter_id << 17 | self.worker_id << 12 | self.sequence

    def parts(self):
        """Returns the expected output of decode for the last ID."""
        return (self.epoch_ms + self.tick * self.tick_ms, self.datacenter_id, self.worker_id,
                self.sequence)

    def run_until(self, end_ms):
        """Returns the IDs of some time before end_ms, and the parts of each."""
        begin_ms = now_ms() - 100
        for time_ms in range(begin_ms, end_ms):
            for _ in range(EACH_MS):
                yield self.next(time_ms), self.parts()


class JavaPort(Twitter):
    epoch_ms = 1420041600000


class Machine(Twitter):
    def number(self):
        return self.tick << 22 | self.worker_id << 12 | self.sequence


class Leaf(Machine):
    def first(self):
        return random.randrange(100)


class UidDefault(Twitter):
    epoch_ms, tick_ms, max_sequence = 1474300800000, 1000, 8191

    def number(self):
        return self.tick << 34 | self.worker_id << 13 | self.sequence


class UidCached(UidDefault):
    """A ring that is filled with whole seconds, beginning with the second after the start, whenever
    half of it is used. IDs of a second for which there is no room are lost."""
    ring = 8192 << 1

    def run_until(self, end_ms):
        """Ignores the clock: runs until the IDs are this far ahead."""
        second = now_ms() // 1000 - 2
        ring = []
        while not ring or self.parts()[0] < end_ms:
            while len(ring) < self.ring - 1:
                second += 1
                ring += [(second, sequence) for sequence in range(8192)]
            taken, ring = ring[:self.ring // 2], ring[self.ring // 2:self.ring - 1]
            for second_taken, self.sequence in taken:
                self.tick = second_taken - self.epoch_ms // 1000
                yield self.number(), self.parts()


class Sonyflake(Twitter):
    """The sequence is above the machine, so a worker ID collides with a machine of another number,
    whose upper byte is the worker ID's lower byte."""
    epoch_ms, tick_ms, max_sequence = 1409529600000, 10, 255
    batch = 250

    def __init__(self, datacenter_id, worker_id):
        super().__init__(datacenter_id, (worker_id & 255) << 8 | 5)

    def number(self):
        return self.tick << 24 | self.sequence << 16 | self.worker_id

    def parts(self):
        return (super().parts()[0],)


class Discord(Twitter):
    """The sequence is a counter of the process."""
    epoch_ms = 1420070400000
    counter = 0

    def next(self, time_ms):
        self.tick, self.sequence = time_ms - self.epoch_ms, self.counter & self.max_sequence
        self.counter += 1
        return self.number()


class Instagram(Discord):
    epoch_ms, max_sequence = 1314220021721, 1023

    def number(self):
        return self.tick << 23 | self.worker_id << 10 | self.sequence


class Ulid:
    """ULIDs are random, and increase by one within a millisecond."""
    method = "get_ulids"

    def __init__(self):
        self.last = 0

    def next(self, time_ms):
        new = time_ms << 80 | random.getrandbits(80)
        self.last = new if time_ms > self.last >> 80 else self.last + 1
        return self.last.to_bytes(16, "big")


class Uuid7:
    """Random, except for 12 bits that count within a millisecond (RFC 9562, 6.2, method 1)."""
    method = "get_uuids"

    def __init__(self):
        self.time_ms, self.counter = 0, 0

    def next(self, time_ms):
        self.counter = self.counter + 1 if time_ms == self.time_ms else random.getrandbits(11)
        self.time_ms = time_ms
        number = time_ms << 80 | 7 << 76 | self.counter << 64 | 2 << 62 | random.getrandbits(62)
        return number.to_bytes(16, "big")


PORTS = {
    "Twitter's Snowflake": Twitter,
    "Java ports of Snowflake": JavaPort,
    "MAC-based machine IDs": Machine,
    "UidGenerator, Default": UidDefault,
    "UidGenerator, Cached": UidCached,
    "Leaf": Leaf,
    "Sonyflake": Sonyflake,
    "Discord": Discord,
    "Instagram": Instagram,
}


class Move:
    """The migration from one system, as documented."""

    def __init__(self, name, options):
        worker_id = option(options, "--worker-id")
        self.name, self.options = name, options
        self.layout = option(options, "--layout", "twitter")
        self.worker_id = mac() if worker_id == "mac" else int(worker_id)
        self.port = PORTS[name](int(option(options, "--datacenter-id", 0)), self.worker_id)
        self.old, self.parts = zip(*self.port.run_until(now_ms() + AHEAD_MS))

    def decode(self, *numbers):
        """Returns (time, datacenter ID, worker ID, sequence) of each ID."""
        done = run("decode", "--json", "--layout", self.layout, *numbers)
        return [(parts["timestamp_ms"], parts["datacenter_id"], parts["worker_id"],
                 parts["sequence"]) for parts in json.loads(done.stdout)]

    def over_ms(self):
        """Returns when the time of the highest ID has passed by a tick."""
        return self.decode(max(self.old))[0][0] + self.port.tick_ms


def disorder(ids):
    """Returns the first pair of IDs that are equal, or not in order."""
    return [pair for pair in itertools.pairwise(ids) if pair[0] >= pair[1]][:3]


def draw(server, batch=DRAWN):
    with server.connect() as connection:
        return [number for _ in range(DRAWN // batch)
                for number in connection.call(STRICT, "get_ids", "good", batch).success]


class Moves(ServerTest):
    def serve(self, name, options):
        return self.launch("--state-directory", self.directory / name, *options, "--max-wait",
                           LONG_WAIT_MS)

    def test_by_time(self):
        """All ports run ahead of the clock. A server that does not wait issues duplicates of each
        port's IDs, so the wait is necessary. A server that starts after the wait does not."""
        hasty = {name: self.serve(f"hasty {name}", options) for name, options in COMMANDS.items()
                 if name in PORTS and ("mac" not in options or mac() is not None)}
        moves = []
        for name, server in hasty.items():
            server.wait_ready()
            moves.append(Move(name, COMMANDS[name]))
            with self.subTest(name, hasty=True):
                self.assertFalse(set(moves[-1].old).isdisjoint(draw(server, PORTS[name].batch)))
        for move in sorted(moves, key=Move.over_ms):
            with self.subTest(move.name):
                wait_for(lambda over_ms=move.over_ms(): now_ms() >= over_ms)
                server = self.serve(move.name, move.options).wait_ready()
                self.check(move, draw(server, move.port.batch))

    def check(self, move, new):
        self.assertEqual(disorder([*move.old, *new]), [])
        some = range(0, len(move.old), len(move.old) // 50)
        decoded = move.decode(*(move.old[i] for i in some))
        self.assertEqual([parts[:len(move.parts[0])] for parts in decoded],
                         [move.parts[i] for i in some])
        self.assertEqual({parts[1:3] for parts in move.decode(*new[::50])},
                         {(int(option(move.options, "--datacenter-id", 0)), move.worker_id)})

    def test_by_worker_id(self):
        """No existing machine of the old system can have made the server's IDs."""
        makers = {
            "By worker ID": (lambda number: number >> 12 & 1023, range(224, 256)),
            # in every other second, the worker would be 2097152 higher, which need not have existed
            "UidGenerator of 28 bits": (lambda number: number >> 13 & (1 << 21) - 1,
                                        range(1500000, 1 << 21)),
            # every machine of a.b.7.d, and no other
            "Sonyflake": (lambda number: number & 65535, range(7 << 8, 8 << 8)),
        }
        for name, (maker, expected) in makers.items():
            with self.subTest(name):
                server = self.serve(name, COMMANDS[name]).wait_ready()
                new = draw(server, PORTS.get(name, Twitter).batch)
                self.assertEqual([number for number in new if maker(number) not in expected][:3],
                                 [])

    def test_128_bits(self):
        """They never collide, but sort after the old ones only when the time of these has
        passed."""
        server = self.serve("128", ()).wait_ready()
        ports = (Ulid(), Uuid7())
        begin_ms = now_ms()
        end_ms = begin_ms + AHEAD_MS
        old = [[port.next(time_ms) for time_ms in range(begin_ms, end_ms) for _ in range(EACH_MS)]
               for port in ports]
        hasty = [server.call(port.method, "good", 1000) for port in ports]
        wait_for(lambda: now_ms() >= end_ms)
        for i, port in enumerate(ports):
            with self.subTest(port.method):
                self.assertLess(hasty[i][0], old[i][-1])
                self.assertTrue(set(old[i]).isdisjoint(hasty[i]))
                new = server.call(port.method, "good", 1000)
                self.assertEqual(disorder([*old[i], *new]), [])

    def test_what_28_bits_made_of_the_numbers_of_now(self):
        """The worker IDs must differ, because the old system used the other bits half as long
        ago."""
        options = COMMANDS["UidGenerator of 28 bits"]
        started_ms = now_ms()
        seconds = (started_ms - UidDefault.epoch_ms) // 2000
        number = draw(self.serve("29", options).wait_ready())[0]
        parts, = json.loads(run("decode", "--json", "--layout", "uid-generator-28", number).stdout)
        self.assertIn(parts["timestamp_ms"] - (1463673600000 + seconds * 1000),
                      range(0, now_ms() - started_ms + 2000))
        self.assertEqual(parts["worker_id"] & (1 << 21) - 1, int(option(options, "--worker-id")))

    def test_to_another_layout(self):
        """The documented comparison succeeds only if the condition holds."""
        for port, layout, greater in ((Twitter, "uid-generator", True),
                                      (UidDefault, "twitter", False), (Machine, "discord", False)):
            with self.subTest(port=port.__name__, layout=layout):
                old = port(0, 0).next(now_ms())
                first = run("range", "--layout", layout, "--from", now_ms(), "--to", now_ms())
                self.assertEqual(int(first.stdout.split()[0]) > old, greater)
                new = draw(self.serve(layout, ("--layout", layout)).wait_ready())
                self.assertEqual(new[0] > old, greater)

    def test_the_document_has_a_test_of_each(self):
        self.assertEqual(set(COMMANDS), {*PORTS, "By worker ID", "UidGenerator of 28 bits"})
        table = re.findall(r"^\| \[[^]]+\]\(#([a-z0-9-]+)\) \|", DOCUMENT, re.MULTILINE)
        sections = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
                    for heading in re.findall(r"^### (.*)", DOCUMENT, re.MULTILINE)]
        self.assertEqual(table, sections)
