# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL for a test, which can be killed, restarted, copied and promoted.

    database = Postgres().start()               # about a second
    self.addCleanup(database.close)
    server = self.launch("--postgresql", database.uri(), "--datacenter-id", 1, "--create-registry")
    database.kill(); database.launch()          # same data, same port

    standby = database.standby()                # a copy that follows @database
    standby.promote()

It listens on a loopback address and port of its own, without authentication. Root runs it as
another user, because PostgreSQL refuses root. Debian package: postgresql-15.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from databases import USER
from harness import ENVIRONMENT, HANG_GUARD_S, wait_for
from zookeeper import HOST, free_port

PROGRAMS = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"),
               key=lambda path: int(path.parent.name))


class Postgres:
    """`directory`: of its data and its log; `port`: the port on HOST; `name`: of the database."""

    def __init__(self, port=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="postgresql-"))
        if USER:
            os.chown(self.directory, USER.pw_uid, USER.pw_gid)
        self.data = self.directory / "data"
        self.log_path = self.directory / "log"
        self.port = port or free_port()
        self.name = "postgres"
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def address(self):
        return f"{HOST}:{self.port}"

    def uri(self, user="postgres"):
        return f"postgresql://{user}@{self.address}/{self.name}"

    def _as_user(self, *command, **settings):
        user = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []} if USER else {}
        with open(self.log_path, "ab") as log:
            return subprocess.Popen([str(word) for word in command], cwd=self.directory,
                                    env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log, **user, **settings)

    def _run(self, *command):
        if (status := self._as_user(*command).wait(HANG_GUARD_S)) != 0:
            raise AssertionError(f"{command[0]}: status {status}\n{self.log_path.read_text()}")

    def start(self):
        self._run(PROGRAMS / "initdb", "--pgdata", self.data, "--username=postgres",
                  "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self.launch()
        return self

    def launch(self, *settings):
        """Starts the server, and waits until it accepts connections. `settings`: name=value"""
        options = [word for setting in settings for word in ("-c", setting)]
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self.process = self._as_user(PROGRAMS / "postgres", "-D", self.data, "-k", self.directory,
                                     "-p", self.port, "-c", f"listen_addresses={HOST}",
                                     "-c", "shared_buffers=16MB", *options, start_new_session=True)
        wait_for(self._is_ready, "that PostgreSQL is ready")

    def _is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(self.log_path.read_text())
        return subprocess.run([PROGRAMS / "pg_isready", "-q", "-h", HOST, "-p", str(self.port)],
                              check=False).returncode == 0

    def kill(self):
        """Kills the server and all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG_GUARD_S)

    def stop(self):
        """Stops the server, which ends all connections."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(HANG_GUARD_S)

    def sql(self, *statements, user="postgres"):
        """Returns the rows, with "|" between the columns."""
        words = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p",
                               str(self.port), "-U", user, *words, self.name],
                              capture_output=True, text=True, check=False, timeout=HANG_GUARD_S)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout.splitlines()

    def copy(self, *options, port=None):
        """Returns a base backup with its own port, which is not started."""
        copied = Postgres(port)
        copied._run(PROGRAMS / "pg_basebackup", "-h", HOST, "-p", self.port, "-U", "postgres",
                    "-D", copied.data, "--checkpoint=fast", "--no-sync", *options)
        return copied

    def standby(self, port=None):
        """Returns a standby that follows this server."""
        standby = self.copy("--write-recovery-conf", port=port)
        standby.launch()
        return standby

    def wait_copied(self, standby):
        """Waits until a standby has what was committed so far."""
        written = self.sql("SELECT pg_current_wal_lsn()")[0]
        wait_for(lambda: standby.sql(f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == ["t"],
                 "the standby")

    def stop_copying(self, standby):
        """From now on, a standby lacks what is committed."""
        standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
        standby.sql("SELECT pg_reload_conf()")
        wait_for(lambda: not self.sql("SELECT FROM pg_stat_replication"), "the end of copying")

    def restore_dump(self, schema="snowflake"):
        """Dumps a schema, drops it, and restores the dump."""
        dump = self.directory / "dump"
        self._run(PROGRAMS / "pg_dump", "-h", HOST, "-p", self.port, "-U", "postgres", "-n",
                  schema, "-f", dump, "postgres")
        self.sql(f"DROP SCHEMA {schema} CASCADE")
        self._run(PROGRAMS / "psql", "-XqAt", "-h", HOST, "-p", self.port, "-U", "postgres", "-f",
                  dump, "postgres")

    def promote(self):
        self._run(PROGRAMS / "pg_ctl", "promote", "-w", "-D", self.data)

    def pooler(self, test):
        """Starts PgBouncer in transaction mode, and returns the URI for its clients."""
        port = free_port()
        path = self.directory / "pgbouncer.ini"
        path.write_text(f"[databases]\npostgres = host={HOST} port={self.port} user=postgres\n"
                        f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {port}\n"
                        "auth_type = any\npool_mode = transaction\nunix_socket_dir =\n"
                        "ignore_startup_parameters = extra_float_digits\n")
        process = self._as_user("/usr/sbin/pgbouncer", path)
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        wait_for(lambda: subprocess.run([PROGRAMS / "pg_isready", "-q", "-h", HOST, "-p",
                                         str(port)], check=False).returncode == 0, "PgBouncer")
        return f"postgresql://postgres@{HOST}:{port}/postgres"

    def hold(self, test, *statements):
        """Executes statements in a transaction that stays open until the test ends, and returns
        the process."""
        process = subprocess.Popen(["psql", "-Xq", "-h", HOST, "-p", str(self.port), "-U",
                                    "postgres", "postgres"], stdin=subprocess.PIPE, text=True)
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        process.stdin.write(";".join(["BEGIN", *statements]) + ";\n")
        process.stdin.flush()
        return process

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory)
