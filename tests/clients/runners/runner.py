# SPDX-License-Identifier: Apache-2.0
"""The base class of the runners in Python. ../README.md describes the commands and answers."""
import json
import os
import sys
import threading
import time


class Unsupported(Exception):
    """The package does not support a command; the text says why."""


class Runner:
    """A subclass sets the attributes below, and defines make_client() and describe(). A client
    supports next_id(), next_ids() and close()."""
    language = package = ""
    lacks = {}   # capability: why the package lacks it
    errors = ()  # exceptions of a failed call

    def __init__(self):
        self.client = None

    def make_client(self, **options):
        """Makes a client with the options of open. Missing options keep the package's defaults."""
        raise NotImplementedError

    def describe(self, error):
        """Returns the members of the answer for one of `errors`."""
        raise NotImplementedError

    def outcome(self, call, count=1, pause_ms=0):
        """Makes `count` calls in sequence, until one fails. Returns the answer with all IDs."""
        ids = []
        for left in range(count - 1, -1, -1):
            began = time.monotonic()
            try:
                ids += call()
            except self.errors as error:
                return {"ids": list(map(str, ids)), **self.describe(error),
                        "took_ms": (time.monotonic() - began) * 1000}
            if pause_ms and left:
                time.sleep(pause_ms / 1000)  # lint: allow sleep: the pace that the suite asks for
        return {"ids": list(map(str, ids))}

    def _next(self):
        return [self.client.next_id()]

    def do_hello(self):
        return {"language": self.language, "package": self.package, "lacks": self.lacks}

    def do_open(self, **options):
        def make():
            self.client = self.make_client(**options)
            return []
        self.do_close()
        answer = self.outcome(make)
        return answer if "error" in answer else {"ok": True}

    def do_next(self, count=1, pause_ms=0):
        return self.outcome(self._next, count, pause_ms)

    def do_next_ids(self, count):
        return self.outcome(lambda: self.client.next_ids(count))

    def client_of_thread(self):
        return self.client

    def do_storm(self, threads, count, file):
        left, lock = iter(range(count)), threading.Lock()
        every, failed = [], []

        def is_left():
            with lock:
                return next(left, None) is not None

        def take():
            client, ids = self.client_of_thread(), []
            while is_left():
                n_before = len(ids)
                while len(ids) == n_before:
                    try:
                        ids.append(client.next_id())
                    except self.errors as error:
                        failed.append(error)
            every.extend(ids)
            if client is not self.client:
                client.close()
        crowd = [threading.Thread(target=take) for _ in range(threads)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        with open(file, "w", encoding="ascii") as lines:
            lines.writelines(f"{number}\n" for number in every)
        return {"taken": len(every), "failed": len(failed)}

    def do_fork(self, count):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                with open(writing, "w", encoding="ascii") as answer:
                    json.dump(self.do_next(count), answer)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writing)
        of_parent = self.do_next(count)
        with open(reading, encoding="ascii") as answer:
            text = answer.read()
        os.waitpid(child, 0)
        of_child = json.loads(text) if text else {"ids": [], "error": "the child died"}
        failed = of_parent if "error" in of_parent else of_child if "error" in of_child else {}
        return {**failed, "parent": of_parent["ids"], "child": of_child["ids"]}

    def do_next_then_close(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.do_next()))
        thread.start()
        sys.stdin.readline()
        self.client.close()
        thread.join()
        return answers[0]

    def do_close(self):
        if self.client is not None:
            self.client.close()
        return {"ok": True}

    def answer(self, do, **settings):
        act = getattr(self, f"do_{do}", None)
        if act is None:
            return {"unsupported": f"no {do}"}
        try:
            return act(**settings)
        except Unsupported as error:
            return {"unsupported": str(error)}

    def run(self):
        for line in sys.stdin:
            print(json.dumps(self.answer(**json.loads(line))), flush=True)
