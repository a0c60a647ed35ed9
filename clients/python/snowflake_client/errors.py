# SPDX-License-Identifier: Apache-2.0
"""What may go wrong. Wrong arguments are a ValueError, as everywhere in Python."""
from typing import NamedTuple, Optional, Sequence


class Attempt(NamedTuple):
    """A server that was asked, and why it did not answer with IDs."""
    server: str  # as it was given
    reason: str


class SnowflakeError(Exception):
    """No ID was to be had. The message is one line that names each server and why."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.attempts = list(attempts)  # in the order in which they were made


class ClockError(SnowflakeError):
    """The clock of a server is behind its IDs, or outside the layout."""


class UnavailableError(SnowflakeError):
    """A server has no worker ID, or no IDs for the present time."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = (),
                 retry_after_ms: Optional[int] = None) -> None:
        super().__init__(message, attempts)
        self.retry_after_ms = retry_after_ms  # the least that a server said; None: none did


class InvalidAgentError(SnowflakeError, ValueError):
    """The agent is not a letter and then letters, figures and "-", 256 bytes at most."""


class UnreachableError(SnowflakeError, ConnectionError):
    """No server could be connected to, or answered as one."""


class SnowflakeTimeoutError(SnowflakeError, TimeoutError):
    """The deadline of the call was over first. It is a TimeoutError too."""


class ClosedError(SnowflakeError):
    """The client is closed."""
