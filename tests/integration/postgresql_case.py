# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of servers that register in PostgreSQL: a database with a registry, and servers
that use it."""
import json

import ctl
from harness import ServerTest, wait_for
from postgresql import Postgres

DATACENTER = 3
ROOT = "/snowflake"


def init_registry(uri, *options):
    return ctl.run("registry", "init", "--postgresql", uri, *options)


class PostgresqlTest(ServerTest):
    def start_database(self):
        database = Postgres().start()
        self.addCleanup(database.close)
        ctl_done = init_registry(database.uri())
        self.assertEqual(ctl_done.returncode, 0, ctl_done.stderr)
        return database

    def options(self, database, **settings):
        options = {"datacenter-id": DATACENTER, "session-timeout": 3000, **settings}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return ("--postgresql", database.uri(), *words)

    def launch_ready(self, *options):
        return self.launch(*options).wait_ready()

    @staticmethod
    def record(database, name):
        """Returns the JSON of a record below the root, and its version; None if it is missing."""
        rows = database.sql("SELECT version || ' ' || data FROM snowflake.record "
                            f"WHERE key = '{ROOT}/{name}'")
        if not rows:
            return None
        version, _, data = rows[0].partition(" ")
        return json.loads(data), int(version)

    def floor(self, database):
        return self.record(database, f"datacenters/{DATACENTER}/floor")[0]

    def wait_reservation(self, database, worker_id, condition):
        def found():
            record = self.record(database, f"datacenters/{DATACENTER}/reservations/{worker_id}")
            return record and condition(record[0]) and record
        return wait_for(found, f"the reservation of worker ID {worker_id}")
