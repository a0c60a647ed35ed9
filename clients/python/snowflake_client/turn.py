# SPDX-License-Identifier: Apache-2.0
"""A lock that goes round: whoever waits for it gets it in the order of coming. With Python's own,
a thread that takes it again and again leaves the others waiting, past their deadlines.

    ticket = Ticket()
    try:
        turn.acquire(ticket, deadline)
    finally:
        turn.release(ticket)

A signal handler may raise anywhere: so a ticket is there before the turn is, and is released again
if the first time was interrupted.
"""
import threading
from collections import deque
from time import monotonic
from typing import Deque, Optional


class Ticket:
    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.comes = threading.Lock()  # locked until it is its turn
        self.comes.acquire()


class Turn:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # which a signal handler may interrupt, and come again
        self._holder: Optional[Ticket] = None
        self._waiting: Deque[Ticket] = deque()

    def acquire(self, ticket: Ticket, deadline: float) -> bool:
        """False: the deadline (of time.monotonic) came first."""
        with self._lock:
            if self._holder is None:
                self._holder = ticket
                return True
            self._waiting.append(ticket)
        return ticket.comes.acquire(timeout=max(0.0, deadline - monotonic()))

    def is_mine(self) -> bool:
        """This thread has it or waits for it already, and would wait for itself."""
        thread = threading.get_ident()
        with self._lock:
            tickets = [self._holder, *self._waiting]
        return any(ticket is not None and ticket.thread == thread for ticket in tickets)

    def release(self, ticket: Ticket) -> None:
        """Whether or not it has come; does nothing the second time, but for what an interrupted
        first time left."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if self._holder is ticket:
                self._holder = self._waiting[0] if self._waiting else None
            if self._waiting and self._holder is self._waiting[0]:
                if self._holder.comes.locked():
                    self._holder.comes.release()
                self._waiting.popleft()
