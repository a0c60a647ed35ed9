// SPDX-License-Identifier: Apache-2.0
'use strict';
// Real servers, and servers that answer as a test tells them.
//
//   SNOWFLAKE_BUILD  the build directory with server/snowflaked, by default build/ of the tree
const assert = require('node:assert');
const { once } = require('node:events');
const net = require('node:net');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');
const Int64 = require('node-int64');
const { TBinaryProtocol, TFramedTransport, Thrift } = require('thrift');
const { Snowflake, SnowflakeError } = require('..');
const testing = require('../lib/testing');
const types = require('./generated/snowflake_types');

const PACKAGE = path.dirname(__dirname);
const ROOT = path.resolve(PACKAGE, '../..');
const BUILD = path.resolve(process.env.SNOWFLAKE_BUILD ?? path.join(ROOT, 'build'));
const SNOWFLAKED = path.join(BUILD, 'server/snowflaked');
const LONG_MS = 120000; // what has not come by then never comes; nothing is judged by it
const LOOK_EVERY_MS = 5;
const { CALL, REPLY, EXCEPTION } = Thrift.MessageType;
const clocks = new WeakMap(); // by test

/** The address of a real server that runs until the test ends. */
async function server(t, options = {}) {
  const running = await testing.startServer({ program: SNOWFLAKED, ...options });
  t.after(() => running.stop());
  return running.address;
}

/** Without a Clock, no attempt is late, however slow the machine is. */
function client(t, servers, options = {}) {
  const made = new Snowflake(servers, {
    agent: 'test', timeoutMs: LONG_MS, ...(clocks.has(t) ? {} : { attemptTimeoutMs: LONG_MS }),
    ...options,
  });
  t.after(() => made.close());
  return made;
}

/** As many IDs, and as they come from one server to one caller. */
function assertIds(ids, count) {
  assert.strictEqual(ids.length, count);
  let last = 0n;
  for (const id of ids) {
    assert.ok(BigInt(id) > last, `${id} after ${last}`);
    last = BigInt(id);
  }
}

async function take(snowflake, count) {
  const ids = [];
  while (ids.length < count) {
    ids.push(await snowflake.nextId());
  }
  return ids;
}

/** Resolves to the error of a call. */
async function failure(call, type = SnowflakeError) {
  const error = await call.then((answer) => assert.fail(`no failure, but ${answer}`), (why) => why);
  assert.ok(error instanceof type, error.stack);
  return error;
}

/** Resolves to the error of a call at its time limit, after all its servers have failed or are late.
 */
async function failureInTime(t, servers, type, { count = 1, ...options } = {}) {
  const clock = Clock.of(t);
  const list = [servers].flat();
  const snowflake = client(t, list, { prefetchMs: 0, timeoutMs: 2000, ...options });
  let isOver = false;
  const call = failure(snowflake.nextIds(count), type).finally(() => {
    isOver = true;
  });
  await until(() => isOver || snowflake.stats().failures >= list.length);
  await clock.advance(2000);
  return call;
}

async function until(condition) {
  const end = Date.now() + LONG_MS;
  while (!condition()) {
    assert.ok(Date.now() < end, 'the event does not come');
    await pause(LOOK_EVERY_MS);
  }
}

function framed(message) {
  const size = Buffer.alloc(4);
  size.writeInt32BE(message.length);
  return Buffer.concat([size, message]);
}

function int64(number) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(number));
  return new Int64(bytes);
}

/** What came in a frame, and the frames that may go back. */
class Call {
  constructor(frame, peer) {
    const input = new TBinaryProtocol(new TFramedTransport(frame), true);
    const { fname, mtype, rseqid } = input.readMessageBegin();
    assert.strictEqual(mtype, CALL);
    this.name = fname;
    this.frame = framed(frame);
    this.sequenceId = rseqid;
    this.count = 1;
    this.peer = peer;
    input.readStructBegin();
    for (let field = input.readFieldBegin(); field.ftype !== Thrift.Type.STOP;
      field = input.readFieldBegin()) {
      if (field.fid === 1) {
        this.agent = input.readString();
      } else {
        this.count = input.readI32();
      }
    }
  }

  message(kind, write, { name = this.name, sequenceId = this.sequenceId } = {}) {
    let message;
    const transport = new TFramedTransport(null, (bytes) => {
      message = bytes;
    });
    const output = new TBinaryProtocol(transport);
    output.writeMessageBegin(name, kind, sequenceId);
    write(output);
    output.writeMessageEnd();
    output.flush();
    return message;
  }

  /** A reply with one field, or none: write(output) writes its value. */
  reply(type, number, write, overrides) {
    return this.message(REPLY, (output) => {
      if (write) {
        output.writeFieldBegin('', type, number);
        write(output);
      }
      output.writeFieldStop();
    }, overrides);
  }

  /** A typed exception of get_ids and get_id_runs. */
  refuse(exception) {
    const numbers = [types.InvalidSystemClock, types.InvalidUserAgentError,
      types.WorkerIdUnavailable, types.InvalidCount];
    const number = numbers.findIndex((type) => exception instanceof type) + 1;
    return this.reply(Thrift.Type.STRUCT, number, (output) => exception.write(output));
  }

