# SPDX-License-Identifier: Apache-2.0
"""The client in the servers and frameworks that programs use: no ID twice, no deadlock."""
import concurrent.futures
import http.client
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from support import LONG_S, PACKAGE, Case
from test_package import BLOCKS

REQUESTS, IDS = 40, 50
APPLICATION = """
import os, time
from snowflake_client import AsyncSnowflake, Snowflake

client = Snowflake(os.environ["SERVER"], agent="test", timeout=60)
while client.stats().buffered < 20:  # a child must not hand these out
    client.next_id()
while "ALONE" in os.environ and len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0)
# at the highest rate, so that the workers refill
def application(environ, start_response):
    body = " ".join(str(client.next_id()) for _ in range(IDS)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

async_client = AsyncSnowflake(os.environ["SERVER"], agent="test", timeout=60)

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        ids = [await async_client.next_id() for _ in range(IDS)]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": " ".join(map(str, ids)).encode()})
""".replace("IDS", str(IDS))
GREEN = """
import sys
from snowflake_client import ClosedError, Snowflake

client = Snowflake(sys.argv[1], agent="test", timeout=60)
ids = [client.next_id() for _ in range(1000)]
before = Snowflake(sys.argv[2], agent="test", timeout=60)
{patch}
is_over, ticks = [], []

def hang():
    try:
        before.next_id()
    except ClosedError:
        is_over.append(1)

def tick():
    # the calls that hang end once this one has had its turns
    while len(ticks) < 10:
        ticks.append(1)
        sleep(0.01)
    before.close()

def take():
    for _ in range(300):
        ids.append(client.next_id())
        ids.extend(client.next_ids(3))

wait([spawn(each) for each in (hang, hang, hang, tick, *[take] * 10)])
assert len(is_over) == 3 and len(ticks) == 10, (is_over, ticks)
print(len(ids), len(set(ids)))
"""
GEVENT = """
import gevent.monkey
gevent.monkey.patch_all()
spawn, wait, sleep = gevent.spawn, gevent.joinall, gevent.sleep
"""
EVENTLET = """
import eventlet
eventlet.monkey_patch()
spawn, sleep = eventlet.spawn, eventlet.sleep
wait = lambda threads: [thread.wait() for thread in threads]
"""
MIGRATION = """
import os, sys
from unittest import mock
from django.conf import settings
settings.configure(INSTALLED_APPS=["shop"], DATABASES={{"default": {{
    "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}})
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
from shop.models import Order
print(Order.objects.create().id, Order.objects.create().id)
"""


class Programs(Case):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        self.address = self.server()

    def environment(self):
        return {**os.environ, "PYTHONPATH": f"{PACKAGE}:{self.directory}", "SERVER": self.address}

    def run_python(self, program, *arguments):
        done = subprocess.run([sys.executable, "-c", program, *arguments], timeout=LONG_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=self.environment(), cwd=self.directory, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


class Green(Programs):
    """Patched after the import, and after the client was made and used."""

    def check(self, patch):
        hanging = self.peer(lambda call: call.peer.hang())
        printed = self.run_python(GREEN.format(patch=patch), self.address, hanging.address)
        self.assertEqual(printed.split(), ["13000", "13000"])

    @needs("gevent")
    def test_gevent(self):
        self.check(GEVENT)

    @needs("eventlet")
    def test_eventlet(self):
        self.check(EVENTLET)


class Workers(Programs):
    """Servers with processes for the requests, whose parent has prefetched IDs."""

    def ids_of(self, *command):
        """Returns the IDs in the responses of a server."""
        (self.directory / "app.py").write_text(APPLICATION)
        path = self.directory / "http"
        log = self.enter(open(self.directory / "log", "w+"))
        process = subprocess.Popen([str(path) if word == "SOCKET" else word.replace(
            "SOCKET", str(path)) for word in command], stdout=log, stderr=log, cwd=self.directory,
            env=self.environment(), start_new_session=True)
        self.addCleanup(self.end, process)
        try:
            self.wait_until(lambda: process.poll() is not None or self.answers(path))
            self.assertIsNone(process.poll(), (self.directory / "log").read_text())
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                bodies = list(threads.map(lambda _: self.get(path), range(REQUESTS)))
        except Exception as error:
            raise AssertionError((self.directory / "log").read_text()) from error
        return [int(word) for body in bodies for word in body.split()]

    @staticmethod
    def end(process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @staticmethod
    def answers(path):
        with socket.socket(socket.AF_UNIX) as sock:
            return path.exists() and sock.connect_ex(str(path)) == 0

    @staticmethod
    def get(path):
        connection = http.client.HTTPConnection("localhost", timeout=LONG_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(LONG_S)
        connection.sock.connect(str(path))
        connection.request("GET", "/", headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        assert response.status == 200, body
        return body

    def check(self, *command):
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        ids = self.ids_of(*command)
        self.assertEqual(len(ids), REQUESTS * IDS)
        self.assertEqual(len(set(ids)), len(ids))

    def gunicorn(self, *options):
        self.check("gunicorn", "--workers", "2", "--bind", "unix:SOCKET", *options,
                   "app:application")

    def test_gunicorn(self):
        self.gunicorn("--preload")

    def test_gunicorn_with_threads(self):
        self.gunicorn("--worker-class", "gthread", "--threads", "4", "--preload")

    @needs("gevent")
    def test_gunicorn_with_gevent(self):
        self.gunicorn("--worker-class", "gevent", "--preload")

    @needs("gevent")
    def test_gunicorn_with_gevent_and_without_preload(self):
        self.gunicorn("--worker-class", "gevent")

    def test_uwsgi(self):
        """A worker that uWSGI forks while another thread runs can wait for the interpreter's lock
        forever, so the refill ends first."""
        self.check("uwsgi", "--plugin", "python3", "--enable-threads", "--env", "ALONE=1",
                   "--master", "--processes", "2", "--socket-timeout", str(int(LONG_S)),
                   "--http-socket", "SOCKET", "--wsgi-file", str(self.directory / "app.py"))

    def test_uvicorn(self):
        """Its workers import the application themselves."""
        self.check("uvicorn", "--workers", "2", "--uds", "SOCKET", "app:asgi")


class Recipes(Programs):
    """Those of the README."""

    def block(self, name):
        text, = [block for block in BLOCKS if block.startswith(name)]
        return re.sub(r'"127.0.0.1:7609", agent="[\w-]+"', f'"{self.address}", timeout=60', text)

    @needs("django")
    def test_django(self):
        (self.directory / "shop").mkdir()
        (self.directory / "shop" / "__init__.py").touch()
        (self.directory / "shop" / "models.py").write_text(self.block("# Django"))
        ids = self.run_python(MIGRATION.format()).split()
        self.assertLess(int(ids[0]), int(ids[1]))
        migration = (self.directory / "shop" / "migrations" / "0001_initial.py").read_text()
        self.assertIn("default=shop.models.new_id", migration)
        models = (self.directory / "shop" / "models.py").read_text()
        (self.directory / "shop" / "models.py").write_text(
            models.replace("default=new_id", "default=client.next_id"))
        shutil.rmtree(self.directory / "shop" / "migrations")
        with self.assertRaisesRegex(AssertionError, "define a function that calls it"):
            self.run_python(MIGRATION.format())

    @needs("sqlalchemy")
    def test_sqlalchemy(self):
        ids = re.findall(r"\d+", self.run_python(self.block("# SQLAlchemy")))
        self.assertEqual(len(set(ids)), 2)
