// SPDX-License-Identifier: Apache-2.0
'use strict';
// Errors of calls; index.d.ts documents them. Arguments that are not valid are a TypeError or a
// RangeError.

/** `attempts`: [{server, reason, cause}]. The cause is that of the last attempt that has one. */
class SnowflakeError extends Error {
  constructor(message, attempts = []) {
    const { cause } = attempts.findLast((one) => one.cause !== undefined) ?? {};
    super(message, cause && { cause });
    this.attempts = attempts;
  }
}

class UnavailableError extends SnowflakeError {
  constructor(message, attempts, retryAfterMs) {
    super(message, attempts);
    this.retryAfterMs = retryAfterMs;
  }
}

class ClockError extends SnowflakeError {}
class InvalidAgentError extends SnowflakeError {}
class UnreachableError extends SnowflakeError {}
class SnowflakeTimeoutError extends SnowflakeError {}
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

/** Returns the error of a call for which these attempts failed: the kind that tells the user most. */
function errorOf(failures, attempts, agent, timeoutMs) {
  const described = (what) => [`${what}: ${attempts.map(({ server, reason }) => `${server}: ${reason}`)
    .join('; ')}`, attempts];
  const has = (kind) => failures.some((failure) => failure.kind === kind);
  if (has('agent')) {
    return new InvalidAgentError(...described(`a server refused the agent ${agent}`));
  }
  if (has('unavailable')) {
    const waits = failures.map(({ retryAfterMs }) => retryAfterMs).filter((ms) => ms !== undefined);
    return new UnavailableError(...described(`no server had IDs within ${timeoutMs} ms`),
      waits.length > 0 ? Math.min(...waits) : undefined);
  }
  if (has('clock')) {
    return new ClockError(...described(`no server had a valid clock within ${timeoutMs} ms`));
  }
  return has('timeout') || failures.length === 0
    ? new SnowflakeTimeoutError(...described(`no server answered within ${timeoutMs} ms`))
    : new UnreachableError(...described(`no server could be reached within ${timeoutMs} ms`));
}

module.exports = {
  SnowflakeError, ClockError, UnavailableError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError, errorOf,
};
