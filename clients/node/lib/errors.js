// SPDX-License-Identifier: Apache-2.0
'use strict';
// Errors of calls, which index.d.ts documents, and failures of attempts, from which they are made.
// Arguments that are not valid are a TypeError or a RangeError.
const MAX_REASON_CHARACTERS = 200;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The cause is that of the last attempt that has one. */
class SnowflakeError extends Error {
  constructor(message, attempts = [], retryAfterMs = undefined) {
    const { cause } = attempts.findLast((one) => one.cause !== undefined) ?? {};
    super(message, cause && { cause });
    this.attempts = attempts;
    this.retryAfterMs = retryAfterMs;
  }
}

class UnavailableError extends SnowflakeError {}
class ClockError extends SnowflakeError {}
class InvalidAgentError extends SnowflakeError {}
class UnreachableError extends SnowflakeError {}
class SnowflakeTimeoutError extends SnowflakeError {}
class ClosedError extends SnowflakeError {}
const types = {
  SnowflakeError, UnavailableError, ClockError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError,
};

for (const [name, type] of Object.entries(types)) { // ERR_SNOWFLAKE_INVALID_AGENT
  const code = name.replace(/Snowflake|Error/g, '').replace(/(?=[A-Z])/g, '_').toUpperCase();
  for (const [key, value] of Object.entries({ name, code: `ERR_SNOWFLAKE${code}` })) {
    Object.defineProperty(type.prototype, key, { value, writable: true, configurable: true });
  }
}

/** Why an attempt returned no IDs. `kind`: clock, unavailable, agent, timeout, unreachable, or
 * method or count if the server does not support the call. */
class Failure extends Error {
  constructor(kind, reason, { cause, retryAfterMs, isStale = false } = {}) {
    super(reason.slice(0, MAX_REASON_CHARACTERS).replace(UNPRINTABLE, ' '), { cause });
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.isStale = isStale; // a reused connection ended, as after a restart of the server
  }
}

/** Returns the error of a call: of the failures, the kind that tells the user most. */
function errorOf(failures, attempts, agent, timeoutMs) {
  const [type, text] = [
    ['agent', InvalidAgentError, `a server refused the agent ${agent}`],
    ['unavailable', UnavailableError, `no server had IDs within ${timeoutMs} ms`],
    ['clock', ClockError, `no server had a valid clock within ${timeoutMs} ms`],
    ['timeout', SnowflakeTimeoutError, `no server answered within ${timeoutMs} ms`],
  ].find(([kind]) => failures.some((failure) => failure.kind === kind))?.slice(1)
    ?? [UnreachableError, `no server could be reached within ${timeoutMs} ms`];
  const waits = failures.map((failure) => failure.retryAfterMs).filter((ms) => ms !== undefined);
  return new type(`${text}: ${attempts.map((one) => `${one.server}: ${one.reason}`).join('; ')}`,
    attempts, waits.length > 0 ? Math.min(...waits) : undefined);
}

module.exports = { ...types, Failure, errorOf };
