# SPDX-License-Identifier: Apache-2.0
"""Requests of operators over HTTP: every path, as text and as JSON, and refusals."""
import http.client
import os
import socket
import subprocess
import time

import audit
from admin import DRAWING, JSON, LISTEN, OTHERS, TEXT, Admin
from harness import (ENVIRONMENT, HANG_GUARD_S, SNOWFLAKED, Parts, ServerTest, dead_address,
                     run_together, scaled, wait_for)
from wire import STRICT

NAMES_OF_2010 = {"ids_generated", "ids_generated_good", "exceptions", "scribe_enqueue_failures"}
GAUGES_OF_2010 = {"datacenter_id", "worker_id", "reporter_flush_queue"}
ID = 2123869607440678912 + (3 << 17) + (5 << 12) + 77


class AdminTest(ServerTest):
    def serve(self, *options, **settings):
        self.server = self.start(*LISTEN, *options, **settings)
        self.admin = Admin(self.server)
        return self.admin

    def assert_line(self, path, status, *words, **headers):
        """Checks a reply with one line of text, and the same as JSON."""
        reply = self.admin.ask(path, **headers)
        self.assertEqual(reply.status, status, reply)
        for word in words:
            self.assertIn(word, reply.line)
        again = self.admin.ask(path, accept="application/json", **headers)
        self.assertEqual((again.status, list(again.json)), (status, ["error"]))
        return reply


