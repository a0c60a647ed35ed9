# SPDX-License-Identifier: Apache-2.0
"""Servers that register in a real PostgreSQL."""
import os
import re
import subprocess
import unittest

import ctl
from embedded import Node
from harness import BUILD, ENVIRONMENT, Parts, wait_for
from postgresql import Postgres
from postgresql_case import DATACENTER, PostgresqlTest, init_registry
from zookeeper import HOST, free_port
from zookeeper_case import Drawer, Seen

CONTRACT = BUILD / "tests" / "simulation" / "store-contract"
PROMOTIONS = int(os.environ.get("SNOWFLAKE_TEST_PROMOTIONS", 2))
SUPPRESSED = "row-level security or a trigger has prevented a write"
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

    def test_embedded_node(self):
        database = self.start_database()
        server = self.launch_ready(*self.options(database))
        node = Node(*self.options(database))
        self.addCleanup(node.kill)
        self.assertEqual(Parts.of(node.next()).worker_id, 1)
        self.assertEqual(Parts.of(server.call("get_id", "test")).worker_id, 0)

    def test_registry_init(self):
        database = self.start_database()
        again = init_registry(database.uri())
        self.assertEqual(again.returncode, 1)
        self.assertIn("already has a registry", again.stderr)
        other = init_registry(database.uri(), "--postgresql-schema", "other")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn("GRANT SELECT, INSERT, UPDATE, DELETE ON other.record", other.stdout)

    def test_registry_init_refuses_objects_of_others(self):
        """Their owner could add triggers that run with the rights of the operator."""
        database = self.start_database()
        database.sql("CREATE ROLE app")
        for object_, statements in {
            "schema app": ["CREATE SCHEMA app AUTHORIZATION app"],
            "relation app.record": ["ALTER SCHEMA app OWNER TO postgres",
                                    "CREATE TABLE app.record (key text)",
                                    "ALTER TABLE app.record OWNER TO app"],
            "relation app.creation_order": ["DROP TABLE app.record",
                                            "CREATE SEQUENCE app.creation_order",
                                            "ALTER SEQUENCE app.creation_order OWNER TO app"],
        }.items():
            with self.subTest(object_):
                database.sql(*statements)
                done = init_registry(database.uri(), "--postgresql-schema", "app")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"the {object_} belongs to the role app, not to postgres",
                              done.stderr)
        database.sql("DROP SEQUENCE app.creation_order")
        done = init_registry(database.uri(), "--postgresql-schema", "app")
        self.assertEqual(done.returncode, 0, done.stderr)

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

    def test_pooler(self):
        database = self.start_database()
        refused = self.launch("--postgresql", database.pooler(self), "--datacenter-id",
                              DATACENTER)
        self.assert_refused(refused, 1, "a connection pooler is in between")

    def check_suppressed(self, *statements, user="postgres"):
        """A server whose writes have no effect does not count them. Returns the database."""
        database = self.start_database()
        database.sql("CREATE ROLE app LOGIN", "GRANT USAGE ON SCHEMA snowflake TO app",
                     "GRANT ALL ON ALL TABLES IN SCHEMA snowflake TO app",
                     "GRANT ALL ON ALL SEQUENCES IN SCHEMA snowflake TO app")
        server = self.launch_ready("--postgresql", database.uri(user), "--datacenter-id",
                                   DATACENTER, "--reservation", 1000)
        database.sql(*statements)
        self.assertIn(SUPPRESSED, server.wait_event("extend-failed").fields["error"])
        return database

    def test_trigger_suppresses_writes(self):
        database = self.check_suppressed(
            "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER skip BEFORE INSERT OR UPDATE ON snowflake.record "
            "FOR EACH ROW EXECUTE FUNCTION skip()")
        self.assert_refused(self.launch(*self.options(database)), 1, SUPPRESSED)

    def test_row_level_security_suppresses_writes(self):
        self.check_suppressed(
            "CREATE POLICY reading ON snowflake.record FOR SELECT USING (true)",
            "CREATE POLICY adding ON snowflake.record FOR INSERT WITH CHECK (true)",
            "ALTER TABLE snowflake.record ENABLE ROW LEVEL SECURITY", user="app")

    def test_locked_table(self):
        """The server serves calls while others hold a lock, and extends its reservation
        afterwards."""
        database = self.start_database()
        server = self.launch_ready(*self.options(database))
        holder = database.hold(self, "LOCK TABLE snowflake.record IN ACCESS EXCLUSIVE MODE")
        server.wait_event("extend-failed")
        self.assertEqual(server.call("get_worker_id"), 0)
        holder.stdin.close()
        server.wait_event("extend-recovered")
        self.assertEqual(server.count_events("worker-lost"), 0)

    def test_missing_synchronous_standby(self):
        """A commit waits for the standby. The server gives up, and leaves no process behind."""
        database = self.start_database()
        self.launch_ready(*self.options(database))
        database.sql("ALTER SYSTEM SET synchronous_standby_names = 'missing'",
                     "SELECT pg_reload_conf()")
        seen = set()

        def reconnected():
            processes = database.sql("SELECT pid FROM pg_stat_activity "
                                     "WHERE application_name = 'snowflake'")
            self.assertLessEqual(len(processes), 2)
            seen.update(processes)
            return len(seen) >= 4
        wait_for(reconnected, "connections")
        database.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        before = self.record(database, f"datacenters/{DATACENTER}/reservations/0")[1]
        self.wait_reservation(database, 0, lambda _: self.record(
            database, f"datacenters/{DATACENTER}/reservations/0")[1] > before)

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


