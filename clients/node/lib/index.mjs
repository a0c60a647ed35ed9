// SPDX-License-Identifier: Apache-2.0
import client from './index.js';

export const {
  Snowflake, SnowflakeError, ClockError, UnavailableError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError, Layout, TWITTER, decode, range, toBase62, fromBase62,
  toCrockford, fromCrockford,
} = client;
