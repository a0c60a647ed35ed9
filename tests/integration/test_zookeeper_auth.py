# SPDX-License-Identifier: Apache-2.0
"""A registry that was created without --zookeeper-auth, and the introduction of a password."""
import contextlib
import json
import uuid

import znodes
from harness import secret_file
from kazoo.exceptions import NoNodeError
from zookeeper_case import (CALLS_WAIT, DATACENTER, SECRET, Tree, ZooKeeperTest, acl_of, anyone,
                            assert_shut_out, worker_id_of)

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
        """Starts a server with the password."""
        return self.member("--zookeeper-auth", self.secret, *options, **settings)

    def make_open_tree(self):
        self.member().terminate()

    def below(self, path):
        """Returns this path and all existing paths below it."""
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
    def close(self, path):
        """Does to a znode what the commands in the server's error do."""
        self.stranger.set_acls(path, [acl_of(SECRET)])

    def assert_refuses(self, path):
        self.assert_refused(self.guarded(ready=False), 1, "event=failed",
                            f"anyone can write {path} in ZooKeeper", "addauth digest cluster:",
                            f"setAcl -R {path} auth::cdrwa")

    def test_a_server_with_the_password_does_not_start(self):
        """The server names the highest open znode, and changes nothing."""
        self.make_open_tree()
        datacenter = f"{self.root}/datacenters/{DATACENTER}"
        for path in (self.root, f"{self.root}/registry", f"{self.root}/layout",
                     f"{self.root}/limits", f"{self.root}/datacenters", datacenter,
                     f"{datacenter}/floor", f"{datacenter}/claims",
                     f"{datacenter}/reservations", f"{datacenter}/reservations/0"):
            before = znodes.Registry(self.insider, self.root).everything()
            with self.subTest(path):
                self.assert_refuses(path)
                self.assertEqual(znodes.Registry(self.insider, self.root).everything(), before)
            self.close(path)
        self.draw(self.guarded()).wait_ids()
        self.assert_all_closed()

    def test_one_of_a_thousand_reservations(self):
        layout = {**znodes.LAYOUT, "datacenter_bits": 0, "worker_bits": 10}
        acl = [acl_of(SECRET)]
        self.insider.create(f"{self.root}/layout", json.dumps(layout).encode(), acl=acl,
                            makepath=True)
        reservations = f"{self.root}/datacenters/0/reservations"
        tree = Tree(self.insider, self.root)
        tree.set_floor(0, 0)
        self.insider.ensure_path(reservations)
        self.insider.ensure_path(f"{self.root}/datacenters/0/claims")
        requests = [self.insider.create_async(f"{reservations}/{worker_id}",
                                              znodes.Registry.reservation_data(5))
                    for worker_id in range(1024)]
        for request in requests:
            request.get(30)
        for path in self.below(self.root):
            if path != f"{reservations}/1007":
                self.insider.set_acls(path, acl)
        options = ("--layout", ",".join(f"{key}={value}" for key, value in layout.items()))
        self.assert_refused(self.guarded(*options, datacenter_id=0, ready=False), 1,
                            f"anyone can write {reservations}/1007")
        self.close(f"{reservations}/1007")
        self.guarded(*options, datacenter_id=0)

    def test_each_connection_looks_again(self):
        """A server that has served keeps its reservation, and extends it when the znode is closed
        again."""
        from kazoo.security import OPEN_ACL_UNSAFE
        proxy = self.proxy()
        server = self.guarded(*CALLS_WAIT, via=proxy, reservation_ms=6000)
        draw = self.draw(server)
        draw.wait_ids()
        path = f"{self.root}/datacenters"
        self.insider.set_acls(path, OPEN_ACL_UNSAFE)
        proxy.cut()
        proxy.heal()
        error = server.wait_event("zookeeper-refused").fields["error"]
        self.assertIn(f"anyone can write {path} in ZooKeeper", error)
        server.wait_event("extend-failed")
        self.close(path)
        server.wait_event("extend-recovered")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])


