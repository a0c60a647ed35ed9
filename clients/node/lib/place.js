// SPDX-License-Identifier: Apache-2.0
'use strict';
// A server as it is given, and the places that it stands for.
const dns = require('node:dns');
const net = require('node:net');
const { Failure, Habits, after, reasonOf } = require('./wire');

const DEFAULT_PORT = 7609;
const LONGEST_PATH_BYTES = 107;
const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 10000;
const SERVER = /^(?:\[([0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]|([^[\]:/\s]+))(?::(\d{1,5}))?$/;

/** After a failure there is a pause, twice as long each time; an answer ends it. */
class Rest {
  #pauseMs = 0;
  until = 0; // of performance.now()

  begin() {
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, FIRST_REST_MS), LONGEST_REST_MS);
    this.until = performance.now() + this.#pauseMs * (0.75 + Math.random() / 2);
  }

  end() {
    this.#pauseMs = this.until = 0;
  }
}

/** An address of a server: `options` are those of net.connect(). */
class Place {
  rest = new Rest();
  habits = new Habits();

  constructor(options) {
    this.options = options;
  }
}

/** What was given: it stands for one place, or, a name, for those that it is looked up as. */
class Server {
  #lookupRest = new Rest();
  #lookup; // the one under way

  constructor(text) {
    this.text = text;
    this.isTls = text.startsWith('tls:');
    this.isName = false;
    this.places = []; // of a name: as it was looked up last
    if (text.startsWith('unix:')) {
      this.#setPath(text.slice('unix:'.length));
    } else {
      this.#setHost(this.isTls ? text.slice('tls:'.length) : text);
    }
  }

  #setPath(path) {
    if (!/^[/@][^\0]+$/.test(path) || Buffer.byteLength(path) > LONGEST_PATH_BYTES) {
      throw new TypeError(`server ${quoted(this.text)}: not unix:/PATH or unix:@NAME, `
        + `${LONGEST_PATH_BYTES} bytes at most`);
    }
    this.places = [new Place({ path: path.replace(/^@/, '\0') })];
  }

  #setHost(text) {
    const [, ipv6, host, port = DEFAULT_PORT] = SERVER.exec(text) ?? [];
    this.host = ipv6 ?? host;
    this.port = Number(port);
    if (this.host === undefined || this.port < 1 || this.port > 65535) {
      throw new TypeError(`server ${quoted(this.text)}: not HOST, HOST:PORT, [IPV6]:PORT, one of `
        + 'these after tls:, or unix:/PATH');
    }
    const address = ipv6?.split('%')[0] ?? host; // without the zone: net accepts few zones
    if (ipv6 !== undefined && !net.isIPv6(address)) {
      throw new TypeError(`server ${quoted(this.text)}: no IPv6 address in brackets`);
    }
    this.isName = net.isIP(address) === 0;
    // The name for SNI and for checking the certificate: without the trailing dot, which only the
    // resolver needs (RFC 6066), and without the zone.
    this.tlsName = address.replace(/\.$/, '');
    if (!this.isName) {
      this.#setPlaces([this.host]);
    }
  }

  #setPlaces(addresses) {
    const known = new Map(this.places.map((place) => [place.options.host, place]));
    this.places = [...new Set(addresses)].map((address) => known.get(address)
      ?? new Place({ host: address, port: this.port }));
    shuffle(this.places);
  }

  /**
   * Where to ask on a new connection, in this order. `failure`: of the connection that there was, to
   * `linked`. If that had ended, as with a server that started again, its place comes first; if no
   * answer came, as from an address that is no more, last.
   */
  placesAfter(linked, failure) {
    const places = this.places.filter((place) => place !== linked)
      .sort((one, other) => one.rest.until - other.rest.until);
    if (failure !== undefined && this.places.includes(linked)) {
      if (failure.isStale) {
        places.unshift(linked);
      } else if (this.isName && failure.kind === 'timeout') {
        places.push(linked);
      }
    }
    return places;
  }

  /** 0: somewhere it does not rest. */
  get restsUntil() {
    const ends = this.places.length > 0 ? this.places.map((place) => place.rest.until)
      : [this.#lookupRest.until];
    const end = Math.min(...ends);
    return end > performance.now() ? end : 0;
  }

  /**
   * Rejects with a Failure. Where it was found before, that stays, and is all there is while look-ups
   * rest. `mayInterrupt` is told what ends it before its time.
   */
  async lookUp(deadline, mayInterrupt) {
    if (this.places.length > 0 && performance.now() < this.#lookupRest.until) {
      return;
    }
    try {
      this.#setPlaces(await this.#lookedUp(deadline, mayInterrupt));
      this.#lookupRest.end();
    } catch (failure) {
      this.#lookupRest.begin();
      throw failure;
    }
  }

  #lookedUp(deadline, mayInterrupt) {
    return new Promise((resolve, reject) => {
      const began = performance.now();
      const giveUp = () => {
        const tookMs = Math.round(performance.now() - began);
        reject(new Failure('timeout', `its name is not looked up within ${tookMs} ms`));
      };
      const stop = after(deadline - began, giveUp);
      mayInterrupt(() => {
        stop();
        giveUp();
      });
      // One at a time, which cannot be stopped, and takes a thread of the few that Node has.
      this.#lookup ??= lookedUp(this.host);
      this.#lookup.then(({ error, addresses }) => {
        this.#lookup = undefined;
        stop();
        if (error) {
          reject(new Failure('unreachable', `its name is not known: ${reasonOf(error, false)}`));
        } else {
          resolve(addresses);
        }
      });
    });
  }
}

function lookedUp(host) {
  return new Promise((resolve) => {
    dns.lookup(host, { all: true }, (error, found = []) => {
      resolve({ error, addresses: found.map(({ address }) => address) });
    });
  });
}

/** In place. */
function shuffle(list) {
  for (let n = list.length - 1; n > 0; n -= 1) {
    const other = Math.floor(Math.random() * (n + 1));
    [list[n], list[other]] = [list[other], list[n]];
  }
}

function quoted(text) {
  return JSON.stringify(text.slice(0, 200));
}

module.exports = { Server, shuffle };
