# SPDX-License-Identifier: Apache-2.0
"""snowflakectl registry secure: what closes a ZooKeeper that was open to anyone."""
import json
import subprocess
import uuid

from ctl import RegistryTest, answer_question, run
from harness import ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, secret_file
from proxy import SET_ACL
from znodes import Registry
from zookeeper_case import SECRET, acl_of, anyone, assert_shut_out, kept_open

ADMIN = "admin:0ther"
PARENTS = ["", "/layout", "/limits", "/datacenters"]
OF_DATACENTER = ["", "/floor", "/claims", "/reservations"]


class SecureTest(RegistryTest):
    """A tree of two datacenters with two reservations each; `kazoo` is a stranger's."""
    has_layout = True

    def setUp(self):
        super().setUp()
        self.password = self.password_file(SECRET)
        self.insider = self.client(SECRET)
        self.root = self.registry.root
        self.registry.make_limits(10000, 600000)
        for datacenter in (1, 7):
            self.registry.make_datacenter(datacenter)
            for worker_id in (0, 31):
                self.registry.reserve(datacenter, worker_id, 5)
        self.paths = [self.root + name for name in PARENTS]
        for datacenter in (1, 7):
            self.paths += [f"{self.root}/datacenters/{datacenter}{name}" for name in OF_DATACENTER]
            self.paths += [self.registry.reservation_path(datacenter, worker_id)
                           for worker_id in (0, 31)]

    def password_file(self, auth):
        return secret_file(self.directory / str(uuid.uuid4()), auth + "\n")

    def secure(self, *arguments, **settings):
        return self.ctl("--zookeeper-auth", self.password, "registry", "secure", "--yes",
                        *arguments, **settings)

    def secure_json(self, *arguments):
        done = self.ctl("--zookeeper-auth", self.password, "--json", "registry", "secure", "--yes",
                        *arguments)
        return done, json.loads(done.stdout)

    def acls(self):
        """Of all that is there, by path."""
        pending = [self.root]
        found = {}
        while pending:
            requests = [(path, self.insider.get_acls_async(path),
                         self.insider.get_children_async(path)) for path in pending]
            pending = []
            for path, acl, names in requests:
                found[path] = acl.get(30)[0]
                pending += [f"{path}/{name}" for name in names.get(30)]
        return found

    def assert_closed(self, paths):
        for path in paths:
            with self.subTest(path):
                self.assertEqual(self.insider.get_acls(path)[0], [acl_of(SECRET)])
                assert_shut_out(self, self.kazoo, path, path == self.root)


class WholeTree(SecureTest):
    def test_all_of_it_is_closed(self):
        self.assertEqual(len(self.paths), 16)
        self.assertEqual(
            self.assert_ok(self.secure()),
            "16 znodes: 16 were open to anyone, 16 of them are closed now; 0 are someone else's\n")
        self.assertEqual(set(self.acls()), set(self.paths))
        self.assert_closed(self.paths)

    def test_twice_is_as_good_as_once(self):
        self.assert_ok(self.secure())
        before = Registry(self.insider, self.root).everything()
        self.assertEqual(
            self.assert_ok(self.secure()),
            "16 znodes: 0 were open to anyone, 0 of them are closed now; 0 are someone else's\n")
        self.assertEqual(Registry(self.insider, self.root).everything(), before)

    def test_half_done_is_done_by_the_next(self):
        for path in self.paths[:5]:
            self.kazoo.set_acls(path, [acl_of(SECRET)])
        self.assertIn("16 znodes: 11 were open to anyone, 11 of them",
                      self.assert_ok(self.secure()))
        self.assert_closed(self.paths)

    def test_as_json(self):
        done, closed = self.secure_json()
        self.assertEqual(done.returncode, 0)
        self.assertIn("16 znodes: 16 were open", done.stderr)
        self.assertEqual({each["path"] for each in closed}, set(self.paths))
        # parents before what is in them
        order = [each["path"] for each in closed]
        for path in order[1:]:
            self.assertLess(order.index(path.rpartition("/")[0]), order.index(path))
        self.assertEqual({(each["before"], each["after"]) for each in closed}, {("open", "closed")})
        done, closed = self.secure_json()
        self.assertEqual((done.returncode, closed), (0, []))

    def test_thousands_of_reservations(self):
        paths = [self.registry.reservation_path(datacenter, worker_id)
                 for datacenter in (1, 7) for worker_id in range(1, 1025) if worker_id != 31]
        for request in [self.kazoo.create_async(path, b"") for path in paths]:
            request.get(30)
        self.assertIn("of them are closed now; 0 are", self.assert_ok(self.secure()))
        acls = self.acls()
        self.assertEqual(len(acls), 16 + len(paths))
        self.assertEqual({tuple(acl) for acl in acls.values()}, {(acl_of(SECRET),)})

    def test_what_servers_do_not_make_is_named_and_left(self):
        strange = ["other", "datacenters/x", "datacenters/1/y", "datacenters/1/reservations/007"]
        for path in strange:
            self.registry.create(path)
        done = self.secure()
        self.assertEqual(done.returncode, 0)
        self.assertIn("16 znodes: 16 were open", done.stdout)
        for path in strange:
            self.assertIn(f"{self.root}/{path} is none of a server's; left as it is", done.stderr)
            self.assertTrue(any(acl.id.scheme == "world" for acl
                                in self.kazoo.get_acls(f"{self.root}/{path}")[0]))
        self.assert_closed(self.paths)

    def test_what_is_no_registry_is_left(self):
        self.kazoo.delete(f"{self.root}/layout")
        before = self.registry.everything()
        self.assert_fails(self.secure(), 1, f"no layout at {self.root}")
        self.assertEqual(self.registry.everything(), before)

    def test_who_sets_acls_all_the_time_does_not_slip_through(self):
        """While one is being set, ZooKeeper judges by the one before. Either the other is shut out,
        or that it is not closed is said."""
        path = self.registry.reservation_path(7, 31)
        with kept_open(self.kazoo, path):
            done = self.secure()
        if done.returncode != 0:
            self.assert_fails(done, 1, f"{path}: somebody else set its ACL", "run it again")
            self.assert_ok(self.secure())
        self.assert_closed(self.paths)

    def test_servers_with_the_password_find_it_closed(self):
        self.assert_ok(self.secure())
        server = self.launch("--zookeeper", self.hosts, "--datacenter-id", 7, "--zookeeper-auth",
                             self.password).wait_ready()
        server.call("get_id", "test")
        self.assertIsNone(server.find("registry-secured"))
        self.assert_refused(self.launch("--zookeeper", self.hosts, "--datacenter-id", 7), 1,
                            "event=failed", "does not let this server", "--zookeeper-auth")


