// SPDX-License-Identifier: Apache-2.0
'use strict';
// The client: what a program calls.
const { ClosedError, InvalidAgentError } = require('./errors');
const { Hand } = require('./hand');
const { Servers } = require('./servers');
const { MAX_BATCH, after } = require('./wire');

const DEFAULT_SERVER = '127.0.0.1:7609';
const LONGEST_MS = 3600000;
const OPTIONS = new Set(['agent', 'timeoutMs', 'prefetchMs', 'maxAgeMs', 'tls', 'bigint']);

/** Unique IDs from one of several servers. index.d.ts has the options. */
class Snowflake {
  #hand;
  #servers;
  #timeoutMs;
  #prefetches;
  #form;
  #calls = []; // that wait, in their order; while there are any, nothing is in hand
  #stopWaiting; // of the timer for the first of them
  #isFetching = false;
  #mayRefill = true; // why it fails, they learn who ask for themselves: until then it is not tried
  #roundTripMs = 0;
  #isClosed = false;

  constructor(servers = DEFAULT_SERVER, options = {}) {
    const list = typeof servers === 'string' ? [servers] : servers;
    if (!Array.isArray(list) || list.length === 0
        || !list.every((server) => typeof server === 'string')) {
      throw new TypeError('servers: not a string, or an array of one string or more');
    }
    const settings = checked(options);
    this.#servers = new Servers(list, settings.agent, settings.tls);
    this.#hand = new Hand(settings.prefetchMs, settings.maxAgeMs);
    this.#timeoutMs = settings.timeoutMs;
    this.#prefetches = settings.prefetchMs > 0;
    this.#form = settings.bigint ? (id) => id : String;
  }

  /** An ID. Those of one caller increase as long as one server answers. */
  nextId() {
    const id = this.#calls.length === 0 ? this.#hand.take() : undefined;
    if (id === undefined) {
      return this.#wait(1, (ids) => ids[0], []);
    }
    if (this.#hand.isLow && this.#mayRefill && !this.#isFetching) {
      this.#fetch();
    }
    return Promise.resolve(this.#form(id));
  }

  /** As many IDs, increasing as those of nextId() do; all of them, or none. */
  nextIds(count) {
    if (!Number.isSafeInteger(count) || count < 1) {
      return Promise.reject(new RangeError(`count ${String(count)}: not an integer of 1 or more`));
    }
    this.#hand.age();
    // what is in hand comes first, since it is older
    const ids = this.#hand.takeMany(count).map((id) => this.#form(id));
    return this.#wait(count, (all) => all, ids);
  }

  /** Calls under way end at once, later ones fail, with ClosedError. What is in hand is lost. */
  close() {
    this.#isClosed = true;
    this.#hand.drop();
    this.#servers.close();
    this.#fail(this.#calls, new ClosedError('the client was closed during the call'));
  }

  #wait(count, answer, ids) {
    if (this.#isClosed) {
      return Promise.reject(new ClosedError('the client is closed'));
    }
    if (ids.length === count) {
      return Promise.resolve(answer(ids));
    }
    return new Promise((resolve, reject) => {
      const deadline = performance.now() + this.#timeoutMs;
      this.#calls.push({ count, ids, answer, deadline, resolve, reject });
      if (this.#calls.length === 1) {
        this.#watch();
      }
      if (!this.#isFetching) {
        this.#fetch();
      }
    });
  }

