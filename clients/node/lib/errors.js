// SPDX-License-Identifier: Apache-2.0
'use strict';
// What may go wrong. Arguments that cannot be are a TypeError or a RangeError, as everywhere.

/** No ID was to be had. The message is one line that names each server and why. */
class SnowflakeError extends Error {
  /** attempts: [{server, reason}], in the order in which they were made. */
  constructor(message, attempts = []) {
    super(message);
    this.attempts = attempts;
  }
}

/** The clock of a server is behind its IDs, or outside the layout. */
class ClockError extends SnowflakeError {}

/** A server has no worker ID, or no IDs for the present time. */
class UnavailableError extends SnowflakeError {
  /** retryAfterMs: the least that a server said; undefined: none did. */
  constructor(message, attempts, retryAfterMs) {
    super(message, attempts);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The agent is not a letter and then letters, figures and "-", 256 at most; or is refused. */
class InvalidAgentError extends SnowflakeError {}

/** No server could be connected to, or answered as one. */
class UnreachableError extends SnowflakeError {}

/** The deadline of the call was over first. */
class SnowflakeTimeoutError extends SnowflakeError {}

/** The client is closed. */
class ClosedError extends SnowflakeError {}

for (const [type, code] of [
  [SnowflakeError, 'ERR_SNOWFLAKE'],
  [ClockError, 'ERR_SNOWFLAKE_CLOCK'],
  [UnavailableError, 'ERR_SNOWFLAKE_UNAVAILABLE'],
  [InvalidAgentError, 'ERR_SNOWFLAKE_INVALID_AGENT'],
  [UnreachableError, 'ERR_SNOWFLAKE_UNREACHABLE'],
  [SnowflakeTimeoutError, 'ERR_SNOWFLAKE_TIMEOUT'],
  [ClosedError, 'ERR_SNOWFLAKE_CLOSED'],
]) {
  Object.defineProperties(type.prototype, {
    name: { value: type.name, writable: true, configurable: true },
    code: { value: code, writable: true, configurable: true },
  });
}

module.exports = {
  SnowflakeError, ClockError, UnavailableError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError,
};