class Live(SecureTest):
    def test_servers_without_a_password_are_named(self):
        server = self.launch("--zookeeper", self.hosts, "--datacenter-id", 1).wait_ready()
        address = "%s:%d" % server.address
        path, _ = self.registry.claim(7, "b.example:7610", 3)
        with_password = self.insider.create(
            f"{self.root}/datacenters/7/claims/claim-{uuid.uuid4()}-",
            Registry.claim_data("c.example:1"), ephemeral=True, sequence=True,
            acl=[acl_of(SECRET)])
        before = self.acls()
        done = self.secure()
        self.assert_fails(done, 1, "nothing was changed: 2 servers live", address,
                          "b.example:7610", "--even-if-servers-live")
        self.assertNotIn("c.example", done.stderr)
        self.assertEqual(self.acls(), before)

        done = self.secure("--even-if-servers-live")
        self.assertEqual(done.returncode, 0)
        self.assertIn("were open", done.stdout)
        self.assertIn("2 servers live", done.stderr)
        self.assertIn(address, done.stderr)
        self.assert_closed(self.paths)
        # a claim is its owner's, and nobody else's to delete
        from kazoo.exceptions import NoAuthError
        after = self.acls()
        for claim in (path, with_password):
            self.assertEqual(after[claim], before[claim])
            self.assertRaises(NoAuthError, self.kazoo.delete, claim)
        server.call("get_id", "test")  # of what it has reserved
        # nothing is left to be closed, and it still has to be started anew
        self.assert_fails(self.secure(), 1, "2 servers live", address)

    def test_a_server_that_comes_while_it_is_closed_is_named(self):
        proxy = self.proxy()
        closing = proxy.hold_next_reply(SET_ACL)
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", proxy.connect_string + self.root, "--zookeeper-auth",
             self.password, "registry", "secure", "--yes"], env=ENVIRONMENT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        closing.wait()
        self.registry.claim(7, "b.example:7610", 3)
        proxy.thaw()
        output, said = process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("16 znodes: 16 were open to anyone, 16 of them", output)
        self.assertIn("1 servers live", said)
        self.assertIn("b.example:7610", said)
        self.assert_closed(self.paths)


