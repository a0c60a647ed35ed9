# SPDX-License-Identifier: Apache-2.0
"""Unique IDs that sort by time, from a Snowflake server.

    from snowflake_client import Snowflake

    with Snowflake("127.0.0.1:7609", agent="my-program") as client:
        print(client.next_id())
"""
from .aio import AsyncSnowflake
from .client import Snowflake
from .errors import (Attempt, ClockError, ClosedError, InvalidAgentError, SnowflakeError,
                     SnowflakeTimeoutError, UnavailableError, UnreachableError)
from .ids import (TWITTER, Layout, Parts, decode, from_base62, from_crockford, id_range, to_base62,
                  to_crockford)

__version__ = "0.1.0"
__all__ = [
    "AsyncSnowflake", "Attempt", "ClockError", "ClosedError", "InvalidAgentError", "Layout",
    "Parts", "Snowflake", "SnowflakeError", "SnowflakeTimeoutError", "TWITTER", "UnavailableError",
    "UnreachableError", "decode", "from_base62", "from_crockford", "id_range", "to_base62",
    "to_crockford",
]
