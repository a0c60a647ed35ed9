// SPDX-License-Identifier: Apache-2.0
'use strict';
// One connection to a server. Thrift's own library makes and reads the messages; its Connection is
// not used, which waits for ever, takes any reply whose sequence ID is known, and throws out of the
// event loop what bytes that are no reply lead to.
const net = require('node:net');
const tls = require('node:tls');
const { getSystemErrorMap } = require('node:util');
const { TBinaryProtocol, TFramedTransport, Thrift } = require('thrift');
const SnowflakeExtended = require('./generated/SnowflakeExtended');
const {
  InvalidCount, InvalidSystemClock, InvalidUserAgentError, WorkerIdUnavailable,
} = require('./generated/snowflake_types');

const MAX_BATCH = 10000; // IDs of one call
const MAX_FRAME_BYTES = 1 << 20; // ten times of what the largest batch takes
const MAX_ID = 2n ** 63n - 1n;
const METHODS = ['get_id_runs', 'get_ids', 'get_id']; // a server that lacks one is asked by the next
const SINGLE_CALLS = 100; // of get_id, for one batch

const MESSAGE_BYTES = 200; // of what a server says
// what is no part of one line
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * Why a server did not answer with IDs. `kind`: clock, unavailable, agent, timeout or unreachable.
 */
class Failure extends Error {
  constructor(kind, reason, { retryAfterMs, isStale = false } = {}) {
    super(String(reason).slice(0, MESSAGE_BYTES).replace(UNPRINTABLE, ' '));
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.isStale = isStale; // an old connection broke, which says nothing of the server
  }
}

/** What was learnt of a server: what it lacks, and how many IDs it gives at once. */
class Habits {
  method = 0;
  limit = MAX_BATCH;
}

/**
 * Calls act() after so many milliseconds, not before, and once what has come meanwhile is read: a
 * program that was busy for longer has had its answer in time. Returns what stops it.
 */
