// SPDX-License-Identifier: Apache-2.0
'use strict';
// The client: calls take IDs from the buffer or wait for the refill, of which one runs at a time.
const path = require('node:path');
const tls = require('node:tls');
const { Alarm } = require('./alarm');
const { Buffer: IdBuffer } = require('./buffer');
const { MAX_BATCH } = require('./codec');
const { ClosedError, InvalidAgentError } = require('./errors');
const { Servers } = require('./servers');

const DEFAULT_SERVERS = '127.0.0.1:7609';
const MAX_MS = 3600000;
const DEFAULTS = {
  agent: undefined, timeoutMs: 3000, attemptTimeoutMs: 250, prefetchMs: 50, maxAgeMs: 1000,
  tls: undefined, bigint: false,
};
const URL_OPTIONS = new Map([ // the same in the packages of all languages
  ['agent', 'agent'], ['timeout_ms', 'timeoutMs'], ['attempt_timeout_ms', 'attemptTimeoutMs'],
  ['prefetch_ms', 'prefetchMs'], ['max_age_ms', 'maxAgeMs'],
]);

/** Unique IDs from one of several servers. index.d.ts documents it. */
class Snowflake {
  #buffer;
  #servers;
  #settings;
  #form;
  #calls = new Set(); // that wait, oldest first; meanwhile the buffer is empty
  #expiry = new Alarm(() => this.#expire()); // at the first deadline of all calls, or before
  #deadline = 0; // the last one of all calls, of performance.now()
  #isRefilling = false;
  #canPrefetch = true; // a refill for which no call is waiting is not retried after a failure
  #refills = 0;
  #isClosed = false;

  constructor(servers, options) {
    const [list, settings] = checked(servers ?? (process.env.SNOWFLAKE_SERVERS || DEFAULT_SERVERS),
      options);
    this.#servers = new Servers(list, settings);
    this.#buffer = new IdBuffer(settings.prefetchMs, settings.maxAgeMs);
    this.#settings = settings;
    this.#form = settings.bigint ? (id) => id : String;
  }

  nextId(options) {
    const id = this.#calls.size === 0 && !options?.signal?.aborted ? this.#buffer.take() : undefined;
    if (id === undefined) {
      return this.#wait(1, [], options, true);
    }
    this.#prefetch();
    return Promise.resolve(this.#form(id));
  }

  async nextIds(count, options) {
    checkCount(count);
    options?.signal?.throwIfAborted();
    this.#buffer.discardOld();
    const ids = this.#buffer.takeMany(count).map(this.#form);
    if (ids.length < count || this.#isClosed) {
      return this.#wait(count, ids, options, false);
    }
    this.#prefetch();
    return ids;
  }

  stats() {
    const { left: prefetched, taken, discarded } = this.#buffer;
    const { failures, failovers, current: server } = this.#servers;
    return {
      server, prefetched, taken, discarded, waiting: this.#calls.size, refills: this.#refills,
      failures, failovers,
    };
  }

  [Symbol.dispose ?? Symbol('dispose')]() { // Node has it from 18.18
    this.close();
  }

  close() {
    this.#isClosed = true;
    this.#buffer.clear();
    this.#servers.close();
    this.#fail(() => new ClosedError('the client was closed during the call'));
  }

  #wait(count, ids, { signal, timeoutMs = this.#settings.timeoutMs } = {}, isSingle) {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        throw new ClosedError('the client is closed');
      }
      signal?.throwIfAborted();
      checkMs('timeoutMs', timeoutMs, 1);
      const call = {
        count, ids, isSingle, timeoutMs, resolve, reject, signal,
        deadline: performance.now() + timeoutMs,
      };
      if (signal) {
        call.abort = () => this.#fail(() => signal.reason, (one) => one === call);
        signal.addEventListener('abort', call.abort);
      }
      this.#deadline = Math.max(this.#deadline, call.deadline);
      this.#calls.add(call);
      this.#expiry.set(Math.min(this.#expiry.at, call.deadline));
      this.#expiry.keepAlive(true);
      this.#refill();
    });
  }

  #expire() {
    const now = performance.now();
    this.#fail((call) => this.#servers.error(call.timeoutMs), (call) => call.deadline <= now);
    this.#expiry.set([...this.#calls].reduce((least, call) => Math.min(least, call.deadline),
      Infinity));
  }

  /** The call no longer waits. */
  #settle(call) {
    call.signal?.removeEventListener('abort', call.abort);
    this.#calls.delete(call);
    this.#expiry.keepAlive(this.#calls.size > 0);
  }

  #fail(errorOf, isFailed = () => true) {
    for (const call of this.#calls) {
      if (isFailed(call)) {
        this.#settle(call);
        call.reject(errorOf(call));
      }
    }
  }

  #prefetch() {
    if (this.#buffer.isLow && this.#canPrefetch) {
      this.#refill();
    }
  }

  async #refill() {
    if (!this.#isRefilling) {
      this.#isRefilling = true;
      do {
        await this.#fetch();
      } while (this.#calls.size > 0);
      this.#isRefilling = false;
    }
  }

  async #fetch() {
    const { timeoutMs, prefetchMs } = this.#settings;
    const waiting = [...this.#calls];
    const missing = waiting.reduce((sum, call) => sum + call.count - call.ids.length, 0);
    const forBuffer = prefetchMs > 0 && (waiting.length === 0 || waiting.some((call) => call.isSingle))
      ? this.#buffer.wanted(this.#servers.roundTripMs) : 0;
    this.#deadline = Math.max(this.#deadline, performance.now() + timeoutMs);
    const answer = await this.#servers.fetch(Math.min(Math.max(forBuffer, missing), MAX_BATCH),
      () => this.#deadline, () => this.#calls.size > 0);
    this.#canPrefetch = answer !== undefined;
    if (this.#isClosed) {
      return;
    }
    if (answer === undefined) {
      const now = this.#servers.refusal === undefined ? performance.now() : Infinity;
      this.#fail((call) => this.#servers.error(call.timeoutMs), (call) => call.deadline <= now);
      return;
    }
    this.#refills += 1;
    this.#buffer.put(answer.runs, answer.askedAt);
    this.#serve();
    if (prefetchMs === 0) {
      this.#buffer.clear();
    }
  }

  #serve() {
    for (const call of this.#calls) {
      if (this.#buffer.left === 0) {
        return;
      }
      const { count, ids, isSingle, resolve } = call;
      this.#buffer.takeMany(count - ids.length, isSingle).forEach((id) => ids.push(this.#form(id)));
      if (ids.length === count) {
        this.#settle(call);
        resolve(isSingle ? ids[0] : ids);
      } else { // it waits after the other calls
        this.#calls.delete(call);
        this.#calls.add(call);
      }
    }
  }
}

