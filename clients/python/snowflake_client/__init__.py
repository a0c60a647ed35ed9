# SPDX-License-Identifier: Apache-2.0
"""A client for unique, time-sortable IDs from a Snowflake server.

    from snowflake_client import Snowflake

    with Snowflake("127.0.0.1:7609") as client:
        print(client.next_id())
"""
from ._engine import Stats
from .aio import AsyncIdSource, AsyncSnowflake
from .client import IdSource, Snowflake
from .errors import (Attempt, ClockError, ClosedError, InvalidAgentError, SnowflakeError,
                     SnowflakeTimeoutError, UnavailableError, UnreachableError)
from .ids import (TWITTER, Layout, Parts, decode, from_base62, from_crockford, id_range, to_base62,
                  to_crockford)

__version__ = "0.1.0"
__all__ = [
    "AsyncIdSource", "AsyncSnowflake", "Attempt", "ClockError", "ClosedError", "IdSource",
    "InvalidAgentError", "Layout", "Parts", "Snowflake", "SnowflakeError", "SnowflakeTimeoutError",
    "Stats", "TWITTER", "UnavailableError", "UnreachableError", "decode", "from_base62",
    "from_crockford", "id_range", "to_base62", "to_crockford",
]
