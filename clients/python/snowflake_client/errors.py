# SPDX-License-Identifier: Apache-2.0
"""The errors that calls raise. `__cause__` is the underlying error."""
from typing import NamedTuple, Optional, Sequence


class Attempt(NamedTuple):
    """A server that was tried, and why it did not return IDs."""
    server: str  # as in `servers`
    reason: str


class SnowflakeError(Exception):
    """A call failed. The message is one line that lists each server and its error."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.attempts = list(attempts)


class ClockError(SnowflakeError):
    """A server's clock is behind the IDs that it has issued, or outside the layout's range."""


class UnavailableError(SnowflakeError):
    """A server has no worker ID, or no IDs left for the current time."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = (),
                 retry_after_ms: Optional[int] = None) -> None:
        super().__init__(message, attempts)
        self.retry_after_ms = retry_after_ms  # the shortest time returned by a server


class InvalidAgentError(SnowflakeError, ValueError):
    """The agent is not a letter followed by letters, digits and "-", at most 256 characters."""


class UnreachableError(SnowflakeError, ConnectionError):
    """No server accepts connections, or a reply is not from a Snowflake server."""


class SnowflakeTimeoutError(SnowflakeError, TimeoutError):
    """No server answered within the timeout of the call."""


class ClosedError(SnowflakeError):
    """The client is closed."""
