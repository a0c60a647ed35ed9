# SPDX-License-Identifier: Apache-2.0
"""Runs the snippets of docs/how-to/databases.md in real databases, and tests its SQL functions."""
import json
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from bindings import ROOT
from databases import MariaDb, PostgreSql, Sqlite, cells, shell
from harness import (CTL_ENVIRONMENT, ELSEWHERE, EPOCH_MS, HANG_GUARD_S, SANITIZED, SNOWFLAKECTL,
                     Parts)

GUIDE = ROOT / "docs" / "how-to" / "databases.md"
EXAMPLES = ROOT / "docs" / "examples"
VECTORS = json.loads((ROOT / "tests/vectors/layouts.json").read_text())["twitter"]["ids"]

LAST_ID = 2**63 - 1
LAST_MS = EPOCH_MS + (LAST_ID >> 22)
LOW_BITS = 2**22 - 1
DATABASE = "mydb"  # as in the guide
OUT_OF_RANGE = "22003"
RUNNERS = ("postgresql", "mariadb", "sqlite", "node", "sh", "sh in docs/examples")


class Snippet(NamedTuple):
    line: int
    runners: tuple
    text: str
    output: str  # output of each snippet


def snippets():
    """Returns the snippets of the guide, in order. Every block of the guide is in one of
    them."""
    text = GUIDE.read_text(encoding="utf-8")
    found = [Snippet(text.count("\n", 0, match.start()) + 1, tuple(match[1].split(", ")), match[2],
                     match[3] or "")
             for match in re.finditer(
                 r"^<!-- ([^\n]*) -->\n```\w+\n(.*?)^```\n(?:```\n(.*?)^```\n)?", text,
                 re.MULTILINE | re.DOTALL)]
    blocks = sum(2 if snippet.output else 1 for snippet in found)
    if 2 * blocks != len(re.findall(r"^```", text, re.MULTILINE)):
        raise AssertionError(f"{GUIDE.name}: a block of code says not in what it runs")
    return found


def selects(runner):
    """Returns the guide's queries for a span of IDs or a page of them."""
    return [query for snippet in snippets() if runner in snippet.runners
            for query in re.findall(r"^SELECT[^;]*\bid (?:BETWEEN|<|>)[^;]*", snippet.text,
                                    re.MULTILINE)]


def utc(time_ms):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=time_ms)


def literal(time_ms, form, more=""):
    """Returns a time in SQL, with `more` digits."""
    text = utc(time_ms).strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03}{more}"
    return form.format(text)


def ctl_range(from_ms, to_ms):
    done = subprocess.run([SNOWFLAKECTL, "range", "--from", str(from_ms), "--to", str(to_ms)],
                          env=CTL_ENVIRONMENT, text=True, capture_output=True, check=False,
                          timeout=HANG_GUARD_S)
    return [int(line) for line in done.stdout.split()]


def some_ids():
    """Returns the IDs of the vectors, and others, including the limits of each field."""
    chance = random.Random(1)
    numbers = {int(vector["id"]) for vector in VECTORS} | {LOW_BITS + 1, LAST_ID - 1}
    numbers |= {2**bit - less for bit in range(63) for less in (0, 1)}
    numbers |= {chance.randrange(2**63) for _ in range(2000)}
    return sorted(numbers)


class Dialect(NamedTuple):
    server: object
    literal: str  # format of a time in UTC
    time_type: str
    show_ms: str  # an expression for a time's milliseconds
    session: str  # settings with a distant time zone

    def ask(self, expressions, values=("0",), value_type="bigint"):
        """Returns the values of the expressions for each value of x, which is a literal."""
        rows = self.server.rows(
            f"{self.session}; CREATE TEMPORARY TABLE asked "
            f"(number int PRIMARY KEY, x {value_type}); INSERT INTO asked VALUES " +
            ", ".join(f"({number}, {value})" for number, value in enumerate(values)) +
            f"; SELECT {', '.join(expressions)} FROM asked ORDER BY number", DATABASE)
        return [tuple(map(int, row.split())) for row in rows]

    def time(self, time_ms, more=""):
        return literal(time_ms, self.literal, more)


