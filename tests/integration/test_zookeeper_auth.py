# SPDX-License-Identifier: Apache-2.0
"""What --zookeeper-auth makes of a registry that was made without it."""
import contextlib
import json
import uuid

import znodes
from harness import secret_file, wait_for
from zookeeper_case import (CALLS_WAIT, DATACENTER, SECRET, Tree, ZooKeeperTest, acl_of, anyone,
                            assert_shut_out, kept_open, worker_id_of)

ADMIN = "admin:0ther"


class AuthTest(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        self.secret = self.auth_file(SECRET)
        self.stranger = self.tree.client
        self.insider = self.client(SECRET)

    def auth_file(self, text):
        return secret_file(self.directory / f"auth-{uuid.uuid4()}", text + "\n")

    def guarded(self, *options, **settings):
        """A server with the password."""
        return self.member("--zookeeper-auth", self.secret, *options, **settings)

    def make_open_tree(self):
        self.member().terminate()

    def below(self, path):
        """That path and all below it, as far as it is there."""
        found = [path]
        for name in self.insider.get_children(path):
            found += self.below(f"{path}/{name}")
        return found

    def assert_all_closed(self, *but):
        for path in self.below(self.root):
            if path not in but:
                with self.subTest(path):
                    self.assert_closed(path)

    def assert_closed(self, path):
        """Fails unless a client without the password has no access to the znode."""
        from kazoo.exceptions import NoAuthError
        self.assertRaises(NoAuthError, self.stranger.get, path)
        assert_shut_out(self, self.stranger, path, path == self.root)


class OpenTree(AuthTest):
    def test_a_stranger_cannot_touch_what_was_made_open(self):
        self.make_open_tree()
        self.tree.write_reservation(17, 5, "")
        for path in ("limits", f"datacenters/{DATACENTER}/floor"):
            self.stranger.ensure_path(f"{self.root}/{path}")
        before = len(self.below(self.root))
        server = self.guarded()
        secured = server.wait_event("registry-secured").fields
        self.assertEqual((secured["znodes"], secured["open_claims"]), (str(before), "0"))
        self.assert_all_closed()
        self.draw(server).wait_ids()

    def test_it_is_closed_once(self):
        self.make_open_tree()
        first = self.guarded()
        first.wait_event("registry-secured")
        second = self.guarded()
        self.assertIsNone(second.find("registry-secured"))
        self.assertEqual({worker_id_of(first), worker_id_of(second)}, {0, 1})

    def test_two_that_start_at_once(self):
        self.make_open_tree()
        servers = [self.guarded(ready=False) for _ in range(4)]
        for server in servers:
            server.wait_ready()
        self.assert_all_closed()

    def test_nobody_deletes_a_reservation_to_take_its_worker_id(self):
        from kazoo.exceptions import NoAuthError
        self.make_open_tree()
        server = self.guarded("--worker-id", 0, reservation_ms=20000)
        draw = self.draw(server)
        draw.wait_ids()
        with contextlib.suppress(NoAuthError):
            self.stranger.delete(self.tree.reservation_path(0))
        second = self.guarded("--worker-id", 0, ready=False)
        wait_for(lambda: second.find("ready") or second.find("worker-waiting"),
                 what="a word of the second")
        if second.find("ready"):
            self.draw(second).wait_ids(1000)
        draw.wait_ids()
        self.assertEqual(self.seen.problems[:5], [])
        self.assertIsNone(second.find("ready"))

    def test_who_sets_acls_all_the_time_does_not_slip_through(self):
        """While one is being set, ZooKeeper judges by the one before. Either the other is shut out,
        or the server does not start, and says why."""
        self.make_open_tree()
        path = self.tree.reservation_path(0)
        with kept_open(self.stranger, path):
            server = self.guarded(ready=False)
            wait_for(lambda: server.find("ready") or server.find("failed"), what="a word of it")
        if server.find("failed"):
            self.assert_refused(server, 1, "event=failed", path, "sets its ACL all the time")
            self.guarded()
        self.assert_closed(path)

    def test_a_thousand_reservations(self):
        layout = {**znodes.LAYOUT, "datacenter_bits": 0, "worker_bits": 10}
        self.stranger.create(f"{self.root}/layout", json.dumps(layout).encode(), makepath=True)
        self.tree.set_floor(0, 0)
        reservations = f"{self.root}/datacenters/0/reservations"
        self.stranger.ensure_path(reservations)
        self.stranger.ensure_path(f"{self.root}/datacenters/0/claims")
        requests = [self.stranger.create_async(f"{reservations}/{worker_id}",
                                               znodes.Registry.reservation_data(5))
                    for worker_id in range(1024)]
        for request in requests:
            request.get(30)
        server = self.guarded("--layout", ",".join(f"{key}={value}" for key, value in
                                                   layout.items()), datacenter_id=0)
        self.assertEqual(server.wait_event("registry-secured").fields["znodes"], "1031")
        acls = [self.insider.get_acls_async(path) for path in self.below(self.root)]
        for request in acls:
            self.assertEqual(request.get(30)[0], [acl_of(SECRET)])

    def test_who_runs_without_it_serves_what_is_reserved(self):
        """The tree is closed over it: it cannot extend, says why, and its worker ID is quarantined.
        What it is told about in the log of who closed it."""
        old = self.member(reservation_ms=6000)
        draw = self.draw(old)
        draw.wait_ids()
        new = self.guarded()
        self.assertEqual(new.wait_event("registry-secured").fields["open_claims"], "1")
        self.draw(new).wait_ids()
        error = old.wait_event("zookeeper-refused").fields["error"]
        self.assertIn("does not let this server read or write", error)
        self.assertIn("--zookeeper-auth", error)
        late = self.member(ready=False)
        self.assert_refused(late, 1, "event=failed", "does not let this server read or write",
                            "--zookeeper-auth")
        old.wait_event("reservation-spent")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        self.assertGreater(len(draw.numbers), 0)
        end = Tree(self.insider, self.root).reservation(0).end_tick
        self.assertEqual(old.terminate(), 0)
        self.assertEqual(Tree(self.insider, self.root).reservation(0).end_tick, end)

    def test_each_connection_looks_again(self):
        """What somebody that may has opened meanwhile is closed again, before anything is written
        there."""
        from kazoo.security import OPEN_ACL_UNSAFE
        proxy = self.proxy()
        server = self.guarded(via=proxy)
        path = self.tree.claims_path().rpartition("/")[0] + "/reservations"
        self.insider.set_acls(path, OPEN_ACL_UNSAFE)
        proxy.cut()
        proxy.heal()
        wait_for(lambda: server.find("registry-secured"), what="the tree closed again")
        self.assert_all_closed()


class SomeoneElses(AuthTest):
    """Open to anyone but for its ACL, which another may set."""

    def take_over(self, path):
        self.insider.set_acls(path, [acl_of(ADMIN),
                                     anyone(read=True, write=True, create=True, delete=True)])

    def give_back(self, path):
        self.client(ADMIN).set_acls(path, [acl_of(SECRET)])

    def test_what_cannot_be_closed(self):
        self.make_open_tree()
        datacenter = f"{self.root}/datacenters/{DATACENTER}"
        for path in (self.root, f"{self.root}/layout", f"{self.root}/datacenters", datacenter,
                     f"{datacenter}/claims", f"{datacenter}/reservations",
                     f"{datacenter}/reservations/0"):
            with self.subTest(path):
                self.take_over(path)
                self.assert_refused(self.guarded(ready=False), 1, "event=failed", path,
                                    "snowflakectl registry secure")
                self.give_back(path)
        self.guarded()

    def test_who_may_not_write_its_reservation_any_more_takes_another(self):
        """When it has ended; whether it may still be read or not."""
        self.make_open_tree()
        for acl in ([anyone(read=True)], [acl_of(ADMIN)]):
            proxy = self.proxy()
            server = self.member(via=proxy)
            draw = self.draw(server)
            draw.wait_ids()
            worker_id = server.call("get_worker").worker_id
            self.insider.set_acls(self.tree.reservation_path(worker_id), acl)
            proxy.reset()  # so that it reads it
            lost = server.wait_event("worker-lost")
            self.assertIn("has ended, and ZooKeeper refuses it", lost.fields["error"])
            draw.wait_ids()
            self.assertNotEqual(server.call("get_worker").worker_id, worker_id)
            self.assert_increasing(draw.numbers)

    def test_reservations_that_may_not_be_written_are_passed_over(self):
        self.make_open_tree()
        for worker_id in range(1, 32):
            self.tree.write_reservation(worker_id, 5, "")
        for worker_id in (0, 1):
            self.insider.set_acls(self.tree.reservation_path(worker_id), [anyone(read=True)])
        self.assertEqual(self.member().call("get_worker").worker_id, 2)
        for worker_id in range(3, 32):
            self.insider.set_acls(self.tree.reservation_path(worker_id), [anyone(read=True)])
        self.assert_refused(self.member(ready=False), 1, "event=failed",
                            "does not let this server read or write")

    def test_a_root_that_may_not_be_looked_at(self):
        self.make_open_tree()
        self.insider.set_acls(self.root, [acl_of(ADMIN)])
        self.assert_refused(self.guarded(ready=False), 1, "event=failed",
                            f"does not let this server read or write {self.root}:")

    def test_a_root_that_others_may_only_read(self):
        self.make_open_tree()
        self.insider.set_acls(self.root, [acl_of(ADMIN), anyone(read=True)])
        self.draw(self.guarded()).wait_ids()

    def test_a_reservation_that_may_not_be_looked_at_is_passed_over(self):
        self.make_open_tree()
        self.insider.set_acls(self.tree.reservation_path(0), [acl_of(ADMIN)])
        server = self.guarded()
        self.assertEqual(worker_id_of(server), 1)
        why = self.guarded("--worker-id", 0, ready=False).wait_event("worker-waiting")
        self.assertIn("may not be read", why.fields["why"])

    def test_what_is_no_reservation_is_left(self):
        self.make_open_tree()
        path = self.tree.reservation_path("007")
        self.stranger.create(path, b"")
        self.take_over(path)
        self.draw(self.guarded()).wait_ids()

    def test_who_has_served_goes_on_trying(self):
        proxy = self.proxy()
        server = self.guarded(*CALLS_WAIT, via=proxy, reservation_ms=6000)
        draw = self.draw(server)
        draw.wait_ids()
        path = f"{self.root}/datacenters"
        self.take_over(path)
        proxy.cut()
        proxy.heal()
        error = server.wait_event("zookeeper-refused").fields["error"]
        self.assertIn(path, error)
        self.assertIn("snowflakectl registry secure", error)
        server.wait_event("extend-failed")
        self.give_back(path)
        server.wait_event("extend-recovered")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