class Paths(AdminTest):
    def test_lines(self):
        self.serve()
        for path, line in TEXT.items():
            with self.subTest(path):
                reply = self.admin.ask(path)
                self.assertEqual((reply.status, reply.line), (200, line))
                self.assertEqual(reply.headers["Content-Type"], "text/plain; charset=utf-8")

    def test_what_stands_in_every_head(self):
        self.serve()
        for path in (*TEXT, *JSON, *DRAWING, *OTHERS, "/nothing"):
            with self.subTest(path):
                reply = self.admin.ask(path)
                self.assertEqual(reply.headers["Cache-Control"], "no-store")
                self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(reply.headers["Content-Security-Policy"], "default-src 'none'")
                if path in JSON:
                    self.assertEqual(reply.headers["Content-Type"], "application/json")
                    self.assertIsInstance(reply.json, dict)

    def test_head_is_get_without_the_rest(self):
        self.serve()
        for path in (*TEXT, *JSON, *OTHERS, "/nothing", "/decode/x"):
            with self.subTest(path):
                asked, headed = (self.admin.ask(path, method, x_requested_with="test")
                                 for method in ("GET", "HEAD"))
                self.assertEqual((headed.status, headed.text), (asked.status, ""))
                self.assertEqual(set(headed.headers), set(asked.headers))
                self.assertEqual(headed.headers["Content-Type"], asked.headers["Content-Type"])

    def test_other_methods(self):
        self.serve()
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "post", "X"):
            for path, allow in (("/ping", "GET, HEAD"), ("/id?agent=good", "GET, POST")):
                with self.subTest(method, path=path):
                    reply = self.admin.ask(path, method)
                    self.assertEqual((reply.status, reply.headers["Allow"]), (405, allow))
                    self.assertIn(allow, reply.line)
        self.assertEqual(self.admin.ask("/ping", "POST").status, 405)
        for path in DRAWING:  # the client of a HEAD would not see the IDs
            reply = self.admin.ask(path, "HEAD", x_requested_with="test")
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "GET, POST"))
        self.assertEqual(self.server.counters()["ids_generated"], 0)

    def test_wrong_paths(self):
        self.serve()
        for path in ("/nothing", "/livez/", "/LIVEZ", "//livez", "/livez%00", "/decode", "/decode/",
                     "/../livez", "/ids/", "/%ff", "/" + "x" * 1000):
            with self.subTest(path):
                reply = self.assert_line(path, 404, "the paths are ", " /livez ", " /decode/ID")
                self.assertLess(len(reply.line), 500)

    def test_wrong_queries(self):
        self.serve()
        for path, words in (("/livez?x=1", ("\"x\"", "no arguments")),
                            ("/livez?x", ("\"x\"",)),
                            ("/id?agent=a&agent=b", ("agent is given twice",)),
                            ("/id?Agent=a", ("\"Agent\"", "takes agent")),
                            ("/ids?agent=a&n=1&m=2", ("\"m\"", "agent and n")),
                            ("/id?agent=a&%3Cb%3E=1", ("<b>",)),
                            ("/id", ("agent=",)),
                            ("/id?agent", ("useragent ''",)),
                            ("/id?agent=", ("useragent ''",)),
                            ("/id?agent=1", ("useragent '1'",)),
                            ("/id?agent=a%00", ("useragent 'a%00'",)),
                            ("/id?agent=a%0Ab", ("useragent 'a\\x0ab'",)),
                            ("/id?agent=" + "a" * 257, ("256 bytes at most",)),
                            ("/ids?agent=a", ("n=",)),
                            ("/ids?agent=a&n=", ("n=",)),
                            ("/ids?agent=a&n=-1", ("n=-1 is not", "from 1 to 10000")),
                            ("/ids?agent=a&n=1e3", ("n=1e3 is not",)),
                            ("/ids?agent=a&n=0", ("count 0 ", "1 to 10000")),
                            ("/ids?agent=a&n=10001", ("count 10001 ", "1 to 10000")),
                            ("/ids?agent=a&n=99999999999", ("n=99999999999 ", "1 to 10000")),
                            ("/decode/zz", ("zz", "from=crockford, base62 or base58")),
                            ("/decode/zz?from=base64", ("from=base64", "base58")),
                            ("/decode/-1", ("-1",)),
                            ("/decode/9223372036854775808", ("9223372036854775808",)),
                            ("/decode/%3Cscript%3E?from=base58", ("<script>",))):
            with self.subTest(path):
                self.assert_line(path, 400, *words)
        self.assertEqual(self.server.counters()["ids_generated"], 0)

    def test_decode(self):
        self.serve()
        parts = Parts.of(ID)
        expected = {"id": str(ID), "timestamp_ms": parts.time_ms,
                    "time": "2026-11-20T20:02:28.660Z", "datacenter_id": parts.datacenter_id,
                    "worker_id": parts.worker_id, "sequence": parts.sequence}
        digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        crockford = "".join(digits[ID >> shift & 31] for shift in range(60, -1, -5))
        for path in (f"/decode/{ID}", f"/decode/{ID:#x}", f"/decode/{ID:x}?from=hex",
                     f"/decode/{ID}?from=decimal", f"/decode/{crockford}?from=crockford",
                     f"/decode/%{ord(crockford[0]):x}{crockford[1:]}?from=crockford"):
            with self.subTest(path):
                self.assertEqual(self.admin.json(path), expected)
        text = self.admin.ask(f"/decode/{ID}").text
        self.assertEqual(dict(line.split(": ", 1) for line in text.splitlines()),
                         {name: str(value) for name, value in expected.items()})

    def test_the_names_of_2010(self):
        self.serve()
        self.server.call("get_id", "good")
        stats = self.admin.json("/stats.json")
        self.assertEqual(stats.keys(), {"counters", "metrics", "gauges", "labels"})
        self.assertLessEqual(NAMES_OF_2010, stats["counters"].keys())
        self.assertEqual(stats["gauges"].keys(), GAUGES_OF_2010)
        self.assertEqual(stats["counters"]["ids_generated_good"], 1)
        lines = self.admin.ask("/stats.txt").text.splitlines()
        self.assertEqual(lines, sorted(lines))
        self.assertEqual({line.split(": ")[0] for line in lines},
                         stats["counters"].keys() | stats["gauges"].keys())
        self.assertIn("ids_generated_good: 1", lines)
        info = self.admin.json("/server_info")
        version = subprocess.run([SNOWFLAKED, "--version"], capture_output=True, text=True,
                                 env=ENVIRONMENT, check=True).stdout.split()[1]
        self.assertEqual((info["name"], info["version"]), ("snowflaked", version))
        self.assertGreaterEqual(info["uptime"], 0)

    def test_status(self):
        self.serve("--datacenter-id", 2, "--worker-id", 7)
        with self.server.connect() as connection:
            connection.call(STRICT, "get_id", "good")
            own = connection.call(STRICT, "get_worker").success
            before_ms = int(time.time() * 1000)
            status = self.admin.json("/status.json")
            self.assertEqual((status["state"], status["nonce"], status["address"]),
                             (own.state, own.nonce, own.address))
            self.assertEqual((status["ready"], status["why_not_ready"]), (True, None))
            self.assertEqual((status["datacenter_id"], status["worker_id"]), (2, 7))
            self.assertEqual(status["counters"]["ids_generated"], 1)
            self.assertEqual((status["connections"], status["max_connections"]), (1, 10000))
            self.assertEqual(status["layout"]["name"], "twitter")
            self.assertEqual(status["layout"]["ids_per_ms"], 4096)
            self.assertTrue(before_ms <= status["now_ms"] <= time.time() * 1000)
            self.assertIsNone(status["audit"])
        wait_for(lambda: sum(self.admin.json("/status.json")["rate"]["history"]) > 0
                 or not self.server.call("get_id", "good"), what="a rate that is not 0")
        rate = self.admin.json("/status.json")["rate"]
        self.assertEqual(rate["interval_s"], 2)
        self.assertEqual(rate["now"], rate["history"][-1])

    def test_the_only_server(self):
        self.serve()
        workers = self.admin.json("/workers.json")
        own, = workers["workers"]
        self.assertEqual((own["self"], own["indirect"], own["state"]), (True, False, "serving"))
        self.assertEqual(own["nonce"], self.server.call("get_worker").nonce)


