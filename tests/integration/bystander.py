# SPDX-License-Identifier: Apache-2.0
"""A client that checks that a server keeps serving other clients during a test."""
import contextlib
import threading

from harness import wait_for
from wire import STRICT


class Bystander:
    """Another client of the same loop. It calls throughout, and every call must succeed."""

    def __init__(self, server):
        self.server = server
        self.calls = 0
        self.problem = None
        self.ended = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        wait_for(lambda: self.calls or self.problem, what="a first answer to the bystander")
        return self

    def ask(self):
        try:
            with self.server.connect() as connection:
                while not self.ended.wait(0.002):
                    connection.call(STRICT, "get_ids", "bystander", 2).success
                    self.calls += 1
        except Exception as error:
            self.problem = error

    def __exit__(self, kind, *_):
        seen = self.calls
        with contextlib.suppress(AssertionError):
            wait_for(lambda: self.calls > seen or self.problem)
        self.ended.set()
        self.thread.join()
        if kind is None:
            assert self.problem is None, f"the bystander was not served: {self.problem!r}"
            assert self.calls > seen, "the bystander was not served to the end"