class SomeoneElses(SecureTest):
    def test_what_may_not_be_closed_is_said(self):
        rights = [acl_of(ADMIN), anyone(read=True, write=True, create=True, delete=True)]
        open_one, closed_one = f"{self.root}/datacenters/1", f"{self.root}/datacenters/7"
        self.kazoo.set_acls(open_one, rights)
        self.kazoo.set_acls(closed_one, [acl_of(ADMIN)])
        done, found = self.secure_json()
        self.assertEqual(done.returncode, 1)
        states = {each["path"]: (each["before"], each["after"]) for each in found}
        self.assertEqual(states[open_one], ("open", "open"))
        self.assertEqual(states[closed_one], ("someone else's", "someone else's"))
        self.assertEqual(list(states.values()).count(("open", "closed")), 9)
        self.assertIn("11 znodes: 10 were open to anyone, 9 of them are closed now; "
                      "2 are someone else's", done.stderr)
        self.assertIn(f"{open_one} is open to anyone", done.stderr)
        self.assertIn(f"{closed_one} is someone else's", done.stderr)
        # what is in the one that is open was closed all the same
        self.assert_closed([path for path in self.paths if path.startswith(open_one + "/")
                            and "claims" not in path and "floor" not in path
                            and path.count("/") > 4])

        done = self.secure("--admin-auth", self.password_file(ADMIN))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{closed_one} is someone else's", done.stderr)
        self.assertNotIn(open_one, done.stderr)
        self.assertEqual(self.insider.get_acls(open_one)[0], [acl_of(SECRET)])

    def test_readable_and_not_ours_is_someone_elses(self):
        self.kazoo.set_acls(self.root, [acl_of(ADMIN), anyone(read=True)])
        done = self.secure()
        self.assertEqual(done.returncode, 1)
        self.assertIn("16 znodes: 15 were open to anyone, 15 of them are closed now; "
                      "1 are someone else's", done.stdout)
        self.assert_closed(self.paths[1:])

    def test_an_administrator_beside_the_servers_stays(self):
        acl = [acl_of(ADMIN), acl_of(SECRET), anyone(read=True)]
        self.kazoo.set_acls(self.root, acl)
        self.assertIn("15 were open to anyone, 15 of them are closed now; 0 are",
                      self.assert_ok(self.secure()))
        self.assertEqual(self.insider.get_acls(self.root)[0], acl)


class Asking(SecureTest):
    """It asks first, at a terminal; and without one it does nothing."""

    def answer(self, text, *meanwhile):
        return answer_question(self.fail, ("--zookeeper", self.hosts, "--zookeeper-auth",
                                           self.password, "registry", "secure"), text, *meanwhile)

    def test_anything_but_yes_changes_nothing(self):
        before = self.registry.everything()
        for text in (b"y\n", b"no\n", b"\x04"):
            status, said = self.answer(text)
            self.assertEqual(status, 1, said)
            self.assertTrue(said.endswith("nothing was changed\n"), said)
        self.assert_fails(self.ctl("--zookeeper-auth", self.password, "registry", "secure"), 2,
                          "no terminal", "--yes")
        self.assertEqual(self.registry.everything(), before)
        status, said = self.answer(b"yes\n")
        self.assertEqual(status, 0, said)
        for word in ("16 of 16 znodes", "user cluster alone", self.root):
            self.assertIn(word, said)
        self.assertNotIn("s3cret", said)
        self.assert_closed(self.paths)

    def test_a_server_that_comes_while_it_asks(self):
        before = self.acls()
        claims = []
        status, said = self.answer(
            b"yes\n", lambda: claims.append(self.registry.claim(7, "b.example:7610", 3)[0]))
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "nothing was changed: 1 servers live .* b.example:7610; stop")
        self.kazoo.delete(claims[0])
        self.assertEqual(self.acls(), before)

    def test_somebody_else_closes_it_while_it_asks(self):
        status, said = self.answer(b"yes\n", lambda: self.assert_ok(self.secure()))
        self.assertEqual(status, 0, said)
        self.assert_closed(self.paths)

    def test_wrong_arguments_are_named(self):
        before = self.registry.everything()
        for words, arguments in (
                (["one argument: quarantine or secure"], ["secure", "all"]),
                (["secure does not take --reservation"], ["secure", "--reservation", "5"]),
                (["secure does not take", "--datacenter-id"], ["secure", "--datacenter-id", "5"]),
                (["quarantine does not take --admin-auth"],
                 ["quarantine", "--admin-auth", self.password]),
                (["--admin-auth", "not USER:PASSWORD"],
                 ["secure", "--admin-auth", self.password_file("nonsense")])):
            self.assert_fails(self.ctl("--zookeeper-auth", self.password, "registry", "--yes",
                                       *arguments), 2, *words)
        self.assert_fails(self.ctl("registry", "secure", "--yes"), 2, "--zookeeper-auth FILE")
        self.assert_fails(run("registry", "secure", "--yes"), 2, "needs --zookeeper")
        self.assertEqual(self.registry.everything(), before)