class Ids(AdminTest):
    def test_forms(self):
        self.serve("--worker-id", 5)
        numbers = [int(self.admin.ask("/id?agent=good").line),
                   int(self.admin.json("/id?agent=good")["id"]),
                   *map(int, self.admin.ask("/ids?agent=good&n=3").text.split()),
                   *map(int, self.admin.json("/ids?agent=good&n=3")["ids"])]
        self.assertEqual(len(numbers), 8)
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual({Parts.of(number).worker_id for number in numbers}, {5})

    def test_they_are_counted_and_logged(self):
        path = self.directory / "audit"
        self.serve("--audit-log", f"file:{path}")
        numbers = {int(self.admin.ask("/id?agent=good").line),
                   *map(int, self.admin.ask("/ids?agent=good&n=100").text.split())}
        self.admin.ask("/id?agent=1")
        numbers.add(self.server.call("get_id", "good"))
        counters = self.server.counters()
        self.assertEqual((counters["ids_generated"], counters["ids_generated_good"]), (102, 102))
        self.assertEqual((counters["exceptions"], self.admin.json("/stats.json")["counters"][
            "ids_generated_good"]), (1, 102))
        self.server.terminate()
        entries = audit.read(path)
        self.assertEqual({entry.id for entry in entries}, numbers)
        self.assertEqual({entry.agent for entry in entries}, {"good"})
        self.assertEqual(len(entries), 102)

    def test_none_is_issued_twice(self):
        self.serve("--threads", 2)
        rounds = scaled(200, 20)
        numbers = [[] for _ in range(4)]

        def call(mine):
            for _ in range(rounds):
                mine.append(self.server.call("get_id", "thrift"))

        def call_many(mine):
            for _ in range(rounds):
                mine.extend(self.server.call("get_ids", "thrift", 100))

        def ask(mine, path):
            connection = self.admin.connect()
            for _ in range(rounds):
                mine.extend(map(int, self.admin.ask(path, connection=connection).text.split()))
            connection.close()

        run_together(lambda: call(numbers[0]), lambda: call_many(numbers[1]),
                     lambda: ask(numbers[2], "/id?agent=http"),
                     lambda: ask(numbers[3], "/ids?agent=http&n=100"))
        self.assertEqual([len(mine) for mine in numbers],
                         [rounds, 100 * rounds, rounds, 100 * rounds])
        for mine in numbers:
            self.assertEqual(mine, sorted(mine))
        self.assertEqual(len(set().union(*numbers)), sum(map(len, numbers)))
        self.assertEqual(self.server.counters()["ids_generated_http"], 101 * rounds)

    def test_no_page_of_another_site_draws(self):
        """Over TLS or to localhost a browser names the site of the page (Sec-Fetch-Site). Elsewhere
        it marks a POST with Origin, and a page cannot add headers."""
        self.serve()
        for path in DRAWING:
            for site in ("cross-site", "same-site"):
                for method in ("GET", "POST"):
                    self.assert_line(path, 403, "another site", method=method, sec_fetch_site=site)
            for headers, method in (({}, "GET"), ({"origin": "null"}, "POST")):
                self.assertEqual(self.admin.ask(path, method, **headers).status, 403)
            self.assert_line(path, 403, "POST", "X-Requested-With", method="GET")
        self.assertEqual(self.server.counters()["ids_generated"], 0)
        for path in DRAWING:
            for site in ("same-origin", "none"):
                self.assertEqual(self.admin.ask(path, "GET", sec_fetch_site=site).status, 200)
            self.assertEqual(self.admin.ask(path, "GET", x_requested_with="curl").status, 200)
            self.assertEqual(self.admin.ask(path, "POST").status, 200)

    def test_names_of_hosts(self):
        """A page can make its own name resolve to this machine. Its requests have that name."""
        self.serve("--admin-host", "ids.example", "--admin-host", "Other.")
        port = self.admin.address[1]
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "x y", "[",
                     "*", ".", "localhost..", "ids.example..", "tls:localhost", "unix:/x",
                     "user@localhost", "localhost:99999"):
            for path in ("/id?agent=good", "/status.json", "/nothing"):
                with self.subTest(host):
                    self.assert_line(path, 421, "localhost", host, "--admin-host", host=host)
        for host in ("localhost", f"LocalHost:{port}", "127.0.0.1", f"[::1]:{port}", "192.0.2.1",
                     "localhost.", "IDS.example", f"ids.example.:{port}", f"other:{port}",
                     "other."):
            self.assertEqual(self.admin.ask("/ping", host=host).status, 200)