@unittest.skipIf(ELSEWHERE, "not about the server")
class Guide(unittest.TestCase):
    """Tests statements of the guide other than its snippets."""

    def test_text_forms_are_those_of_the_ids(self):
        forms = re.findall(r"\((\d{19}), '(\w{11})', '(\w{13})'\)", GUIDE.read_text())
        self.assertEqual(len(forms), 3)
        for number, *texts in forms:
            for form, text in zip(("base62", "crockford"), texts):
                done = subprocess.run([SNOWFLAKECTL, "decode", "--from", form, text, "--json"],
                                      env=CTL_ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                                      check=True, timeout=HANG_GUARD_S)
                self.assertEqual(json.loads(done.stdout)[0]["id"], number)

    def test_from_when_on_ids_have_19_digits(self):
        day = re.search(r"issued\sfrom\s(\S+)\suntil", GUIDE.read_text())[1]
        self.assertEqual(str(utc(Parts.of(10**18).time_ms).date()), day)

    def test_what_it_links_to_is_there(self):
        links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", GUIDE.read_text())
        self.assertGreater(len(links), 10)
        for path, anchor in links:
            target = GUIDE.parent / path if path else GUIDE
            with self.subTest(path=path, anchor=anchor):
                self.assertTrue(target.exists())
                if anchor:
                    headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                    self.assertIn(anchor, [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
                                           for heading in headings])