/** Returns [servers, settings]. Throws InvalidAgentError, TypeError or RangeError. */
function checked(given, options = {}) {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(DEFAULTS, name));
  if (unknown !== undefined) {
    throw new TypeError(`option ${unknown}: must be one of ${Object.keys(DEFAULTS).join(', ')}`);
  }
  const urls = [given].flat().map(parseUrl);
  const servers = urls.flatMap((url) => url.servers);
  const settings = {
    ...DEFAULTS,
    agent: programName(),
    ...Object.fromEntries([...urls.flatMap((url) => url.options),
      ...Object.entries(options).filter(([, value]) => value !== undefined)]),
  };
  const { agent, prefetchMs } = settings;
  if (servers.length === 0) {
    throw new TypeError('servers: must be a string, or an array of at least one string');
  }
  if (typeof agent !== 'string' || !/^[a-zA-Z][a-zA-Z\-0-9]{0,255}$/.test(agent)) {
    throw new InvalidAgentError(`agent ${JSON.stringify(String(agent).slice(0, 40))}: must be a `
      + 'letter and then letters, digits and "-", at most 256');
  }
  checkMs('timeoutMs', settings.timeoutMs, 1);
  checkMs('attemptTimeoutMs', settings.attemptTimeoutMs, 1);
  checkMs('prefetchMs', prefetchMs, 0);
  checkMs('maxAgeMs', settings.maxAgeMs, Math.max(1, 2 * prefetchMs));
  settings.tls = servers.some((one) => one.startsWith('tls:')) || settings.tls !== undefined
    ? { secureContext: secureContextOf(settings.tls), ...settings.tls } : undefined;
  return [servers, settings];
}

function checkCount(count) {
  if (!Number.isSafeInteger(count) || count < 1) {
    throw new RangeError(`count ${String(count)}: must be an integer of 1 or more`);
  }
}

function checkMs(name, value, least) {
  if (typeof value !== 'number' || !(value >= least && value <= MAX_MS)) {
    throw new RangeError(`${name} ${String(value)}: must be ${least} to ${MAX_MS}`);
  }
}

/** Returns the servers and options of HOST:PORT,... or snowflake://HOST:PORT,.../?agent=NAME;
 * snowflakes:// is for TLS. */
function parseUrl(text) {
  if (typeof text !== 'string') {
    throw new TypeError('servers: must be a string, or an array of at least one string');
  }
  const [, scheme, hosts = text, query = ''] = /^(snowflakes?):\/\/([^/?]*)\/?(?:\?(.*))?$/.exec(text)
    ?? [];
  const options = [...new URLSearchParams(query)].map(([name, value]) => {
    const option = URL_OPTIONS.get(name);
    if (option === undefined) {
      throw new TypeError(`servers: ${name} in a URL: must be one of ${[...URL_OPTIONS.keys()]}`);
    }
    return [option, option === 'agent' ? value : Number(value || NaN)];
  });
  const prefix = scheme === 'snowflakes' ? 'tls:' : '';
  return { servers: hosts.split(',').map((one) => prefix + one.trim()), options };
}

/** Returns an agent by the name of the script. */
function programName() {
  const name = path.parse(process.argv[1] ?? 'node').name.replace(/[^a-zA-Z0-9]+/g, '-');
  return name.replace(/^[^a-zA-Z]+/, '').slice(0, 256) || 'node';
}

/** Throws TypeError. Node ignores a `ca` that is not a PEM file, and then trusts no server. */
function secureContextOf(options = {}) {
  try {
    for (const name of ['ca', 'cert', 'key']) {
      if ([options[name] ?? []].flat().some((one) => !/-----BEGIN /.test(one.pem ?? one))) {
        throw new TypeError(`${name} must be the contents of a PEM file`);
      }
    }
    return tls.createSecureContext(options);
  } catch (error) {
    throw new TypeError(`tls: cannot use ca, cert and key: ${error.message}`, { cause: error });
  }
}

module.exports = { Snowflake, checkCount };