class Rotation(AuthTest):
    """The steps of docs/how-to/zookeeper-password.md."""

    def set_all(self, acl):
        """Acts like setAcl -R by an administrator who knows each password."""
        for path in self.below(self.root):
            with contextlib.suppress(NoNodeError):  # a claim that was deleted
                self.admin.set_acls(path, acl)

    def below(self, path):
        found = [path]
        with contextlib.suppress(NoNodeError):
            for name in self.admin.get_children(path):
                found += self.below(f"{path}/{name}")
        return found

    def rotate(self, servers, other_acl, options):
        """Restarts @servers one by one with @options, while IDs are drawn from all of them."""
        draws = [self.draw(server) for server in servers]
        for draw in draws:
            draw.wait_ids()
        self.set_all([other_acl, acl_of(SECRET)])
        for i, server in enumerate(servers):
            self.assertEqual(server.terminate(), 0)
            self.assertIsNotNone(server.find("worker-released"), server.log)
            servers[i] = self.member(*options)
            draws[i] = self.draw(servers[i])
            draws[i].wait_ids()
        self.set_all([other_acl, acl_of(SECRET)])
        self.set_all([acl_of(SECRET)])
        for server, draw in zip(servers, draws):
            for path in self.below(self.root):
                self.assertEqual(self.admin.get_acls(path)[0], [acl_of(SECRET)])
            self.assertIsNone(server.find("zookeeper-refused"), server.log)
            draw.wait_ids()
        self.assertEqual(sorted(map(worker_id_of, servers)), [0, 1, 2])

    def test_another_password(self):
        old = self.auth_file("cluster:before")
        self.admin = self.client("cluster:before")
        self.admin.add_auth("digest", SECRET)
        servers = [self.member("--zookeeper-auth", old) for _ in range(3)]
        self.rotate(servers, acl_of("cluster:before"), ("--zookeeper-auth", self.secret))
        self.assert_refused(self.member("--zookeeper-auth", old, ready=False), 1,
                            "denies this server access")

    def test_a_first_password(self):
        from kazoo.security import make_acl
        self.admin = self.client(SECRET)
        servers = [self.member() for _ in range(3)]
        self.rotate(servers, make_acl("ip", "127.0.0.0/8", all=True),
                    ("--zookeeper-auth", self.secret))
        self.assert_refused(self.member(ready=False), 1, "denies this server access")


class SomeoneElses(AuthTest):
    """ACLs with another user."""

    def test_who_may_not_write_its_reservation_any_more_takes_another(self):
        """If a server may no longer write its reservation, it takes another worker ID after the
        reservation's end, whether or not it may read the record."""
        self.make_open_tree()
        for acl in ([anyone(read=True)], [acl_of(ADMIN)]):
            proxy = self.proxy()
            server = self.member(via=proxy)
            draw = self.draw(server)
            draw.wait_ids()
            worker_id = server.call("get_worker").worker_id
            self.insider.set_acls(self.tree.reservation_path(worker_id), acl)
            proxy.reset()  # so that the server reads it
            lost = server.wait_event("worker-lost")
            self.assertIn("has ended, and ZooKeeper denies access to it", lost.fields["error"])
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
                            "denies this server access")

    def test_a_root_that_may_not_be_looked_at(self):
        self.make_open_tree()
        self.insider.set_acls(self.root, [acl_of(ADMIN)])
        self.assert_refused(self.guarded(ready=False), 1, "event=failed",
                            f"denies this server access to {self.root};")

    def test_a_root_that_others_may_only_read(self):
        self.guarded().terminate()
        self.insider.set_acls(self.root, [acl_of(ADMIN), acl_of(SECRET), anyone(read=True)])
        self.draw(self.guarded()).wait_ids()

    def test_a_reservation_that_may_not_be_looked_at_is_passed_over(self):
        self.guarded().terminate()
        self.insider.set_acls(self.tree.reservation_path(0), [acl_of(ADMIN)])
        server = self.guarded()
        self.assertEqual(worker_id_of(server), 1)
        why = self.guarded("--worker-id", 0, ready=False).wait_event("worker-waiting")
        self.assertIn("cannot be read", why.fields["why"])

    def test_what_is_no_reservation_does_not_matter(self):
        self.make_open_tree()
        for path in self.below(self.root):
            self.insider.set_acls(path, [acl_of(SECRET)])
        self.insider.create(self.tree.reservation_path("007"), b"", acl=[anyone(write=True)])
        self.draw(self.guarded()).wait_ids()