function after(ms, act, { keepsAlive = false } = {}) {
  const end = performance.now() + ms;
  let timer;
  let immediate;
  const wait = () => {
    const left = end - performance.now();
    if (left <= 0) {
      immediate = setImmediate(act);
      return;
    }
    timer = setTimeout(wait, Math.ceil(left)); // which may be a little early
    if (!keepsAlive) {
      timer.unref();
    }
  };
  wait();
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

/** One call at a time. It does not keep the process alive; whoever waits for it does. */
class Connection {
  #client;
  #socket;
  #wait; // of the call, or of open(): {method, resolve, fail}
  #head = Buffer.alloc(0); // the length of a frame, as far as it has come
  #frame; // and the frame
  #filled = 0;
  #isSilent = true; // nothing has come since the call began
  #hasAnswered = false;

  constructor() {
    const transport = new TFramedTransport(null, (message) => this.#socket.write(message));
    this.#client = new SnowflakeExtended.Client(transport, TBinaryProtocol);
    // so that a reply to somebody else's call is not taken for one of these
    this.#client._seqid = Math.floor(Math.random() * 2 ** 30);
  }

  get isOpen() {
    return this.#socket !== undefined && !this.#socket.destroyed;
  }

  /** `place`: options of net.connect(), and of tls.connect() if it is so. Rejects with a Failure. */
  async open(place, isTls, deadline) {
    await this.#within(deadline, 'not connected', undefined, (opened) => {
      this.#socket = isTls ? tls.connect(place, opened) : net.connect(place, opened);
      this.#socket.unref();
      this.#socket.setNoDelay(true);
      this.#socket.on('data', (data) => this.#receive(data));
      this.#socket.on('error', (error) => this.#break(reasonOf(error, isTls)));
      this.#socket.on('end', () => this.#break('it closed the connection'));
      this.#socket.on('close', () => this.#break('the connection is closed'));
    });
    const { localAddress, localPort, remoteAddress, remotePort } = this.#socket;
    if (remotePort !== undefined && localPort === remotePort && localAddress === remoteAddress) {
      // nobody listens there, and the port was free for this end
      this.close();
      throw new Failure('unreachable', 'connection refused');
    }
  }

  /** Runs of IDs, `count` altogether or as many as the server gives at once. Rejects with a
   * Failure. */
  async runs(agent, count, habits, deadline) {
    for (;;) {
      const method = METHODS[habits.method];
      const asked = Math.min(count, habits.limit);
      try {
        return await this.#ask(method, agent, asked, deadline);
      } catch (error) {
        const { TApplicationException, TApplicationExceptionType } = Thrift;
        if (error instanceof TApplicationException && method !== 'get_id'
            && error.type === TApplicationExceptionType.UNKNOWN_METHOD) {
          habits.method += 1;
        } else if (error instanceof InvalidCount && asked > 1) {
          habits.limit = Math.floor(asked / 2);
        } else {
          throw this.#failureOf(error);
        }
      }
    }
  }

  async #ask(method, agent, count, deadline) {
    let runs;
    if (method === 'get_id_runs') {
      runs = (await this.#call(method, deadline, agent, count)).map(
        (run) => ({ first: bigOf(run.first), count: run.count }));
    } else if (method === 'get_ids') {
      runs = runsOf((await this.#call(method, deadline, agent, count)).map(bigOf));
    } else {
      count = Math.min(count, SINGLE_CALLS);
      const ids = [];
      while (ids.length < count) {
        ids.push(bigOf(await this.#call(method, deadline, agent)));
      }
      runs = runsOf(ids);
    }
    checkRuns(runs, count);
    return runs;
  }

  #call(method, deadline, ...args) {
    return this.#within(deadline, 'no answer', method, (resolve, reject) => {
      this.#isSilent = true;
      if (!this.isOpen) {
        this.#break('the connection is closed');
        return;
      }
      this.#client[method](...args).then(resolve, reject);
    });
  }

  /** What begin() resolves or rejects with, unless the connection breaks or the time is over. */
  #within(deadline, what, method, begin) {
    return new Promise((resolve, reject) => {
      const began = performance.now();
      const stop = after(deadline - began, () => {
        const tookMs = Math.round(performance.now() - began);
        this.#end(new Failure('timeout', `${what} within ${tookMs} ms`));
      });
      const settled = (settle) => (value) => {
        stop();
        this.#wait = undefined;
        settle(value);
      };
      this.#wait = { method, fail: settled(reject) };
      try {
        begin(settled(resolve), settled(reject));
      } catch (error) {
        this.#end(new Failure('unreachable', error.message));
      }
    });
  }

  #receive(data) {
    if (this.#wait?.method === undefined) {
      this.#break('it sends what it is not asked for');
      return;
    }
    this.#isSilent = false;
    if (this.#frame === undefined) {
      this.#head = Buffer.concat([this.#head, data]);
      if (this.#head.length < 4) {
        return;
      }
      const size = this.#head.readInt32BE(0);
      if (size < 1 || size > MAX_FRAME_BYTES) {
        this.#break(`no reply of Thrift: a frame of ${size} bytes, ${MAX_FRAME_BYTES} at most`);
        return;
      }
      data = this.#head.subarray(4);
      this.#frame = Buffer.allocUnsafe(size);
      this.#filled = 0;
    }
    const copied = data.copy(this.#frame, this.#filled);
    this.#filled += copied;
    if (this.#filled === this.#frame.length) {
      this.#readFrame();
    }
    if (copied < data.length) { // nobody asked for that: the reply may do, the connection not
      this.#socket.destroy();
    }
  }

  #readFrame() {
    const transport = new TFramedTransport(this.#frame);
    const call = this.#wait.method;
    this.#frame = undefined;
    this.#head = Buffer.alloc(0);
    try {
      const input = new TBinaryProtocol(transport, true);
      const { fname, mtype, rseqid } = input.readMessageBegin();
      const { REPLY, EXCEPTION } = Thrift.MessageType;
      if (fname !== call || rseqid !== this.#client.seqid()
          || (mtype !== REPLY && mtype !== EXCEPTION)) {
        throw new Error(`${JSON.stringify(fname.slice(0, 40))} number ${rseqid}, while `
          + `${JSON.stringify(call)} number ${this.#client.seqid()} is awaited`);
      }
      this.#client[`recv_${call}`](input, mtype, rseqid);
      this.#hasAnswered = true;
    } catch (error) {
      this.#end(notTheReply(error));
    }
  }

  /** Of what else than a failure of the connection a call ended with. */
  #failureOf(error) {
    const failure = failureSaid(error);
    if (failure === undefined) {
      this.close();
    }
    return failure ?? notTheReply(error);
  }

  #break(reason) {
    const isStale = this.#hasAnswered && this.#isSilent;
    this.#end(new Failure('unreachable', reason, { isStale }));
  }

  /** For good: what comes yet is nobody's. */
  #end(failure) {
    this.#socket?.destroy();
    this.#wait?.fail(failure);
  }

  /** Whoever waits for it stops to, with the failure. */
  close(failure = new Failure('unreachable', 'the connection is closed')) {
    this.#end(failure);
  }
}

