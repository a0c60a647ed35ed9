# SPDX-License-Identifier: Apache-2.0
"""The status page, in a real browser, from real servers in a real ZooKeeper."""
import http.server
import re
import threading

from admin import LISTEN, Admin
from browser import DESK, PHONE, Browser
from harness import ServerTest, wait_for
from znodes import Registry, tick_in
from zookeeper_case import DATACENTER, ZooKeeperTest, worker_id_of

HTML = "<img src=x onerror=\"document.title='it ran'\"><b>bold</b>"
ID = 1724551110456385539
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
LAYOUT_BITS = (1, 41, 5, 5, 12)
# a message on Chromium's console
NO_ANSWER = "Failed to load resource: net::ERR_"
BAD_REQUEST = "Failed to load resource: the server responded with a status of 400"
# there is no list of servers before the server has requested one from ZooKeeper
NOT_YET = "Failed to load resource: the server responded with a status of 503"


def cell(worker_id, datacenter_id=DATACENTER):
    return f"button[data-key='{datacenter_id}/{worker_id}']"


class Prefix(http.server.BaseHTTPRequestHandler):
    """A reverse proxy that serves the page at /ids/."""
    protocol_version = "HTTP/1.1"
    admin = None

    def do_GET(self):
        if not self.path.startswith("/ids/"):
            self.send_error(404)
            return
        reply = self.admin.ask(self.path.removeprefix("/ids"), accept=self.headers["Accept"])
        body = reply.text.encode()
        self.send_response(reply.status)
        for name in ("Content-Type", "Content-Security-Policy"):
            self.send_header(name, reply.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class PageTest(ZooKeeperTest):
    """A test with a page of the browser that its class shares."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def admin_member(self, *options, admin="127.0.0.1:0", **settings):
        return self.member("--admin-listen", admin, *options, **settings)

    def open(self, server, **settings):
        """Opens the server's page. Returns it when it shows the server's state."""
        page = self.browser.open("http://%s:%d/" % server.admin_address, **settings)
        self.addCleanup(page.close)
        page.wait_text("#state", lambda text: "serving" in text)
        page.wait_text(cell(worker_id_of(server)), bool)
        return page

    def stand_in(self, datacenter_id, worker_id, address):
        """Makes a claim and a reservation of another server."""
        registry = Registry(self.tree.client, self.root)
        _, nonce = registry.claim(datacenter_id, address, worker_id)
        registry.reserve(datacenter_id, worker_id, tick_in(600), nonce, address)

    def stand_in_waiting(self, datacenter_id, address):
        """A claim without a worker ID, as of a server that waits for one."""
        Registry(self.tree.client, self.root).claim(datacenter_id, address)

    def signs(self, page, worker_id):
        """Returns the page's text for a worker ID of the datacenter; None if it is free."""
        return page.run(f"document.querySelector(\"{cell(worker_id)}\")"
                        "?.getAttribute('aria-label') ?? null")


class Shown(PageTest):
    def test_this_server_and_the_others(self):
        first, second = self.admin_member("--worker-id", 7), self.member("--worker-id", 30)
        page = self.open(first)
        for selector, expected in (("#datacenter", DATACENTER), ("#worker", 7),
                                   ("#address", "%s:%d" % first.address)):
            self.assertEqual(page.text(selector), str(expected))
        self.assertIn("this server", self.signs(page, 7))
        self.assertEqual(self.signs(page, 30), "Worker 30: serving, %s:%d" % second.address)
        self.assertIn("2 held, 30 free", page.text(".datacenter h3"))
        self.assertEqual(page.run("document.querySelectorAll('.datacenter .free').length"), 30)

        self.stand_in_waiting(DATACENTER, "there.example:1")
        page.wait_text(".datacenter h3", lambda text: "1 server without a worker ID" in text)

        second.kill()
        page.wait_text(".datacenter h3", lambda text: "1 held" in text)
        self.assertNotIn("serving", self.signs(page, 30) or "")
        page.wait_text(".datacenter h3", lambda text: "31 free" in text)
        self.assertIsNone(self.signs(page, 30))
        page.assert_clean(NOT_YET)

    def test_no_worker_id_is_free(self):
        server = self.admin_member("--worker-id", 0)
        for worker_id in range(1, 31):
            self.tree.write_reservation(worker_id, tick_in(600), "gone")
        page = self.open(server)
        colour = "getComputedStyle(document.querySelector('.datacenter .note')).color"
        page.wait_text(".datacenter h3", lambda text: "1 held, 30 quarantined, 1 free" in text)
        before = page.run(colour)
        self.tree.write_reservation(31, tick_in(600), "gone")
        page.wait_text(".datacenter h3", lambda text: "31 quarantined, ▲ 0 free" in text)
        self.assertNotEqual(page.run(colour), before)
        self.assertEqual(page.axe(), [])

    def test_the_rate_rises_under_load(self):
        server = self.admin_member()
        page = self.open(server)
        page.wait_text("#rate", lambda text: text == "0")
        drawers = [self.draw(server) for _ in range(2)]
        page.wait_text("#rate", lambda text: int(text.replace(",", "")) > 100)
        wait_for(lambda: page.run("document.querySelectorAll('#plot .line').length"), "a line")
        self.assertRegex(page.text("#agents"), r"^good \d")
        for drawer in drawers:
            drawer.stop()
        page.wait_text("#rate", lambda text: text == "0")
        page.assert_clean(NOT_YET)

    def test_what_no_reservation_means(self):
        """With a state directory, an idle server needs no reservation; a server that cannot get one
        has a fault."""
        idle = self.launch(*LISTEN, "--datacenter-id", DATACENTER, "--state-directory",
                           self.directory / "idle").wait_ready()
        page = self.open(idle)
        page.wait_text("#reservation-note", lambda text: text == "idle: the next call reserves")
        proxy = self.proxy()
        page = self.open(self.admin_member(via=proxy))
        proxy.cut()
        page.wait_text("#reservation-note",
                       lambda text: text.endswith("it has run out, and cannot be extended"))
        proxy.heal()
        page.wait_text("#reservation-note", lambda text: text.startswith("of "))

    def test_a_relay(self):
        server = self.member("--worker-id", 7)
        address = "%s:%d" % server.address
        relay = self.launch(*LISTEN, "--relay", address).wait_ready()
        page = self.browser.open("http://%s:%d/" % relay.admin_address)
        self.addCleanup(page.close)
        page.wait_text("#state", lambda text: "serving" in text)
        page.wait_text(cell(7), bool)
        self.assertEqual(page.text("#reservation-head"), "Prefetched")
        self.assertEqual(page.text("#reservation-note"), f"from {address}")
        self.assertEqual(self.signs(page, 7), f"Worker 7: serving, {address}")
        self.assertIn("1 held, 31 free", page.text(".datacenter h3"))
        self.assertEqual(page.axe(), [])
        server.kill()
        page.wait_text("#reservation-note",
                       lambda text: text.endswith("no server can be asked for more"))
        page.assert_clean(NOT_YET)

    def test_a_server_that_is_gone_and_back(self):
        server = self.admin_member()
        page = self.open(server)
        worker_id = page.text("#worker")
        self.assertIsNone(page.text("#alarm"))
        listens = "%s:%d" % server.admin_address
        server.kill()
        self.assertRegex(page.wait_text("#alarm", bool),
                         r"No answer from this server since \d\d:\d\d:\d\d UTC")
        self.assertEqual(page.text("#worker"), worker_id)
        self.assertIn("No answer", page.text("#spoken"))
        self.assertEqual(page.axe(), [])
        self.admin_member(admin=listens)
        wait_for(lambda: page.text("#alarm") is None, "an end of the alarm")
        page.wait_text("#state", lambda text: "serving" in text)
        page.assert_clean(NOT_YET, NO_ANSWER)


class Used(PageTest):
    def test_by_keyboard_alone(self):
        server = self.admin_member("--worker-id", 7)
        self.stand_in(DATACENTER + 1, 31, "there.example:1")
        self.stand_in(DATACENTER + 1, 3, "here.example:2")
        page = self.open(server)
        page.wait_text(cell(3, DATACENTER + 1), bool)
        page.press("Tab")
        self.assertIn("Datacenter 3, worker 7", page.text("#details"))
        page.press("Tab")
        self.assertIn("here.example:2", page.text("#details"))
        page.press("ArrowRight")
        self.assertIn("there.example:1", page.text("#details"))
        page.press("Home", "End", "ArrowLeft")
        self.assertIn("here.example:2", page.text("#details"))
        outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")
        page.press("Tab")
        page.paste(str(ID))
        page.wait_text("#parts", lambda text: "2023-11-14" in text)
        page.hover(cell(31, DATACENTER + 1))
        self.assertIn("there.example:1", page.text("#details"))
        page.tap(cell(7))
        self.assertIn("Datacenter 3, worker 7", page.text("#details"))
        page.assert_clean(NOT_YET)

    def test_for_every_eye(self):
        server = self.admin_member()
        self.stand_in(DATACENTER, 31, "a" * 60 + ".example:1")
        self.tree.write_reservation(30, tick_in(600), "gone")
        page = self.open(server)
        page.tap("#id")
        page.paste(str(ID))
        page.wait_text("#parts", bool)
        for size in (DESK, PHONE):
            page.resize(size)
            self.assertEqual(page.run("document.documentElement.scrollWidth"), size[0])
            for scheme in ("light", "dark"):
                page.set_scheme(scheme)
                self.assertEqual(page.axe(), [], (size, scheme))
        page.assert_clean(NOT_YET)

    def test_a_pasted_id_is_decoded(self):
        page = self.open(self.admin_member())
        page.tap("#id")
        for number in (ID, ID + (9 << 12) + 1):
            page.press("Control+a")
            page.paste(str(number))
            parts = page.wait_text("#parts", lambda text, number=number:
                                   text.endswith(f"\n{number & 4095}"))
            self.assertIn(f"worker, 5 bits\n{number >> 12 & 31}\n", parts)
            self.assertEqual(page.run("[...document.querySelectorAll('#bits span')]"
                                      ".map((bit) => bit.textContent).join('')"), f"{number:064b}")
            self.assertEqual(page.run("[...document.querySelectorAll('#parts > div')].map((part) =>"
                                      "document.querySelectorAll(`#bits .${part.className}`)"
                                      ".length)"), list(LAYOUT_BITS))
        for text in ("seven", "..", "-1", "../status.json", "%00", "9" * 40, HTML):
            page.press("Control+a")
            page.paste(text)
            page.press("Enter")
            page.wait_text("#decode-error", bool)
            self.assertIsNone(page.text("#decoded"))
            page.press("Control+a")
            page.paste(str(ID))
            page.wait_text("#parts", bool)
        self.assertEqual(page.run("document.images.length"), 1)
        page.assert_clean(NOT_YET, BAD_REQUEST)

    def test_behind_a_path_prefix(self):
        server = self.admin_member()
        proxy = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Proxy", (Prefix,), {"admin": Admin(server)}))
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = "http://127.0.0.1:%d/ids/" % proxy.server_port
        page = self.browser.open(url)
        self.addCleanup(page.close)
        page.wait_text("#state", lambda text: "serving" in text)
        page.wait_text(cell(worker_id_of(server)), bool)
        page.tap("#id")
        page.paste(str(ID))
        page.wait_text("#parts", lambda text: text.endswith(f"\n{ID & 4095}"))
        self.assertEqual([link for link in page.run("[...document.links].map((link) => link.href)")
                          if not link.startswith(url)], [])
        page.assert_clean(NOT_YET)

    def test_html_is_text(self):
        server = self.admin_member()
        server.call("get_id", "good")
        self.stand_in(DATACENTER, 31, f"{HTML}:7")
        page = self.open(server)
        page.wait_text(cell(31), bool)
        page.hover(cell(31))
        page.wait_text("#details", lambda text: HTML in text)
        page.assert_clean(NOT_YET)
        page.poison(HTML)
        for selector in ("#address", "#state", "#version", "#layout", "#nonce", "#agents",
                         "#details"):
            page.wait_text(selector, lambda text: HTML in text)
        self.assertEqual(page.run("document.images.length + document.querySelectorAll('b').length"),
                         1)
        self.assertNotEqual(page.run("document.title"), "it ran")
        page.assert_clean(NOT_YET)


class Files(ServerTest):
    def test_types_policy_and_what_is_kept(self):
        admin = Admin(self.start(*LISTEN))
        page = admin.ask("/")
        files = ["/" + path for path in re.findall(r'(?:href|src)="(page/[^"]*)"', page.text)]
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        for path, kind in (("/page/status.js", "text/javascript; charset=utf-8"),
                           ("/page/status.css", "text/css; charset=utf-8"),
                           ("/page/icon.svg", "image/svg+xml")):
            self.assertIn(path, files)
            reply = admin.ask(path)
            self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, kind))
            for one in (page, reply):
                self.assertEqual(one.headers["Content-Security-Policy"], POLICY)
                self.assertEqual(one.headers["Cache-Control"], "no-cache")
            self.assertNotEqual(reply.headers["ETag"], page.headers["ETag"])
            again = admin.ask(path, if_none_match=reply.headers["ETag"])
            self.assertEqual((again.status, again.text), (304, ""))
            self.assertEqual(admin.ask(path, if_none_match=page.headers["ETag"]).status, 200)
        for path in ("/page/none.js", "/page/../status.js", "/page/page.gresource.xml", "/page/"):
            self.assertEqual(admin.ask(path).status, 404, path)
        self.assertIsNone(admin.ask("/status.json").headers["ETag"])
