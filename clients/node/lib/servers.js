// SPDX-License-Identifier: Apache-2.0
'use strict';
// The servers of a client: which one is asked, and when those that failed are asked again.
const net = require('node:net');
const tls = require('node:tls');
const {
  ClockError, ClosedError, InvalidAgentError, SnowflakeTimeoutError, UnavailableError,
  UnreachableError,
} = require('./errors');
const { Server, shuffle } = require('./place');
const { Connection, Failure } = require('./wire');

/** One fetch at a time. */
class Servers {
  #servers;
  #agent;
  #tls; // options of tls.connect()
  #current = 0;
  #link; // the connection that there is, and to what: {connection, server, place}
  #deadline = 0; // of the fetch under way
  #isClosed = false;
  #interrupt = () => {};
  #asking; // the server that is asked now: {server, since}
  #failures = []; // of the fetch that is, or was last: {server, failure}
  askedAt = 0; // when the last fetch sent its last call

  /** Throws TypeError. */
  constructor(servers, agent, tlsOptions) {
    this.#servers = [...new Set(servers)].map((text) => new Server(text));
    shuffle(this.#servers); // those of a server that dies do not all turn to the same one
    this.#agent = agent;
    if (this.#servers.some((server) => server.isTls)) {
      this.#tls = { secureContext: secureContext(tlsOptions), ...tlsOptions };
    }
  }

  /**
   * Runs of IDs, at least one ID and `count` at most. Each server is asked once at most: the one
   * that answered last and those after it, then those that rest, which rest longest first. Rejects
   * with a SnowflakeError.
   */
  async fetch(count, deadline) {
    if (performance.now() >= deadline) { // of the wait for the fetch before
      throw this.overdue();
    }
    this.#deadline = deadline;
    this.#failures = [];
    const turned = [...this.#servers.slice(this.#current), ...this.#servers.slice(0, this.#current)];
    const order = turned.map((server) => ({ server, until: server.restsUntil }))
      .sort((one, other) => one.until - other.until).map(({ server }) => server);
    try {
      for (const server of order) {
        this.#asking = { server, since: performance.now() };
        const runs = await this.#ask(server, count, server === order.at(-1));
        if (runs !== undefined) {
          this.#current = this.#servers.indexOf(server);
          return runs;
        }
        if (this.#isOver) {
          break;
        }
      }
    } finally {
      this.#asking = undefined;
      this.#interrupt = () => {};
    }
    if (this.#failures.length === 0) {
      this.#note(order[0], new Failure('timeout', 'no time was left to ask it'));
    }
    throw errorOf(this.#failures, this.#isOver);
  }

  get #isOver() {
    return performance.now() >= this.#deadline;
  }

  /** undefined: it failed. It may take half of the time that is left, the last one all of it; and
   * so may each of its places of that. */
  async #ask(server, count, isLast) {
    const deadline = shareOf(this.#deadline, isLast);
    const linked = this.#linked(server);
    let failure;
    if (linked !== undefined) {
      const isOnly = server.places.length === 1 && !server.isName; // a name may have moved
      const answer = await this.#askPlace(server, linked, count, shareOf(deadline, isOnly));
      if (answer.runs !== undefined) {
        return answer.runs;
      }
      ({ failure } = answer);
    }
    if (server.isName && performance.now() < deadline) {
      await this.#lookUp(server, shareOf(deadline, server.places.length === 0));
    }
    const places = server.placesAfter(linked, failure);
    for (const place of places) {
      if (performance.now() >= deadline) {
        break;
      }
      const share = shareOf(deadline, place === places.at(-1));
      const { runs } = await this.#askPlace(server, place, count, share);
      if (runs !== undefined) {
        return runs;
      }
    }
    return undefined;
  }

  /** The place of its that there is a connection to. */
  #linked(server) {
    const link = this.#link;
    return link?.server === server && link.connection.isOpen ? link.place : undefined;
  }

  async #lookUp(server, deadline) {
    try {
      await server.lookUp(deadline, (interrupt) => this.#mayInterrupt(interrupt));
    } catch (failure) {
      this.#note(server, failure);
    }
  }

  /** {runs} or {failure}. */
  async #askPlace(server, place, count, deadline) {
    try {
      const runs = await this.#call(server, place, count, deadline);
      place.rest.end();
      return { runs };
    } catch (failure) {
      if (!(failure instanceof Failure)) {
        throw failure;
      }
      if (failure.isStale) { // that says nothing of the place
        return { failure };
      }
      const where = server.isName ? `${place.options.host}: ` : '';
      this.#note(server, failure, where);
      if (failure.kind === 'agent') { // it is as wrong elsewhere
        throw new InvalidAgentError(messageOf(`the agent ${this.#agent} is refused`, this.#failures),
          attemptsOf(this.#failures));
      }
      place.rest.begin();
      return { failure };
    }
  }

  async #call(server, place, count, deadline) {
    const connection = await this.#connected(server, place, deadline);
    this.askedAt = performance.now();
    return connection.runs(this.#agent, count, place.habits, deadline);
  }

  async #connected(server, place, deadline) {
    let connection = this.#link?.connection;
    if (this.#link?.place !== place || !connection.isOpen) {
      this.#disconnect();
      connection = new Connection();
      this.#link = { connection, server, place };
      this.#mayInterrupt(() => connection.close(new Failure('timeout', 'no answer in time')));
      await connection.open(this.#optionsOf(server, place), server.isTls, deadline);
    } else {
      this.#mayInterrupt(() => connection.close(new Failure('timeout', 'no answer in time')));
    }
    return connection;
  }

  #optionsOf(server, place) {
    if (!server.isTls) {
      return place.options;
    }
    const { host, isName, tlsName } = server;
    const name = isName ? { servername: tlsName } : {
      checkServerIdentity: (asked, certificate) => tls.checkServerIdentity(
        asked === host ? tlsName : asked, certificate),
    };
    return { ...name, ...this.#tls, ...place.options };
  }

  #mayInterrupt(interrupt) {
    if (this.#isClosed) {
      throw new ClosedError('the client is closed');
    }
    this.#interrupt = interrupt;
  }

  #note(server, failure, where = '') {
    if (this.#isClosed) { // that is why
      throw new ClosedError('the client was closed during the call');
    }
    if (!(failure instanceof Failure)) {
      throw failure;
    }
    failure.message = where + failure.message;
    this.#failures.push({ server, failure });
  }

  /** For a call whose deadline comes before the end of the fetch. */
  overdue() {
    const failures = [...this.#failures];
    if (this.#asking !== undefined) {
      const tookMs = Math.round(performance.now() - this.#asking.since);
      const failure = new Failure('timeout', `no answer within ${tookMs} ms`);
      failures.push({ server: this.#asking.server, failure });
    }
    return errorOf(failures, true);
  }

  /** The fetch under way ends now. */
  close() {
    this.#isClosed = true;
    this.#interrupt();
    this.#disconnect();
  }

  #disconnect() {
    this.#link?.connection.close();
    this.#link = undefined;
  }
}

function shareOf(deadline, isLast) {
  return isLast ? deadline : (performance.now() + deadline) / 2;
}

/** Throws TypeError. What is no PEM in `ca` would be passed over, and no server be believed. */
function secureContext(options = {}) {
  for (const name of ['ca', 'cert', 'key']) {
    for (const text of [options[name] ?? []].flat()) {
      if (!String(text.pem ?? text).includes('-----BEGIN ')) {
        throw new TypeError(`tls: ${name} is not the contents of a PEM file`);
      }
    }
  }
  try {
    return tls.createSecureContext(options);
  } catch (error) {
    throw new TypeError(`tls: ca, cert and key do not go together: ${error.message}`);
  }
}

function attemptsOf(failures) {
  return failures.map(({ server, failure }) => ({ server: server.text, reason: failure.message }));
}

function messageOf(what, failures) {
  return `${what}: ${attemptsOf(failures).map(({ server, reason }) => `${server}: ${reason}`)
    .join('; ')}`;
}

function errorOf(failures, isOver) {
  const kinds = new Set(failures.map(({ failure }) => failure.kind));
  const attempts = attemptsOf(failures);
  if (kinds.has('unavailable')) {
    const waits = failures.map(({ failure }) => failure.retryAfterMs)
      .filter((ms) => ms !== undefined);
    return new UnavailableError(messageOf('no server has IDs now', failures), attempts,
      waits.length > 0 ? Math.min(...waits) : undefined);
  }
  if (kinds.has('clock')) {
    return new ClockError(messageOf('no server has a clock to go by', failures), attempts);
  }
  if (isOver || (kinds.size === 1 && kinds.has('timeout'))) {
    return new SnowflakeTimeoutError(messageOf('no answer within the deadline', failures), attempts);
  }
  return new UnreachableError(messageOf('no server can be reached', failures), attempts);
}

module.exports = { Servers };
