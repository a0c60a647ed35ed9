# SPDX-License-Identifier: Apache-2.0
"""The errors of the package. `__cause__` is the underlying error."""
from typing import NamedTuple, Optional, Sequence


class Attempt(NamedTuple):
    """A server that was asked, and why it did not return IDs."""
    server: str  # as in `servers`
    reason: str


class SnowflakeError(Exception):
    """A call failed. The message is one line that names each server and its error."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.attempts = list(attempts)


class ClockError(SnowflakeError):
    """The clock of a server is behind its IDs, or outside the layout."""


class UnavailableError(SnowflakeError):
    """A server has no worker ID, or no IDs for the present time."""

    def __init__(self, message: str, attempts: Sequence[Attempt] = (),
                 retry_after_ms: Optional[int] = None) -> None:
        super().__init__(message, attempts)
        self.retry_after_ms = retry_after_ms  # the smallest that a server returned


class InvalidAgentError(SnowflakeError, ValueError):
    """The agent is not a letter and then letters, digits and "-", at most 256 in total."""


class UnreachableError(SnowflakeError, ConnectionError):
    """No server accepts connections, or a server does not answer like a Snowflake server."""


class SnowflakeTimeoutError(SnowflakeError, TimeoutError):
    """The timeout of the call ended before a server answered."""


class ClosedError(SnowflakeError):
    """The client is closed."""