/** What a server says for itself; undefined: the error is none of that. */
function failureSaid(error) {
  if (error instanceof Failure) {
    return error;
  }
  if (error instanceof InvalidSystemClock) {
    return new Failure('clock', error.message || 'its clock is wrong');
  }
  if (error instanceof WorkerIdUnavailable) {
    const ms = error.retry_after_ms === null ? 0 : Number(bigOf(error.retry_after_ms));
    return new Failure('unavailable', error.message || 'it has no IDs', {
      retryAfterMs: ms > 0 ? ms : undefined,
    });
  }
  if (error instanceof InvalidUserAgentError) {
    return new Failure('agent', error.message || 'it refuses the agent');
  }
  if (error instanceof Thrift.TApplicationException || error instanceof InvalidCount) {
    return failureOf2010(error.message || '');
  }
  return undefined;
}

/** get_id has no typed exceptions: the message begins with the name. */
function failureOf2010(message) {
  const [, name, text] = /^(\w+): (.*)$/su.exec(message) ?? [];
  const kinds = {
    InvalidSystemClock: 'clock', WorkerIdUnavailable: 'unavailable', InvalidUserAgentError: 'agent',
  };
  return Object.hasOwn(kinds, name ?? '') ? new Failure(kinds[name], text)
    : new Failure('unreachable', `it says: ${message}`);
}

function notTheReply(error) {
  return new Failure('unreachable', 'what it answers is not the reply: '
    + (error?.message || error?.name || error));
}

function bigOf(int64) {
  return int64.buffer.readBigInt64BE(int64.offset);
}

function runsOf(ids) {
  const runs = [];
  for (const id of ids) {
    const last = runs.at(-1);
    if (last !== undefined && id === last.first + BigInt(last.count)) {
      last.count += 1;
    } else {
      runs.push({ first: id, count: 1 });
    }
  }
  return runs;
}

function checkRuns(runs, count) {
  let least = 1n;
  let left = count;
  for (const run of runs) {
    if (!(run.count >= 1)) {
      throw new Error(`a run of ${run.count} IDs`);
    }
    if (run.first < least) {
      throw new Error(`the ID ${run.first}, where ${least} is the least that may come`);
    }
    least = run.first + BigInt(run.count);
    left -= run.count;
  }
  if (left !== 0) {
    throw new Error(`${count - left} IDs, for ${count}`);
  }
  if (least - 1n > MAX_ID) {
    throw new Error(`IDs up to ${least - 1n}, above ${MAX_ID}`);
  }
}

function reasonOf(error, isTls) {
  const known = getSystemErrorMap().get(error.errno);
  if (known !== undefined) {
    return known[1];
  }
  return isTls ? `TLS: ${error.message}` : error.message;
}

module.exports = { Connection, Failure, Habits, MAX_BATCH, after, reasonOf };
