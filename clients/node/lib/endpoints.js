// SPDX-License-Identifier: Apache-2.0
'use strict';
// Servers as they were given, their endpoints, and when each may be used again after a failure.
const dns = require('node:dns');
const net = require('node:net');
const tls = require('node:tls');
const { MAX_BATCH } = require('./codec');
const { reasonOf } = require('./connection');
const { Failure } = require('./errors');

const DEFAULT_PORT = 7609;
const MAX_PATH_BYTES = 107;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 1000;
const HOST = /^(?:\[([0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]|([^[\]:@/\s,]+))(?::(\d{1,5}))?$/;

/** Doubles with each failure, and ends with an answer. */
class Backoff {
  #ms = 0;
  until = 0; // of performance.now()

  begin(leastMs = 0) {
    this.#ms = Math.min(Math.max(this.#ms * 2, leastMs, FIRST_BACKOFF_MS), MAX_BACKOFF_MS);
    this.until = performance.now() + this.#ms * (0.75 + Math.random() / 2);
  }

  end() {
    this.#ms = this.until = 0;
  }
}

class Endpoint {
  backoff = new Backoff();
  method = 0; // how many methods the server lacks, as far as its exceptions have shown
  limit = MAX_BATCH; // IDs of one call, likewise

  /** `options`: those of net.connect(). */
  constructor(server, options) {
    this.server = server;
    this.options = options;
    this.prefix = server.isName ? `${options.host}: ` : ''; // of reasons
    this.name = server.text + (server.isName ? ` (${options.host})` : '');
  }
}

/** An address as it was given: one endpoint or, for a name, one for each of its IP addresses. */
class Server {
  server = this; // of attempts without an endpoint
  prefix = '';
  endpoints = [];
  isName = false;
  #tls; // options of tls.connect()
  #lookup; // the DNS lookup under way
  backoff = new Backoff(); // of DNS lookups

  /** Throws TypeError. */
  constructor(text, tlsOptions) {
    this.text = text;
    this.isTls = text.startsWith('tls:');
    const [, path] = /^unix:([/@][^\0]+)$/.exec(text) ?? [];
    const [, ipv6, name, port = DEFAULT_PORT] = HOST.exec(text.replace(/^tls:/, '')) ?? [];
    const [host, zone] = ipv6?.split('%') ?? [name];
    const isValid = path !== undefined ? Buffer.byteLength(path) <= MAX_PATH_BYTES
      : host !== undefined && port >= 1 && port <= 65535 && (!ipv6 || net.isIPv6(host));
    if (!isValid) {
      throw new TypeError(`server ${JSON.stringify(text.slice(0, 200))}: must be HOST, HOST:PORT, `
        + `[IPV6]:PORT, one of these after tls:, or unix:/PATH of ${MAX_PATH_BYTES} bytes at most`);
    }
    if (ipv6 && !net.isIPv6(ipv6)) { // net.connect() would resolve it, and lose the zone
      throw new TypeError(`server ${JSON.stringify(text)}: Node.js cannot use the network interface `
        + `${zone}, because its name has an underscore; rename the interface`);
    }
    if (path !== undefined) {
      this.endpoints = [new Endpoint(this, { path: path.replace(/^@/, '\0') })];
      return;
    }
    this.host = ipv6 ?? name;
    this.port = Number(port);
    this.isName = net.isIP(host) === 0;
    // for SNI and the certificate: without the dot, which only the resolver needs (RFC 6066)
    this.tlsName = host.replace(/\.$/, '');
    this.#tls = this.isTls && { ...this.#tlsDefaults, ...tlsOptions };
    if (!this.isName) {
      this.#setAddresses([this.host]);
    }
  }

  get #tlsDefaults() {
    return this.isName ? { servername: this.tlsName } : {
      checkServerIdentity: (asked, certificate) => tls.checkServerIdentity(
        asked === this.host ? this.tlsName : asked, certificate),
    };
  }

  #setAddresses(addresses) {
    const known = new Map(this.endpoints.map((one) => [one.options.host, one]));
    this.endpoints = shuffled([...new Set(addresses)].map((host) => known.get(host)
      ?? new Endpoint(this, { ...this.#tls, host, port: this.port })));
  }

  /** Returns when the next attempt can begin, of performance.now(). isBusy() says whether an
   * endpoint, or a server without endpoints, is in use. */
  readyAt(isBusy) {
    return Math.min(...(this.endpoints.length > 0 ? this.endpoints : [this]).map(
      (one) => (isBusy(one) ? Infinity : one.backoff.until)));
  }

  /** Returns the endpoint for the next attempt, or undefined if all are in use. */
  choose(isBusy) {
    return this.endpoints.filter((one) => !isBusy(one))
      .sort((one, other) => one.backoff.until - other.backoff.until)[0];
  }

  /** Rejects with a Failure; known endpoints remain. If there are any, it does nothing during a
   * lookup, which can hang, or a backoff. */
  async resolve() {
    if (!this.isName || (this.endpoints.length > 0
        && (this.#lookup !== undefined || performance.now() < this.backoff.until))) {
      return;
    }
    // one at a time: it cannot be cancelled, and occupies one of Node's few threads
    this.#lookup ??= new Promise((resolve) => {
      dns.lookup(this.host, { all: true }, (error, found) => resolve([error, found]));
    });
    const [error, found] = await this.#lookup;
    this.#lookup = undefined;
    if (error) {
      throw new Failure('unreachable', `its name cannot be resolved: ${reasonOf(error)}`,
        { cause: error });
    }
    this.backoff.end();
    this.#setAddresses(found.map(({ address }) => address));
  }
}

/** Returns a copy in random order. */
function shuffled(list) {
  return list.map((one) => [Math.random(), one]).sort(([one], [other]) => one - other)
    .map(([, one]) => one);
}

module.exports = { Server, shuffled };
