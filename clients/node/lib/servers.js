// SPDX-License-Identifier: Apache-2.0
'use strict';
// Fetches IDs from one of several servers. An attempt that has no answer in time is late: the next
// one begins at the same time, and the first answer wins. While all fail, attempts are paced by backoffs.
const { channel } = require('node:diagnostics_channel');
const { Alarm } = require('./alarm');
const { Connection } = require('./connection');
const { Server, shuffled } = require('./endpoints');
const { Failure, errorOf } = require('./errors');

const ROUND_TRIPS = 8; // of an attempt, within the attempt timeout
const LEAST_SHARE = 0.4; // of the attempt timeout, however near the server is
const LIMIT = 10; // attempt timeouts, after which an attempt ends
const failed = channel('snowflake-client:attempt-failed');
const failedOver = channel('snowflake-client:failover');

/** One fetch at a time. */
class Servers {
  roundTripMs = Infinity; // of the last answer
  failures = 0; // attempts that failed or were late, since the start
  failovers = 0;
  refusal; // of the agent: the other servers would refuse it too
  #servers; // the one that answered last comes first
  #agent;
  #attemptTimeoutMs;
  #attemptLimitMs;
  #kept; // the connection that answered last: {connection, endpoint}
  #last; // the endpoint that answered last
  #attempts = new Set(); // under way, at most one of them not late
  #reasons = new Map(); // why there was no answer since the last one: by endpoint, in order
  #answer; // the attempt that won
  #wake = () => {};
  #alarm = new Alarm(() => this.#wake());
  #isClosed = false;

  /** Throws TypeError. */
  constructor(servers, { agent, timeoutMs, attemptTimeoutMs, tls }) {
    // in random order, so that the clients of one that fails do not all use the same next one
    this.#servers = shuffled([...new Set(servers)].map((text) => new Server(text, tls)));
    this.#agent = agent;
    this.#attemptTimeoutMs = attemptTimeoutMs;
    this.#attemptLimitMs = Math.min(LIMIT * attemptTimeoutMs, timeoutMs);
  }

  /** The endpoint that answered last, or undefined. */
  get current() {
    return this.#last?.name;
  }

  /**
   * Resolves to {runs, askedAt}: at least one ID, `count` at most. Resolves to undefined if a server
   * refuses the agent, at `deadline()`, which can move, and if all servers have failed while no call
   * is waiting (`isAwaited()`).
   */
  async fetch(count, deadline, isAwaited) {
    this.#answer = this.refusal = undefined;
    while (!this.#isClosed && this.refusal === undefined && performance.now() < deadline()) {
      const nextAt = this.#advance(count);
      if (this.#attempts.size === 0 && !isAwaited()) {
        break;
      }
      this.#alarm.set(Math.min(nextAt, deadline()));
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
      if (this.#answer !== undefined && !this.#isClosed) {
        this.#win();
        break;
      }
    }
    this.#alarm.set(Infinity);
    this.#answer = this.#isClosed ? undefined : this.#answer;
    if (this.#answer === undefined) {
      this.#reasons = this.#pendingReasons();
    }
    this.#attempts.forEach((attempt) => this.#end(attempt));
    return this.#answer;
  }

  /** Begins an attempt unless there is one that is not late. Returns when to call this again. */
  #advance(count) {
    const now = performance.now();
    for (const attempt of this.#attempts) {
      if (now >= attempt.endsAt) {
        this.#fail(attempt, timeoutOf(attempt));
      } else if (now >= attempt.lateAt && !attempt.isLate) {
        attempt.isLate = true;
        this.#note(attempt, timeoutOf(attempt));
      }
    }
    const isAnyInTime = [...this.#attempts].some(({ isLate }) => !isLate);
    let nextAt = isAnyInTime ? Infinity : this.#begin(count, now);
    for (const { isLate, lateAt, endsAt } of this.#attempts) {
      nextAt = Math.min(nextAt, endsAt, isLate ? Infinity : lateAt);
    }
    return nextAt;
  }