class LostCommits(PostgresqlTest):
    """A database that lacks the last commits has another history. The first server that connects
    to it raises the floor."""

    def options_for(self, reservation_ms):
        return ("--datacenter-id", DATACENTER, "--session-timeout", 3000, "--reservation",
                reservation_ms, "--max-clock-skew", 1000)

    def wait_floor(self, database, before):
        """Waits until the floor belongs to another history, and returns it."""
        def raised():
            floor = self.floor(database)
            return floor["history"] != before["history"] and floor
        floor = wait_for(raised, "a raised floor")
        self.assertGreater(floor["floor_tick"], floor["clock_tick"])
        return floor

    def test_promotion_of_a_standby(self):
        """The server whose commits were copied continues. A lost claim is lost, and a new server
        waits until all that was lost has ended."""
        database = self.start_database()
        standby = database.standby()
        self.addCleanup(standby.close)
        uri = (f"postgresql://postgres@{database.address},{standby.address}/postgres"
               "?target_session_attrs=read-write")
        options = ("--postgresql", uri, *self.options_for(60000))
        kept = self.launch_ready(*options)
        # its reservation ends later than any clock may show in the failover: two extensions
        self.wait_reservation(database, 0, lambda record: self.record(
            database, f"datacenters/{DATACENTER}/reservations/0")[1] >= 2)
        before = self.floor(database)
        database.wait_copied(standby)
        database.stop_copying(standby)
        seen = Seen()
        drawer = Drawer(seen, kept)
        self.addCleanup(drawer.stop)
        lost = self.launch_ready(*options)
        self.assertEqual(lost.call("get_worker_id"), 1)
        database.kill()
        standby.promote()
        floor = self.wait_floor(standby, before)
        self.assertEqual(floor["history"].split("/")[1], "00000002")
        late = self.launch(*options)
        self.assertIn("the history of the database has changed",
                      late.wait_event("worker-waiting").fields["why"])
        lost.wait_event("worker-lost")
        version = self.record(standby, f"datacenters/{DATACENTER}/reservations/0")[1]
        self.wait_reservation(standby, 0, lambda _: self.record(
            standby, f"datacenters/{DATACENTER}/reservations/0")[1] > version)
        drawer.wait_ids()
        self.assertEqual(drawer.failures, [])
        self.assertEqual(kept.count_events("worker-lost"), 0)
        self.assertIsNone(late.find("worker-claimed"))
        self.assertEqual(seen.problems, [])

    def test_promotions(self):
        """Each standby lacks the last claims and extensions. The servers claim again after the
        floor, and no ID is issued twice."""
        database = self.start_database()
        ports = [database.port, free_port()]
        uri = ("postgresql://postgres@" + ",".join(f"{HOST}:{port}" for port in ports) +
               "/postgres?target_session_attrs=read-write")
        servers = [self.launch_ready("--postgresql", uri, *self.options_for(1000))
                   for _ in range(2)]
        seen = Seen()
        drawers = [Drawer(seen, server) for server in servers]
        for drawer in drawers:
            self.addCleanup(drawer.stop)
        for number in range(1, PROMOTIONS + 1):
            standby = database.standby(ports[number % 2])
            self.addCleanup(standby.close)
            before = self.floor(database)
            database.wait_copied(standby)
            database.stop_copying(standby)
            n_writes = self.count_writes(database)
            wait_for(lambda: self.count_writes(database) > n_writes, "an extension")
            database.kill()
            standby.promote()
            database = standby
            self.wait_floor(database, before)
            for drawer in drawers:
                drawer.wait_ids()
        self.assertEqual(seen.problems, [])

    @staticmethod
    def count_writes(database):
        return int(database.sql("SELECT sum(version) FROM snowflake.record "
                                "WHERE parent LIKE '%/reservations'")[0])

    def check_waits(self, database, before):
        """A server that starts claims a worker ID only after the floor."""
        server = self.launch("--postgresql", database.uri(), *self.options_for(1000))
        server.wait_event("history-changed")
        server.wait_event("worker-waiting")
        floor = self.wait_floor(database, before)
        server.wait_ready()
        record = self.record(database, f"datacenters/{DATACENTER}/reservations/0")[0]
        self.assertGreater(record["reserved_until_tick"], floor["floor_tick"])

    def test_restored_base_backup(self):
        database = self.start_database()
        server = self.launch_ready("--postgresql", database.uri(), *self.options_for(1000))
        before = self.floor(database)
        restored = database.copy()
        self.addCleanup(restored.close)
        (restored.data / "recovery.signal").touch()
        server.terminate()
        database.kill()
        restored.launch("restore_command=/bin/false")
        wait_for(lambda: restored.sql("SELECT pg_is_in_recovery()") == ["f"], "the recovery")
        self.check_waits(restored, before)

    def test_restored_dump(self):
        database = self.start_database()
        self.launch_ready("--postgresql", database.uri(), *self.options_for(1000)).terminate()
        before = self.floor(database)
        database.restore_dump()
        self.check_waits(database, before)

    def test_copied_database(self):
        """The original is used on, so a server of the copy must not rely on the reservations."""
        database = self.start_database()
        self.launch_ready("--postgresql", database.uri(), *self.options_for(1000)).terminate()
        before = self.floor(database)
        database.sql("CREATE DATABASE copied TEMPLATE postgres")
        database.name = "copied"
        self.check_waits(database, before)
