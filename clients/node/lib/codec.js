// SPDX-License-Identifier: Apache-2.0
'use strict';
// Thrift's framed binary protocol, as far as the calls for IDs need it. Decoding is strict and
// bounded: a reply must answer this call, and its IDs must increase and be as many as requested.
const { Failure } = require('./errors');

const MAX_BATCH = 10000; // IDs of one call
const MAX_FRAME_BYTES = 1 << 18; // the largest batch takes 190,000
const MAX_DEPTH = 16;
const MAX_ID = 2n ** 63n - 1n;
const VERSION = 0x800100;
const [CALL, REPLY, EXCEPTION] = [1, 2, 3];
const [STOP, BOOL, BYTE, DOUBLE, I16, I32, I64] = [0, 2, 3, 4, 6, 8, 10];
const [STRING, STRUCT, MAP, SET, LIST] = [11, 12, 13, 14, 15];
const UNKNOWN_METHOD = 1;
const EXCEPTIONS = [ // by field of the result, from 1
  ['InvalidSystemClock', 'clock', 'its clock is wrong'],
  ['InvalidUserAgentError', 'agent', 'it refuses the agent'],
  ['WorkerIdUnavailable', 'unavailable', 'it has no IDs'],
  ['InvalidCount', 'count', 'it refuses the count'],
];

/** Returns the frame of a call. get_id takes no count. */
function encodeCall(method, sequenceId, agent, count) {
  const bytes = Buffer.allocUnsafe(31 + method.length + agent.length);
  let at = bytes.writeInt32BE(VERSION << 8 | CALL, 4);
  at = bytes.writeInt32BE(method.length, at);
  at = bytes.writeInt32BE(sequenceId, at + bytes.latin1Write(method, at));
  at = bytes.writeInt32BE(agent.length, bytes.writeIntBE(STRING << 16 | 1, at, 3));
  at += bytes.latin1Write(agent, at);
  if (method !== 'get_id') {
    at = bytes.writeInt32BE(count, bytes.writeIntBE(I32 << 16 | 2, at, 3));
  }
  at = bytes.writeInt8(STOP, at);
  bytes.writeInt32BE(at - 4, 0);
  return bytes.subarray(0, at);
}

class Reader {
  #bytes;
  #at = 0;

  constructor(bytes) {
    this.#bytes = bytes;
  }

  get isAtEnd() {
    return this.#at === this.#bytes.length;
  }

  /** Skips `size` bytes. Returns the position of the first one. */
  #skip(size) {
    const at = this.#at;
    if (size < 0 || size > this.#bytes.length - at) {
      throw new Error(`the message ends within a value of ${size} bytes`);
    }
    this.#at += size;
    return at;
  }

  /** Structs are maps from a field's number to [type, value]. Lists are [type, values]. */
  read(type, depth = 0) {
    if (depth > MAX_DEPTH) {
      throw new Error(`values nested deeper than ${MAX_DEPTH}`);
    }
    switch (type) {
      case BOOL: case BYTE: return this.#bytes[this.#skip(1)];
      case I16: return this.#bytes.readInt16BE(this.#skip(2));
      case I32: return this.#bytes.readInt32BE(this.#skip(4));
      case I64: case DOUBLE: return this.#bytes.readBigInt64BE(this.#skip(8));
      case STRING: {
        const size = this.read(I32);
        return this.#bytes.toString('utf8', this.#skip(size), this.#at);
      }
      case STRUCT: {
        const fields = new Map();
        for (let one = this.read(BYTE); one !== STOP; one = this.read(BYTE)) {
          fields.set(this.read(I16), [one, this.read(one, depth + 1)]);
        }
        return fields;
      }
      case MAP: case SET: case LIST: {
        const types = Array.from({ length: type === MAP ? 2 : 1 }, () => this.read(BYTE));
        const values = [];
        for (let left = this.read(I32); left > 0; left -= 1) { // each takes a byte or more
          types.forEach((one) => values.push(this.read(one, depth + 1)));
        }
        return [types[0], values];
      }
      default: throw new Error(`a value of the unknown type ${type}`);
    }
  }
}

/** Returns a field's value, or undefined if the struct lacks it or it is of another type. */
function valueOf(struct, number, type) {
  const [found, value] = struct.get(number) ?? [];
  return found === type ? value : undefined;
}

/** Returns the runs {first, count} of a reply, which comes without its length. Throws a Failure for
 * an exception of the server, and another Error if it is not a reply to this call. */
function decodeReply(frame, method, sequenceId, count) {
  const reader = new Reader(frame);
  const version = reader.read(I32);
  const [name, number] = [reader.read(STRING), reader.read(I32)];
  const kind = version & 0xff;
  if (version >>> 8 !== VERSION || (kind !== REPLY && kind !== EXCEPTION) || name !== method
      || number !== sequenceId) {
    throw new Error(`message ${JSON.stringify(name.slice(0, 40))} of kind ${kind}, number `
      + `${number}, instead of the reply to ${method}, number ${sequenceId}`);
  }
  const struct = reader.read(STRUCT);
  if (!reader.isAtEnd) {
    throw new Error('bytes after the message');
  }
  if (kind === EXCEPTION) {
    throw failureOf(valueOf(struct, 1, STRING) ?? '', valueOf(struct, 2, I32));
  }
  for (const [n, [, exception, text]] of EXCEPTIONS.entries()) {
    const fields = valueOf(struct, n + 1, STRUCT);
    if (fields !== undefined) {
      const retryAfterMs = Math.max(Number(valueOf(fields, 2, I64) ?? 0), 0) || undefined;
      throw new Failure(exception, valueOf(fields, 1, STRING) || text, { retryAfterMs });
    }
  }
  return checked(runsOf(method, struct), count);
}

/** Of a TApplicationException. get_id has no typed exceptions: its message begins with the name. */
function failureOf(message, code) {
  const [, name, text] = /^(\w+): (.*)$/su.exec(message) ?? [];
  const [, kind] = EXCEPTIONS.find(([one]) => one === name) ?? [];
  return kind ? new Failure(kind, text)
    : new Failure(code === UNKNOWN_METHOD ? 'method' : 'unreachable', `it says: ${message}`);
}

function runsOf(method, struct) {
  if (method === 'get_id') {
    return [{ first: valueOf(struct, 0, I64) ?? 0n, count: 1 }];
  }
  const [type, values] = valueOf(struct, 0, LIST) ?? [];
  if (method === 'get_ids' && type === I64) {
    return values.map((first) => ({ first, count: 1 }));
  }
  if (method === 'get_id_runs' && type === STRUCT) {
    return values.map((run) => ({
      first: valueOf(run, 1, I64) ?? 0n, count: valueOf(run, 2, I32) ?? 0,
    }));
  }
  throw new Error('a result without IDs');
}

/** Throws unless the runs are `count` IDs that increase. */
function checked(runs, count) {
  let least = 1n;
  let left = count;
  for (const run of runs) {
    if (run.count < 1 || run.first < least) {
      throw new Error(`${run.count} IDs from ${run.first}, where ${least} is the lowest possible`);
    }
    least = run.first + BigInt(run.count);
    left -= run.count;
  }
  if (left !== 0 || least - 1n > MAX_ID) {
    throw new Error(`${count - left} IDs up to ${least - 1n}, for a call for ${count}`);
  }
  return runs;
}

module.exports = { MAX_BATCH, MAX_FRAME_BYTES, decodeReply, encodeCall };