  /** The timer keeps the process alive meanwhile. */
  #watch() {
    this.#stopWaiting?.();
    this.#stopWaiting = undefined;
    if (this.#calls.length > 0) {
      const first = this.#calls.reduce((least, call) => Math.min(least, call.deadline), Infinity);
      this.#stopWaiting = after(first - performance.now(), () => this.#expire(),
        { keepsAlive: true });
    }
  }

  #expire() {
    const now = performance.now();
    const late = this.#calls.filter((call) => call.deadline <= now);
    if (late.length > 0) {
      this.#fail(late, this.#servers.overdue());
    }
    this.#watch();
  }

  #fail(calls, error) {
    const failed = new Set(calls);
    this.#calls = this.#calls.filter((call) => !failed.has(call));
    this.#watch();
    for (const call of failed) {
      call.reject(error);
    }
  }

  async #fetch() {
    this.#isFetching = true;
    do {
      const waiting = [...this.#calls];
      try {
        await this.#fetchOnce(waiting);
      } catch (error) {
        this.#mayRefill = false;
        this.#fail(waiting, error);
      }
    } while (this.#calls.length > 0);
    this.#isFetching = false;
  }

  /** What calls wait for, and what is to be in hand. */
  async #fetchOnce(waiting) {
    let wanted = this.#prefetches ? this.#hand.wanted(this.#roundTripMs) : 0;
    const missing = waiting.reduce((sum, call) => sum + call.count - call.ids.length, 0);
    wanted = Math.min(Math.max(wanted, missing), MAX_BATCH);
    const runs = await this.#servers.fetch(wanted, this.#deadlineOf(waiting));
    if (this.#isClosed) {
      return;
    }
    this.#roundTripMs = performance.now() - this.#servers.askedAt;
    this.#mayRefill = true;
    this.#hand.put(runs, this.#servers.askedAt);
    this.#serve();
    if (!this.#prefetches) {
      this.#hand.drop();
    }
  }

  /** That of the call which came last: one that has little left may not keep others from theirs. */
  #deadlineOf(calls) {
    return calls.length === 0 ? performance.now() + this.#timeoutMs
      : calls.reduce((latest, call) => Math.max(latest, call.deadline), 0);
  }

  #serve() {
    let served = 0;
    const unfinished = [];
    while (served < this.#calls.length && this.#hand.left > 0) {
      const call = this.#calls[served];
      const ids = this.#hand.takeMany(call.count - call.ids.length, call.count === 1);
      ids.forEach((id) => call.ids.push(this.#form(id)));
      if (call.ids.length < call.count) {
        unfinished.push(call);
      } else {
        call.resolve(call.answer(call.ids));
      }
      served += 1;
    }
    if (served > 0) { // who wants more than a batch waits behind those who came meanwhile
      this.#calls = [...this.#calls.slice(served), ...unfinished];
      this.#watch();
    }
  }
}

/** The options with their defaults; InvalidAgentError, TypeError or RangeError. */
function checked(options) {
  const unknown = Object.keys(options).find((name) => !OPTIONS.has(name));
  if (unknown !== undefined) {
    throw new TypeError(`option ${unknown}: not one of ${[...OPTIONS].join(', ')}`);
  }
  const { agent, timeoutMs = 3000, prefetchMs = 50, maxAgeMs = 1000, tls, bigint } = options;
  if (typeof agent !== 'string' || !/^[a-zA-Z][a-zA-Z\-0-9]{0,255}$/.test(agent)) {
    throw new InvalidAgentError(`agent ${JSON.stringify(String(agent).slice(0, 40))}: not a letter `
      + 'and then letters, figures and "-", 256 at most');
  }
  checkMs('timeoutMs', timeoutMs, 1);
  checkMs('prefetchMs', prefetchMs, 0);
  checkMs('maxAgeMs', maxAgeMs, Math.max(1, 2 * prefetchMs), ', twice prefetchMs or more');
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw new TypeError('tls: not an object, of options for tls.connect()');
  }
  return { agent, timeoutMs, prefetchMs, maxAgeMs, tls, bigint };
}

function checkMs(name, value, least, more = '') {
  if (typeof value !== 'number' || !(value >= least && value <= LONGEST_MS)) {
    throw new RangeError(`${name} ${String(value)}: not ${least} to ${LONGEST_MS}${more}`);
  }
}

module.exports = { Snowflake };
