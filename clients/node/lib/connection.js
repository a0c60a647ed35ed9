// SPDX-License-Identifier: Apache-2.0
'use strict';
// A connection to one endpoint, for one call at a time. It has no timeouts: those are in servers.js.
const net = require('node:net');
const tls = require('node:tls');
const { getSystemErrorMap } = require('node:util');
const { MAX_FRAME_BYTES, decodeReply, encodeCall } = require('./codec');
const { Failure } = require('./errors');

const READ_BYTES = 1 << 16;
const METHODS = ['get_id_runs', 'get_ids', 'get_id']; // if a server lacks one, the next is used

/** The process does not stay alive for it. */
class Connection {
  #endpoint;
  #socket;
  #call; // under way: {method, count, resolve, reject}
  #sequenceId = Math.floor(Math.random() * 2 ** 30); // so that replies to others do not match
  #input = Buffer.allocUnsafe(4 + MAX_FRAME_BYTES); // the reply with its length
  #size = 0; // of what has arrived of it
  #hasAnswered = false;

  constructor(endpoint) {
    this.#endpoint = endpoint;
    // without TLS, all reads use one buffer
    const onread = {
      buffer: Buffer.allocUnsafe(READ_BYTES),
      callback: (size, bytes) => this.#receive(bytes.subarray(0, size)),
    };
    this.#socket = endpoint.server.isTls ? tls.connect(endpoint.options)
      : net.connect({ ...endpoint.options, onread });
    this.#socket.unref().setNoDelay(true);
    this.#socket.on('data', (data) => this.#receive(data));
    this.#socket.on('error', (error) => this.#lose(reasonOf(error, endpoint.server.isTls), error));
    this.#socket.on('end', () => this.#lose('the server closed the connection'));
    this.#socket.on('close', () => this.#lose('the connection is closed'));
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
  async fetch(agent, count) {
    for (;;) {
      const method = METHODS[this.#endpoint.method];
      const asked = method === 'get_id' ? 1 : Math.min(count, this.#endpoint.limit);
      try {
        return await this.#ask(method, agent, asked);
      } catch (error) {
        if (error.kind === 'method' && method !== 'get_id') {
          this.#endpoint.method += 1;
        } else if (error.kind === 'count' && asked > 1) {
          this.#endpoint.limit = Math.floor(asked / 2);
        } else {
          throw error;
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
        this.#lose('the connection is closed');
      }
    });
  }

  #receive(data) {
    const copied = data.copy(this.#input, this.#size);
    this.#size += copied;
    const size = this.#size < 4 ? NaN : this.#input.readInt32BE(0);
    if (this.#call === undefined) {
      this.close(); // nothing was requested
    } else if (size < 1 || size > MAX_FRAME_BYTES) {
      this.close(new Failure('unreachable', `not a reply: a frame of ${size} bytes`));
    } else if (this.#size >= 4 + size) {
      const isAll = this.#size === 4 + size && copied === data.length;
      this.#answer(this.#input.subarray(4, 4 + size));
      if (!isAll) { // nothing requested the other bytes
        this.close();
      }
    }
  }

  #answer(frame) {
    const { method, count, resolve, reject } = this.#call;
    [this.#call, this.#size, this.#hasAnswered] = [undefined, 0, true];
    try {
      resolve(decodeReply(frame, method, this.#sequenceId, count));
    } catch (error) {
      if (!(error instanceof Failure)) {
        this.close();
      }
      reject(error instanceof Failure ? error
        : new Failure('unreachable', `not a reply: ${error.message}`, { cause: error }));
    }
  }

  #lose(reason, cause) {
    const isStale = this.#hasAnswered && this.#size === 0;
    this.close(new Failure('unreachable', reason, { cause, isStale }));
  }

  /** A call under way fails. */
  close(failure = new Failure('unreachable', 'the connection is closed')) {
    this.#socket.destroy();
    this.#call?.reject(failure);
    this.#call = undefined;
  }
}

function reasonOf(error, isTls = false) {
  const [, text] = getSystemErrorMap().get(error.errno) ?? [];
  return text ?? (isTls ? `TLS: ${error.message}` : error.message);
}

module.exports = { Connection, reasonOf };
