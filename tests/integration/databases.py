# SPDX-License-Identifier: Apache-2.0
"""Debian's database servers, each a private instance. Its data is in a directory of the test, and
clients connect only to a local socket there, without authentication. Root runs them as another
user, because PostgreSQL refuses root."""
import os
import pathlib
import pwd
import signal
import subprocess

from harness import ENVIRONMENT, HANG_GUARD_S, wait_for

USER = pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def cells(text):
    """Returns a client's output with one blank between cells."""
    return [" ".join(line.split()) for line in text.splitlines()]


class Database:
    """One server. `environment`: variables with which its clients find it, including PATH."""
    ENDS_BY = signal.SIGKILL  # the data is no longer needed

    def __init__(self, test_class, directory):
        self.directory = directory
        self.directory.mkdir()
        if USER:
            os.chown(self.directory, USER.pw_uid, USER.pw_gid)
        self.log = directory.parent / f"{directory.name}.log"
        self.environment = {**ENVIRONMENT, "HOME": str(directory), "TZ": "UTC"}
        self._test_class = test_class

    def as_user(self, command, **settings):
        """Runs one of its programs, which write to its directory."""
        log = self.log.open("a")
        settings = {"cwd": self.directory, "env": self.environment, "stdin": subprocess.DEVNULL,
                    "stdout": log, "stderr": log, **settings}
        if USER:
            settings.update(user=USER.pw_uid, group=USER.pw_gid, extra_groups=[])
        with log:
            return subprocess.Popen([str(word) for word in command], **settings)

    def make(self, *command):
        status = self.as_user(command).wait(HANG_GUARD_S)
        if status != 0:
            raise AssertionError(f"{command[0]}: status {status}\n{self.log.read_text()}")

    def start(self, *command):
        self.process = self.as_user(command)
        self._test_class.addClassCleanup(self.end)
        wait_for(self._is_ready, f"that {command[0]} is ready")

    def _is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.process.args[0]}: status {self.process.returncode}\n"
                                 f"{self.log.read_text()}")
        return self.is_ready()

    def end(self):
        ended = self.process.poll()
        self.process.send_signal(self.ENDS_BY)
        self.process.wait()
        if ended is not None:
            raise AssertionError(f"{self.process.args[0]} ended by itself, status {ended}\n"
                                 f"{self.log.read_text()}")

    def run(self, script, database, check=True):
        """Returns the client's output; with `check` false, the finished process."""
        done = subprocess.run([*self.CLIENT, database], input=script, env=self.environment,
                              text=True, capture_output=True, check=False,
                              timeout=HANG_GUARD_S)
        if not check:
            return done
        if done.returncode != 0 or done.stderr:
            raise AssertionError(f"status {done.returncode}: {done.stderr}\n{script}")
        return done.stdout

    def rows(self, query, database):
        return cells(self.run(query, database))


class PostgreSql(Database):
    CLIENT = ("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
              "--field-separator= ", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose")
    ENDS_BY = signal.SIGQUIT  # ends at once, with its child processes
    FUNCTIONS = "snowflake-postgresql.sql"

    def __init__(self, test_class, directory):
        super().__init__(test_class, directory)
        programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"),
                       key=lambda path: int(path.parent.name))
        self.environment.update(PATH=f"{programs}:{ENVIRONMENT['PATH']}", PGHOST=str(directory),
                                PGUSER="postgres")
        self.data = directory / "data"
        self.make(programs / "initdb", "--pgdata", self.data, "--username=postgres",
                  "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self.start(programs / "postgres", "-D", self.data, "-k", directory, "-F",
                   "-c", "listen_addresses=")

    def is_ready(self):
        lines = self.data / "postmaster.pid"
        return lines.exists() and "ready" in lines.read_text()

    def create(self, database):
        self.run(f"CREATE DATABASE {database}", "postgres")


class MariaDb(Database):
    CLIENT = ("mariadb", "--batch", "--skip-column-names")
    FUNCTIONS = "snowflake-mariadb.sql"

    def __init__(self, test_class, directory):
        super().__init__(test_class, directory)
        (directory / ".my.cnf").write_text(f"[client]\nuser=root\nsocket={directory}/socket\n")
        data = f"--datadir={directory}/data"
        self.make("/usr/bin/mariadb-install-db", "--no-defaults", data, "--skip-test-db",
                  "--auth-root-authentication-method=normal")
        self.start("/usr/sbin/mariadbd", "--no-defaults", data, f"--socket={directory}/socket",
                   f"--pid-file={directory}/pid", "--skip-networking",
                   "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M")

    def is_ready(self):
        return "ready for connections" in self.log.read_text()

    def create(self, database):
        self.run(f"CREATE DATABASE {database}", "mysql")


class Sqlite:
    """A file and its client, without a server."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir()

    def run(self, script, database):
        done = subprocess.run(["sqlite3", "-batch", "-bail", "-separator", " ",
                               str(self.directory / database)],
                              input=script, env=ENVIRONMENT, text=True, capture_output=True,
                              check=False, timeout=HANG_GUARD_S)
        if done.returncode != 0 or done.stderr:
            raise AssertionError(f"status {done.returncode}: {done.stderr}\n{script}")
        return done.stdout

    def rows(self, query, database):
        return cells(self.run(query, database))


def shell(script, directory, environment):
    """Returns the standard output and standard error of a script."""
    done = subprocess.run(["sh", "-e", "-c", script], cwd=directory, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=HANG_GUARD_S)
    if done.returncode != 0:
        raise AssertionError(f"status {done.returncode}: {script}\n{done.stdout}")
    return done.stdout
