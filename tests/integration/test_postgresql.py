# SPDX-License-Identifier: Apache-2.0
"""Servers that register in a real PostgreSQL."""
import re
import subprocess
import unittest

import ctl
from harness import BUILD, ENVIRONMENT, wait_for
from postgresql import Postgres
from postgresql_case import DATACENTER, PostgresqlTest, init_registry

CONTRACT = BUILD / "tests" / "simulation" / "store-contract"
HANG_S = 600  # the program ends itself earlier if a case waits in vain


class Contract(unittest.TestCase):
    """The guarantees of worker/store.h: the cases of tests/simulation/contract-store.c."""

    def test_store(self):
        with Postgres().start() as database:
            self.assertEqual(init_registry(database.uri()).returncode, 0)
            done = subprocess.run(
                [CONTRACT], capture_output=True, text=True, timeout=HANG_S,
                env={**ENVIRONMENT, "SNOWFLAKE_CONTRACT_POSTGRESQL": database.address})
        results = re.findall(r"^(ok|not ok) \d+ (/\S+)", done.stdout, re.MULTILINE)
        for result, name in results:
            with self.subTest(name):
                self.assertEqual(result, "ok", done.stdout + done.stderr)
        planned = re.search(r"^1\.\.(\d+)$", done.stdout, re.MULTILINE)
        self.assertEqual((done.returncode, str(len(results))), (0, planned[1]),
                         done.stdout + done.stderr)


class Registration(PostgresqlTest):
    def test_servers_share_worker_ids(self):
        database = self.start_database()
        servers = [self.launch_ready(*self.options(database)) for _ in range(3)]
        self.assertEqual(sorted(server.call("get_worker_id") for server in servers), [0, 1, 2])
        done = ctl.run("workers", "--postgresql", database.uri())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for server in servers:
            self.assertIn(server.name, done.stdout)
        held = ctl.run("workers", "--reservations", "--postgresql", database.uri())
        self.assertIn("3 held, 0 quarantined", held.stdout)
        # a release frees the worker ID at once
        servers[0].terminate()
        self.assertEqual(self.launch_ready(*self.options(database)).call("get_worker_id"), 0)

    def test_registry_init(self):
        database = self.start_database()
        again = init_registry(database.uri())
        self.assertEqual(again.returncode, 1)
        self.assertIn("already has a registry", again.stderr)
        other = init_registry(database.uri(), "--postgresql-schema", "other")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn("GRANT SELECT, INSERT, UPDATE, DELETE ON other.record", other.stdout)

    def test_the_grants_suffice_and_are_necessary(self):
        database = self.start_database()
        done = init_registry(database.uri(), "--postgresql-schema", "granted")
        grants = [line.replace("ROLE", "app") for line in done.stdout.splitlines()
                  if line.startswith("GRANT")]
        database.sql("CREATE ROLE app LOGIN", *grants)
        words = ("--postgresql-schema", "granted", "--datacenter-id", DATACENTER)
        server = self.launch_ready("--postgresql", database.uri("app"), *words)
        server.terminate()
        for grant in grants:
            revoked = grant.replace("GRANT", "REVOKE").replace(" TO ", " FROM ")
            database.sql(revoked)
            refused = self.launch("--postgresql", database.uri("app"), *words)
            self.assert_refused(refused, 1, "the role app lacks a right", "run: GRANT")
            database.sql(grant)

    def test_no_registry(self):
        with Postgres().start() as database:
            refused = self.launch(*self.options(database))
            self.assert_refused(refused, 1, "it has no registry in the schema snowflake",
                                "snowflakectl registry init")

    def test_fsync_off(self):
        database = self.start_database()
        database.stop()
        database.launch("fsync=off")
        self.assert_refused(self.launch(*self.options(database)), 1, "fsync is off")

    def test_restart_and_ended_connections(self):
        """A server keeps its worker ID, and no call fails."""
        database = self.start_database()
        server = self.launch_ready(*self.options(database))
        self.wait_reservation(database, 0, lambda record: record["owner"])
        for number, end in enumerate((database.kill, database.stop), 1):
            end()
            wait_for(lambda: server.count_events("postgresql-lost") == number, "the loss")
            database.launch()
            wait_for(lambda: server.count_events("postgresql-connected") == 1 + number,
                     "the connection")
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE application_name = 'snowflake'")
        before = self.record(database, f"datacenters/{DATACENTER}/reservations/0")[1]
        self.wait_reservation(database, 0, lambda _: self.record(
            database, f"datacenters/{DATACENTER}/reservations/0")[1] > before)
        self.assertEqual(server.call("get_worker_id"), 0)
        self.assertEqual(server.count_events("worker-lost"), 0)