  /** Returns when an attempt can begin, if none can now. */
  #begin(count, now) {
    // an endpoint whose reused connection is silent can be tried on a new one
    const isBusy = (one) => [...this.#attempts].some(({
      server, endpoint = server, isReused, isLate,
    }) => endpoint === one && !(isReused && isLate));
    const kept = this.#kept?.connection.isOpen ? this.#kept : undefined;
    this.#kept = undefined;
    const server = kept?.endpoint.server
      ?? this.#servers.find((one) => one.readyAt(isBusy) <= now);
    if (server === undefined) {
      return Math.min(...this.#servers.map((one) => one.readyAt(isBusy)));
    }
    const timeoutMs = Math.min(this.#attemptTimeoutMs,
      Math.max(ROUND_TRIPS * this.roundTripMs, LEAST_SHARE * this.#attemptTimeoutMs));
    const attempt = {
      server,
      ...kept,
      isReused: kept !== undefined,
      isLate: false,
      lateAt: now + timeoutMs,
      endsAt: now + this.#attemptLimitMs,
    };
    this.#attempts.add(attempt);
    this.#ask(attempt, count, isBusy).catch((error) => this.#fail(attempt, error));
    return Infinity;
  }

  async #ask(attempt, count, isBusy) {
    const { server } = attempt;
    if (!attempt.isReused) {
      if (server.isName) {
        await server.resolve().catch((failure) => this.#note(attempt, failure));
      }
      attempt.endpoint = this.#attempts.has(attempt) ? server.choose(isBusy) : undefined;
      if (attempt.endpoint === undefined) {
        this.#end(attempt);
        return;
      }
      attempt.connection = new Connection(attempt.endpoint);
    }
    attempt.askedAt = performance.now();
    attempt.runs = await attempt.connection.fetch(this.#agent, count);
    if (this.#attempts.has(attempt) && this.#answer === undefined) {
      this.#answer = attempt;
      this.#wake();
    }
  }

  /** Its connection closes, except that of the answer. */
  #end(attempt) {
    this.#attempts.delete(attempt);
    if (attempt !== this.#answer) {
      attempt.connection?.close();
    }
    this.#wake();
  }

  #fail(attempt, error) {
    if (this.#attempts.has(attempt)) {
      const failure = error instanceof Failure ? error
        : new Failure('unreachable', error.message, { cause: error });
      if (!(attempt.isReused && failure.isStale)) {
        this.#note(attempt, failure);
        const isOther = this.#servers.some((one) => one.readyAt(() => false) <= performance.now());
        if (attempt.isReused && failure.kind === 'unreachable' && !isOther) {
          attempt.endpoint.backoff.until = 0; // a new connection can be better
        }
      }
      this.refusal ??= failure.kind === 'agent' ? failure : undefined;
      this.#end(attempt);
    }
  }

  #note({ server, endpoint = server }, failure) {
    this.failures += 1;
    endpoint.backoff.begin(failure.retryAfterMs);
    this.#reasons.delete(endpoint); // so that it comes last
    this.#reasons.set(endpoint, failure);
    failed.publish(attemptOf([endpoint, failure]));
  }

  #win() {
    const { endpoint, connection, askedAt } = this.#answer;
    const from = this.#last;
    this.roundTripMs = performance.now() - askedAt;
    this.#kept = { connection, endpoint };
    this.#last = endpoint;
    endpoint.backoff.end();
    if (from !== endpoint) {
      this.#servers.push(...this.#servers.splice(0, this.#servers.indexOf(endpoint.server)));
    }
    if (from !== undefined && from !== endpoint) {
      this.failovers += 1;
      failedOver.publish({
        from: from.name, to: endpoint.name, attempts: [...this.#reasons].map(attemptOf),
      });
    }
    this.#attempts.delete(this.#answer);
    this.#reasons.clear();
  }

  #pendingReasons() {
    const pending = [...this.#attempts].map((attempt) => [attempt.endpoint ?? attempt.server,
      timeoutOf(attempt)]);
    return new Map([...pending, ...this.#reasons]);
  }

  /** Returns why a call has no IDs after `timeoutMs`. */
  error(timeoutMs) {
    const reasons = [...this.#pendingReasons()];
    return errorOf(reasons.map(([, failure]) => failure), reasons.map(attemptOf), this.#agent,
      timeoutMs);
  }

  /** The fetch under way ends now. */
  close() {
    this.#isClosed = true;
    this.#kept?.connection.close();
    this.#wake();
  }
}

function timeoutOf({ connection }) {
  return new Failure('timeout', connection?.waitsFor ?? 'its name is not resolved');
}

function attemptOf([{ server, prefix }, { message, cause }]) {
  return { server: server.text, reason: prefix + message, cause };
}

module.exports = { Servers };