@unittest.skipIf(ELSEWHERE, "not about the server")
@unittest.skipIf(SANITIZED, "databases and a document, hardly anything of the build")
class Databases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-databases-"))
        cls.addClassCleanup(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)  # for the servers' user
        cls.postgresql = PostgreSql(cls, directory / "postgresql")
        cls.mariadb = MariaDb(cls, directory / "mariadb")
        cls.sqlite = Sqlite(directory / "sqlite")
        cls.dialects = (
            Dialect(cls.postgresql, "timestamptz '{}+00'", "timestamptz",
                    "(extract(epoch FROM {}) * 1000)::bigint", "SET TIME ZONE 'Asia/Kathmandu'"),
            Dialect(cls.mariadb, "TIMESTAMP'{}'", "DATETIME(6)",
                    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {}) DIV 1000",
                    "SET time_zone = '+05:45'"))

    def setUp(self):
        for server in (self.postgresql, self.mariadb):
            server.create(DATABASE)
            self.addCleanup(server.run, f"DROP DATABASE {DATABASE}",
                            {self.postgresql: "postgres", self.mariadb: "mysql"}[server])

    def define(self):
        for server in (self.postgresql, self.mariadb):
            for _ in range(2):  # running it twice is harmless
                server.run((EXAMPLES / server.FUNCTIONS).read_text(), DATABASE, check=False)
        return self.dialects

    # The guide

    def play(self, runner, text):
        environment = {**self.postgresql.environment, "HOME": str(self.mariadb.directory)}
        if runner == "node":
            return subprocess.run(["node", "-e", text], text=True, check=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=HANG_GUARD_S).stdout
        if runner.startswith("sh"):
            return shell(text, ROOT / runner.removeprefix("sh").removeprefix(" in "), environment)
        return getattr(self, runner).run(text, DATABASE)

    def test_each_snippet_prints_what_stands_below_it(self):
        played = set()
        for snippet in snippets():
            for runner in snippet.runners:
                with self.subTest(line=snippet.line, runner=runner):
                    self.assertIn(runner, RUNNERS)
                    played.add(runner)
                    self.assertEqual(cells(self.play(runner, snippet.text)), cells(snippet.output))
        self.assertEqual(played, set(RUNNERS))
        self.look_at_what_they_made()

    def look_at_what_they_made(self):
        """Checks that the guide's columns and indexes on IDs are used, and correct."""
        wrong = "SELECT count(*) FROM message WHERE at <> snowflake_time(id) OR at IS NULL"
        for server in (self.postgresql, self.mariadb):
            self.assertEqual(server.rows(wrong, DATABASE), ["0"])
        self.assertIn("message_snowflake_worker_id_idx", self.postgresql.run(
            "SET enable_seqscan = off; "
            "EXPLAIN SELECT * FROM message WHERE snowflake_worker(id) = 4", DATABASE))
        plan = self.postgresql.run(
            "CREATE TABLE event_rest PARTITION OF event DEFAULT; EXPLAIN SELECT * FROM event "
            "WHERE id BETWEEN snowflake_first_id('2026-11-01Z')"
            "  AND snowflake_last_id('2026-11-30T23:59:59.999Z')", DATABASE)
        self.assertIn("event_2026_11", plan)
        self.assertNotIn("event_rest", plan)

    def test_a_bound_that_is_written_as_a_number(self):
        number = re.search(r"`VALUES LESS THAN \((\d+)\)`", GUIDE.read_text())[1]
        [dialect, _] = self.define()
        self.assertEqual(dialect.ask(["snowflake_first_id('2026-12-01Z')"]), [(int(number),)])
        self.mariadb.run("CREATE TABLE event (id BIGINT PRIMARY KEY) PARTITION BY RANGE (id) "
                         f"(PARTITION old VALUES LESS THAN ({number}))", DATABASE)

    # The functions

    def test_ids_are_taken_apart(self):
        numbers = some_ids()
        wanted = [Parts.of(number) for number in numbers]
        for vector in VECTORS:
            self.assertEqual(Parts.of(int(vector["id"])),
                             (vector["timestamp_ms"], vector["datacenter_id"],
                              vector["worker_id"], vector["sequence"]))
        for dialect in self.define():
            with self.subTest(dialect.server.FUNCTIONS):
                found = dialect.ask([dialect.show_ms.format("snowflake_time(x)"),
                                     "snowflake_datacenter(x)", "snowflake_worker(x)",
                                     "snowflake_sequence(x)"], numbers)
                self.assert_each(numbers, found, wanted)

    def test_bounds_hold_every_id_of_their_millisecond(self):
        times = sorted({Parts.of(number).time_ms for number in some_ids()})
        for dialect in self.define():
            for more in ("", "999"):  # microseconds
                with self.subTest(dialect.server.FUNCTIONS, more=more):
                    found = dialect.ask(["snowflake_first_id(x)", "snowflake_last_id(x)"],
                                        [dialect.time(time_ms, more) for time_ms in times],
                                        dialect.time_type)
                    self.assert_each(times, found, [((time_ms - EPOCH_MS) << 22,
                                                     (time_ms - EPOCH_MS) << 22 | LOW_BITS)
                                                    for time_ms in times])

    def test_ranges_are_those_of_snowflakectl(self):
        times = (0, EPOCH_MS - 1, EPOCH_MS, EPOCH_MS + 1, VECTORS[0]["timestamp_ms"], LAST_MS - 1,
                 LAST_MS, LAST_MS + 1, 253402300799999)
        spans = [(begin, end, ctl_range(begin, end)) for begin in times for end in times
                 if begin <= end]
        held = [span for span in spans if span[2]]
        refused = [span for span in spans if not span[2]]
        self.assertEqual([(begin, end) for begin, end, _ in refused], [
            (begin, end) for begin, end, _ in spans if end < EPOCH_MS or begin > LAST_MS])
        for dialect in self.define():
            def bounds(begin, end):
                return (f"snowflake_first_id({dialect.time(begin)})",
                        f"snowflake_last_id({dialect.time(end)})")
            with self.subTest(dialect.server.FUNCTIONS):
                self.assertEqual(dialect.ask([bound for begin, end, _ in held
                                              for bound in bounds(begin, end)]),
                                 [tuple(bound for _, _, ids in held for bound in ids)])
                for begin, end, _ in refused:
                    self.assert_refused(dialect, ", ".join(bounds(begin, end)), "no ID is of ")

    def assert_each(self, values, found, wanted):
        """Shows only the differences, because a diff of thousands of lines takes minutes."""
        self.assertEqual(len(found), len(wanted))
        self.assertEqual([case for case in zip(values, found, wanted) if case[1] != case[2]][:3],
                         [])

    def assert_refused(self, dialect, expressions, words):
        done = dialect.server.run(f"SELECT {expressions}", DATABASE, check=False)
        self.assertNotEqual(done.returncode, 0, expressions)
        first = done.stderr.splitlines()[0]
        self.assertIn(OUT_OF_RANGE, first)
        self.assertIn(words, first)

    def test_what_is_no_id_is_refused(self):
        for dialect in self.define():
            for part in ("time", "datacenter", "worker", "sequence"):
                for number in (-1, -2**63):
                    self.assert_refused(dialect, f"snowflake_{part}({number})",
                                        f"ID {number} is negative")

    def test_null_is_of_null(self):
        names = ("time", "datacenter", "worker", "sequence", "first_id", "last_id")
        for dialect in self.define():
            query = " AND ".join(f"snowflake_{name}(NULL) IS NULL" for name in names)
            self.assertEqual(dialect.server.rows(
                f"SELECT CASE WHEN {query} THEN 'null' END", DATABASE), ["null"])

    def test_infinity_is_a_bound(self):
        [dialect, _] = self.define()
        self.assertEqual(dialect.ask(["snowflake_first_id('-infinity')",
                                      "snowflake_last_id('infinity')"]), [(0, LAST_ID)])
        self.assert_refused(dialect, "snowflake_first_id('infinity')", "no ID is of infinity")

    def test_a_dump_is_restored(self):
        """A dump with indexes and columns of the functions is restored without a search_path."""
        self.define()
        self.postgresql.run(
            "CREATE TABLE message (id bigint PRIMARY KEY, at timestamptz GENERATED ALWAYS AS "
            "(snowflake_time(id)) STORED); CREATE INDEX ON message (snowflake_worker(id)); "
            "INSERT INTO message VALUES (1724551110456385539)", DATABASE)
        self.postgresql.create("restored")
        self.addCleanup(self.postgresql.run, "DROP DATABASE restored", "postgres")
        printed = shell(f"pg_dump {DATABASE} >dump && psql --quiet --no-psqlrc --output=/dev/null "
                        "--set=ON_ERROR_STOP=1 --file=dump restored",
                        self.sqlite.directory, self.postgresql.environment)
        self.assertEqual(printed, "")
        self.assertEqual(self.postgresql.rows("SELECT at FROM message", "restored"),
                         ["2023-11-14 22:13:20+00"])

    # Searches

    ROWS = 20000

    def fill(self):
        """Inserts a row per minute, including the guide's span."""
        self.define()
        begin = (utc(1795262400000) - timedelta(minutes=self.ROWS // 2)).strftime("%Y-%m-%d %H:%M")
        table = "CREATE TABLE message (id {} PRIMARY KEY, body varchar(1000) NOT NULL);"
        self.postgresql.run(
            f"{table.format('bigint')} INSERT INTO message SELECT snowflake_first_id(timestamptz "
            f"'{begin}Z' + n * interval '1 minute'), 'row' FROM generate_series(1, {self.ROWS}) n;"
            "ANALYZE message", DATABASE)
        self.mariadb.run(
            f"{table.format('bigint')} INSERT INTO message SELECT snowflake_first_id("
            f"TIMESTAMP'{begin}' + INTERVAL seq MINUTE), 'row' FROM seq_1_to_{self.ROWS};"
            "FLUSH TABLES", DATABASE)

    def test_spans_and_pages_are_read_from_the_index(self):
        self.assertEqual([len(selects(runner)) for runner in RUNNERS[:3]], [3, 3, 1])
        self.fill()
        for query in (*selects("postgresql"), "SELECT * FROM message WHERE id BETWEEN "
                      "snowflake_first_id(now() - interval '1 hour') AND snowflake_last_id(now())"):
            plan = self.postgresql.run(f"EXPLAIN {query}", DATABASE)
            self.assertRegex(plan, r"Index (Only )?Scan (Backward )?using message_pkey", query)
            self.assertRegex(plan, r"Index Cond: ", query)
            self.assertNotIn("Seq Scan", plan, query)
        for query in (*selects("mariadb"), "SELECT * FROM message WHERE id BETWEEN "
                      "snowflake_first_id(UTC_TIMESTAMP(3) - INTERVAL 1 HOUR) "
                      "AND snowflake_last_id(UTC_TIMESTAMP(3))"):
            plan = json.loads(self.mariadb.run(f"EXPLAIN FORMAT=JSON {query}", DATABASE)
                              .replace("\\n", ""))["query_block"]
            self.assertEqual((self.table_of(plan)["access_type"], self.table_of(plan)["key"]),
                             ("range", "PRIMARY"), query)
        self.sqlite.run("CREATE TABLE message (id INTEGER PRIMARY KEY, body)", "plans")
        for query in selects("sqlite"):
            self.assertIn("SEARCH message USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
                          self.sqlite.run(f"EXPLAIN QUERY PLAN {query}", "plans"))

    def table_of(self, plan):
        if "table" in plan:
            return plan["table"]
        return next(self.table_of(below) for below in [*plan.get("nested_loop", []), *[
            value for value in plan.values() if isinstance(value, dict)]])

    def test_an_hour_is_read_as_an_hour(self):
        self.fill()
        query = "SELECT id FROM message WHERE id BETWEEN snowflake_first_id('{}') " \
                "AND snowflake_last_id('{}')"
        span = query.format("2026-11-21 12:00:00", "2026-11-21 12:59:59.999")
        *rows, read = self.mariadb.rows(
            f"{span}; SHOW SESSION STATUS LIKE 'Handler_read_next'", DATABASE)
        self.assertEqual((len(rows), read), (60, "Handler_read_next 60"))
        plan = self.postgresql.run(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {span}", DATABASE)
        self.assertIn("rows=60 ", plan)
        self.assertNotIn("Rows Removed", plan)

    def test_pages_hold_every_row_once(self):
        self.fill()
        for server in (self.postgresql, self.mariadb):
            with self.subTest(server.FUNCTIONS):
                seen, last = [], LAST_ID
                while page := server.rows(f"SELECT id FROM message WHERE id < {last} ORDER BY id "
                                          "DESC LIMIT 5000", DATABASE):
                    seen += page
                    last = page[-1]
                self.assertTrue(seen == server.rows("SELECT id FROM message ORDER BY id DESC",
                                                    DATABASE))
                self.assertEqual(len(seen), self.ROWS)
