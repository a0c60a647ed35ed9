// SPDX-License-Identifier: Apache-2.0
'use strict';
// A connection to one endpoint, for one call at a time. It sets no timeouts: refill.js does.
const net = require('node:net');
const tls = require('node:tls');
const { getSystemErrorMap } = require('node:util');
const {
  MAX_BATCH, MAX_FRAME_BYTES, Refusal, decodeReply, encodeCall,
} = require('./codec');

const METHODS = ['get_id_runs', 'get_ids', 'get_id']; // for a server that lacks one, the next
const MAX_REASON_CHARACTERS = 200;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Why an endpoint did not return IDs. `kind`: clock, unavailable, agent, timeout or unreachable. */
class Failure extends Error {
  constructor(kind, reason, { cause, retryAfterMs, isStale = false } = {}) {
    super(String(reason).slice(0, MAX_REASON_CHARACTERS).replace(UNPRINTABLE, ' '), { cause });
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.isStale = isStale; // a reused connection ended, as after a restart of the server
  }
}

/** The methods and the largest batch that a server supports, as far as its refusals have shown. */
class Capabilities {
  method = 0;
  limit = MAX_BATCH;
}

/** The process does not stay alive for it. */
class Connection {
  #socket;
  #isTls;
  #call; // under way: {method, count, resolve, reject}
  #sequenceId = Math.floor(Math.random() * 2 ** 30); // so that replies to others do not match
  #chunks = []; // of the reply
  #size = 0; // of all chunks, in bytes
  #hasAnswered = false;

  /** `options`: those of net.connect(), or of tls.connect(). */
  constructor(options, isTls) {
    this.#isTls = isTls;
    this.#socket = (isTls ? tls : net).connect(options);
    this.#socket.unref().setNoDelay(true);
    this.#socket.on('data', (data) => this.#receive(data));
    this.#socket.on('error', (error) => this.close(this.#lost(reasonOf(error, isTls), error)));
    this.#socket.on('end', () => this.close(this.#lost('the server closed the connection')));
    this.#socket.on('close', () => this.close(this.#lost('the connection is closed')));
  }

  get isOpen() {
    return !this.#socket.destroyed;
  }

  /** Why there is no answer yet. */
  get waitsFor() {
    return this.#socket.connecting ? 'not connected' : 'no answer';
  }

  /** Resolves to runs of `count` IDs, or of as many as the server returns in one call. Rejects with
   * a Failure. */
  async fetch(agent, count, capabilities) {
    for (;;) {
      const method = METHODS[capabilities.method];
      const asked = method === 'get_id' ? 1 : Math.min(count, capabilities.limit);
      try {
        return await this.#ask(method, agent, asked);
      } catch (error) {
        if (error.kind === 'method' && method !== 'get_id') {
          capabilities.method += 1;
        } else if (error.kind === 'count' && asked > 1) {
          capabilities.limit = Math.floor(asked / 2);
        } else {
          throw error instanceof Refusal ? failureOf(error) : error;
        }
      }
    }
  }

  #ask(method, agent, count) {
    return new Promise((resolve, reject) => {
      this.#call = { method, count, resolve, reject };
      this.#sequenceId += 1;
      if (this.isOpen) {
        this.#socket.write(encodeCall(method, this.#sequenceId, agent, count));
      } else {
        this.close(this.#lost('the connection is closed'));
      }
    });
  }

  #receive(data) {
    this.#chunks.push(data);
    this.#size += data.length;
    if (this.#call === undefined) {
      this.close(); // nothing was requested
    } else if (this.#size >= 4) {
      this.#readReply();
    }
  }

  #readReply() {
    if (this.#chunks[0].length < 4) {
      this.#chunks = [Buffer.concat(this.#chunks)];
    }
    const size = this.#chunks[0].readInt32BE(0);
    if (size < 1 || size > MAX_FRAME_BYTES) {
      this.close(new Failure('unreachable', `not a reply: ${size} bytes, ${MAX_FRAME_BYTES} at most`));
    } else if (this.#size >= 4 + size) {
      const [bytes] = this.#chunks.length === 1 ? this.#chunks : [Buffer.concat(this.#chunks)];
      let hasMore = this.#size > 4 + size;
      const { method, count, resolve, reject } = this.#call;
      [this.#call, this.#chunks, this.#size, this.#hasAnswered] = [undefined, [], 0, true];
      try {
        resolve(decodeReply(bytes.subarray(4, 4 + size), method, this.#sequenceId, count));
      } catch (error) {
        reject(error instanceof Refusal ? error
          : new Failure('unreachable', `not a reply: ${error.message}`, { cause: error }));
        hasMore ||= !(error instanceof Refusal);
      }
      if (hasMore) { // nothing requested these bytes
        this.close();
      }
    }
  }

  #lost(reason, cause) {
    return new Failure('unreachable', reason, {
      cause, isStale: this.#hasAnswered && this.#size === 0,
    });
  }

  /** A call under way fails. */
  close(failure = new Failure('unreachable', 'the connection is closed')) {
    this.#socket.destroy();
    this.#call?.reject(failure);
    this.#call = undefined;
  }
}

function failureOf({ kind, message, retryAfterMs }) {
  const texts = {
    clock: 'its clock is wrong', unavailable: 'it has no IDs', agent: 'it refuses the agent',
  };
  return new Failure(Object.hasOwn(texts, kind) ? kind : 'unreachable', message || texts[kind]
    || 'it refuses the call', { retryAfterMs });
}

function reasonOf(error, isTls) {
  const [, text] = getSystemErrorMap().get(error.errno) ?? [];
  return text ?? (isTls ? `TLS: ${error.message}` : error.message);
}

module.exports = { Capabilities, Connection, Failure, reasonOf };
