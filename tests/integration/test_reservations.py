# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers --reservations: which worker IDs are held, quarantined or free."""
import json
import uuid

from ctl import FAR, RegistryTest
from znodes import tick_in, time_of


class Reservations(RegistryTest):
    def test_held_quarantined_free_and_damaged(self):
        self.registry.make_layout()
        _, nonce = self.registry.claim(1, "h.invalid:1", 3)
        later, past = tick_in(FAR), tick_in(-5)
        self.registry.reserve(1, 3, past, nonce, "h.invalid:1")  # late, but its owner lives
        self.registry.reserve(1, 30, later, str(uuid.uuid4()), "b.example:1")
        self.registry.reserve(1, 4, later + 1, "", "c.example:1")
        self.registry.reserve(1, 8, later + 2, nonce, "h.invalid:1")  # its owner has another
        self.registry.reserve(1, 9, past, self.registry.claim(1, "u.invalid:1")[1], "u.invalid:1")
        self.registry.reserve(1, 5, past, str(uuid.uuid4()), "d.example:1")
        self.registry.create("datacenters/1/reservations/7", b"{\"reserved_until_tick\":1e3}")
        self.registry.make_datacenter(9)

        done = self.ctl("--json", "workers", "--reservations")
        self.assert_fails(done, 1, "reservations/7", "reserved_until_tick")
        first, second = json.loads(done.stdout)
        listed = first.pop("reservations")
        self.assertEqual(first, {"datacenter_id": 1, "worker_ids": 32, "held": 2,
                                 "quarantined": 3, "free": 26, "damaged": 1, "floor": None})
        self.assertEqual(second, {"datacenter_id": 9, "worker_ids": 32, "held": 0,
                                  "quarantined": 0, "free": 32, "damaged": 0, "floor": None,
                                  "reservations": []})
        self.assertEqual(
            [(each["worker_id"], each["state"], each["reserved_until"], each["address"])
             for each in listed],
            [(3, "held", time_of(past), "h.invalid:1"),
             (4, "quarantined", time_of(later + 1), "c.example:1"),
             (5, "free", time_of(past), "d.example:1"), (7, "damaged", None, None),
             (8, "quarantined", time_of(later + 2), "h.invalid:1"),
             (9, "held", time_of(past), "u.invalid:1"),
             (30, "quarantined", time_of(later), "b.example:1")])

        lines = self.ctl("workers", "--reservations").stdout.splitlines()
        self.assertEqual([line.split()[:3] for line in lines[1:8]],
                         [["1", str(each["worker_id"]), each["state"]] for each in listed])
        self.assertEqual(lines[8:], [
            "datacenter 1: 2 held, 3 quarantined, 26 free, 1 damaged, of 32 worker IDs",
            "datacenter 9: 0 held, 0 quarantined, 32 free, of 32 worker IDs"])

    def test_one_that_is_secret_hides_no_other(self):
        """Servers pass it over; so does the tool, which names it."""
        from kazoo.security import make_digest_acl
        self.registry.make_layout()
        self.registry.make_limits(10000, 600000)
        for worker_id in (3, 4):
            self.registry.reserve(1, worker_id, tick_in(-5), "", "a.example:1")
        secret = self.registry.reservation_path(1, 3)
        self.kazoo.set_acls(secret, [make_digest_acl("some", "one", all=True)])
        done = self.ctl("--json", "workers", "--reservations")
        self.assert_fails(done, 1, secret, "may not be read")
        listed, = json.loads(done.stdout)
        self.assertEqual([(each["worker_id"], each["state"]) for each in listed["reservations"]],
                         [(3, "damaged"), (4, "free")])
        self.assertEqual(self.ctl("registry", "quarantine", "--yes").returncode, 0)

    def test_below_the_floor_nothing_is_free(self):
        self.registry.make_layout()
        _, nonce = self.registry.claim(1, "h.invalid:1", 3)
        later, floor, past = tick_in(2 * FAR), tick_in(FAR), tick_in(-5)
        self.registry.reserve(1, 3, past, nonce, "h.invalid:1")
        self.registry.reserve(1, 4, past, "", "b.example:1")
        self.registry.reserve(1, 5, later, "", "c.example:1")
        self.registry.set_floor(1, floor)
        self.registry.make_datacenter(2, past)
        first, second = self.listed("workers", "--reservations")
        self.assertEqual([(each["worker_id"], each["state"], each["reserved_until"])
                          for each in first.pop("reservations")],
                         [(3, "held", time_of(past)), (4, "quarantined", time_of(floor)),
                          (5, "quarantined", time_of(later))])
        self.assertEqual(first, {"datacenter_id": 1, "worker_ids": 32, "held": 1,
                                 "quarantined": 31, "free": 0, "damaged": 0,
                                 "floor": time_of(floor)})
        self.assertEqual((second["free"], second["floor"]), (32, time_of(past)))
        lines = self.assert_ok(self.ctl("workers", "--reservations")).splitlines()
        self.assertEqual(lines[-2:], [
            "datacenter 1: 1 held, 31 quarantined, 0 free, of 32 worker IDs; "
            f"quarantined until {time_of(floor)} by an operator",
            "datacenter 2: 0 held, 0 quarantined, 32 free, of 32 worker IDs"])

    def test_a_floor_that_is_missing_or_damaged_is_named(self):
        self.registry.make_layout()
        self.registry.make_datacenter(1)
        self.registry.create("datacenters/2")  # its first server is about to make the rest
        self.assert_ok(self.ctl("workers", "--reservations"))
        self.kazoo.set(self.registry.floor_path(1), b"{}")
        self.assert_fails(self.ctl("workers", "--reservations"), 1, "datacenters/1/floor",
                          "floor_tick")
        self.kazoo.delete(self.registry.floor_path(1))
        self.assert_fails(self.ctl("workers", "--reservations"), 1, "datacenters/1/floor",
                          "is missing", "registry quarantine")
        self.assertEqual(self.listed("workers"), [])

    def test_another_layout_has_other_worker_ids(self):
        self.registry.make_layout(datacenter_bits=3, worker_bits=7)
        self.registry.reserve(7, 127, tick_in(FAR))
        self.registry.make_datacenter(8)
        done = self.ctl("--json", "workers", "--reservations")
        self.assertEqual(done.returncode, 0)
        self.assertIn("datacenters/8 is not of a server", done.stderr)
        listed, = json.loads(done.stdout)
        self.assertEqual((listed["worker_ids"], listed["quarantined"], listed["free"]),
                         (128, 1, 127))