class Listening(AdminTest):
    def test_forms_of_the_address(self):
        for listen, connect in (("[::1]:0", "::1"), ("*:0", "127.0.0.1"), ("*:0", "::1"),
                                ("localhost:0", "127.0.0.1")):
            with self.subTest(listen):
                server = self.start("--admin-listen", listen)
                connection = http.client.HTTPConnection(connect, server.admin_address[1],
                                                        HANG_GUARD_S)
                connection.request("GET", "/readyz")
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()
                server.terminate()

    def test_off_by_default(self):
        server = self.start()
        self.assertIsNone(server.find("admin-listening"))
        self.assertEqual(len(os.listdir(f"/proc/{server.pid}/task")),
                         len(os.listdir(f"/proc/{self.threads_without()}/task")) - 1)

    def threads_without(self):
        other = self.launch("--state-directory", self.directory / "other", *LISTEN).wait_ready()
        return other.pid

    def test_a_taken_port(self):
        address = dead_address(self)
        server = self.launch("--state-directory", self.state, "--admin-listen", address)
        host, _, port = address.rpartition(":")
        self.assert_refused(server, 1, "event=failed", "--admin-listen", host, port, "in use")

    def test_wrong_addresses(self):
        for address in ("", "localhost:x", "::1", "127.0.0.1:65536"):
            with self.subTest(address):
                server = self.launch("--state-directory", self.state, "--admin-listen", address)
                self.assert_refused(server, 2, "--admin-listen: ", address)

    def test_a_page_stays_connected(self):
        self.serve()
        connection = self.admin.connect()
        connection.connect()
        opened = connection.sock
        for path in ("/ping", "/status.json", "/nothing", "/id?agent=good", "/ping"):
            self.admin.ask(path, connection=connection)
        self.admin.ask("/ping", "HEAD", connection=connection)
        self.assertIs(connection.sock, opened)
        connection.close()

    def test_it_ends_with_the_server(self):
        self.serve()
        with self.admin.socket() as idle:
            self.assertEqual(self.server.terminate(), 0)
            self.assertEqual(idle.recv(1), b"")
        with self.assertRaises(ConnectionRefusedError), socket.create_connection(
                self.admin.address):
            pass