  exception(type, message) {
    const exception = new Thrift.TApplicationException(type, message);
    exception.code = type; // which the library writes
    return this.message(EXCEPTION, (output) => exception.write(output));
  }

  unknown() {
    return this.exception(Thrift.TApplicationExceptionType.UNKNOWN_METHOD, `unknown ${this.name}`);
  }

  runs(runs, overrides) {
    return this.reply(Thrift.Type.LIST, 0, (output) => {
      output.writeListBegin(Thrift.Type.STRUCT, runs.length);
      for (const [first, count] of runs) {
        new types.IdRun({ first: int64(first), count }).write(output);
      }
    }, overrides);
  }

  /** As many as it asks for, the next ones of the peer unless given. */
  ids({ count = this.count, first = this.peer.give(count), ...overrides } = {}) {
    if (this.name === 'get_id_runs') {
      return this.runs([[first, count]], overrides);
    }
    if (this.name === 'get_id') {
      return this.reply(Thrift.Type.I64, 0, (output) => output.writeI64(int64(first)), overrides);
    }
    return this.reply(Thrift.Type.LIST, 0, (output) => {
      output.writeListBegin(Thrift.Type.I64, count);
      for (let n = 0n; n < count; n += 1n) {
        output.writeI64(int64(BigInt(first) + n));
      }
    }, overrides);
  }
}

/** A server that sends what answer(call) returns; undefined: nothing; null closes the connection. */
class Peer {
  #next = 1n << 40n;
  #sockets = new Set();

  constructor(answer) {
    this.answer = answer;
    this.calls = [];
    this.connections = 0;
    this.listener = net.createServer((socket) => this.#serve(socket));
  }

  async listen(...where) {
    this.listener.listen(...where);
    await once(this.listener, 'listening');
    return this;
  }

  get address() {
    return `127.0.0.1:${this.listener.address().port}`;
  }

  give(count) {
    const first = this.#next;
    this.#next += BigInt(count);
    return first;
  }

  #serve(socket) {
    let input = Buffer.alloc(0);
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
    socket.on('data', (data) => {
      input = Buffer.concat([input, data]);
      while (input.length >= 4 && input.length >= 4 + input.readInt32BE(0)) {
        const end = 4 + input.readInt32BE(0);
        const call = new Call(input.subarray(4, end), this);
        input = input.subarray(end);
        this.calls.push(call);
        const answer = this.answer(call, socket);
        if (answer === null) {
          socket.destroy();
        } else if (answer !== undefined) {
          socket.write(answer);
        }
      }
    });
  }

  /** Those that there are end; new ones are taken. */
  async breakConnections() {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await until(() => this.#sockets.size === 0);
  }

  get open() {
    return this.#sockets.size;
  }

  close() {
    this.listener.close();
    for (const socket of this.#sockets) {
      socket.destroy();
    }
  }
}

async function peer(t, answer = (call) => call.ids(), ...where) {
  const made = await new Peer(answer).listen(...(where.length > 0 ? where : [0, '127.0.0.1']));
  t.after(() => made.close());
  return made;
}

/** A port without a listener. A connection to it keeps the port, so that no other program gets it. */
async function dead(t) {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  const accepted = once(listener, 'connection');
  const socket = net.connect(port, '127.0.0.1');
  const [other] = await accepted;
  listener.close();
  t.after(() => {
    socket.destroy();
    other.destroy();
  });
  return `127.0.0.1:${port}`;
}

/** A client uses its servers in order, and backoffs are as long as possible: 125 ms at first. */
function inOrder(t) {
  t.mock.method(Math, 'random', () => 1 - Number.EPSILON);
}

/** performance.now() as the test has it; a mock would keep a record of every call. */
function stopClock(t, now) {
  Object.defineProperty(performance, 'now', { value: now, configurable: true });
  t.after(() => delete performance.now);
}

/** A clock that stands still, and the timers that go by it, until the test moves it. */
class Clock {
  now = 1000;
  #timers = new Map();

  /** The clock of a test. */
  static of(t) {
    if (!clocks.has(t)) {
      clocks.set(t, new Clock(t));
    }
    return clocks.get(t);
  }

  constructor(t) {
    const { setTimeout, clearTimeout } = globalThis;
    stopClock(t, () => this.now);
    globalThis.setTimeout = (act, ms) => {
      const timer = { ref: () => timer, unref: () => timer };
      this.#timers.set(timer, { act, at: this.now + ms });
      return timer;
    };
    globalThis.clearTimeout = (timer) => this.#timers.delete(timer);
    const keepAlive = setInterval(() => {}, LONG_MS); // as the timers would
    t.after(() => {
      clearInterval(keepAlive);
      Object.assign(globalThis, { setTimeout, clearTimeout });
    });
  }

  async advance(ms) {
    this.now += ms;
    for (const [timer, { act, at }] of this.#timers) {
      if (at <= this.now) {
        this.#timers.delete(timer);
        act();
      }
    }
    await new Promise(setImmediate);
    await new Promise(setImmediate); // and what the timers began has ended
  }
}

module.exports = {
  BUILD, Call, Clock, LONG_MS, PACKAGE, ROOT, SNOWFLAKED, assertIds, client, dead,
  failure, failureInTime, framed, inOrder, int64, peer, server, stopClock, take, until,
};
