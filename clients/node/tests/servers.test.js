// SPDX-License-Identifier: Apache-2.0
'use strict';
// Which server is asked, what it may answer, and what is said when none serves. The servers are
// sockets that answer as they are told.
const assert = require('node:assert');
const dns = require('node:dns');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: pause } = require('node:timers/promises');
const Int64 = require('node-int64');
const { Thrift } = require('thrift');
const {
  ClockError, ClosedError, InvalidAgentError, SnowflakeTimeoutError, UnavailableError,
  UnreachableError,
} = require('..');
const {
  InvalidCount, InvalidSystemClock, InvalidUserAgentError, WorkerIdUnavailable,
} = require('../lib/generated/snowflake_types');
const {
  Clock, assertIds, client, dead, failure, inOrder, framed, peer, take, until,
} = require('./support');

const { INTERNAL_ERROR } = Thrift.TApplicationExceptionType;
const SHORT_MS = 400;

const unavailable = (message, ms) => (call) => call.refuse(
  new WorkerIdUnavailable({ message, retry_after_ms: new Int64(ms) }));
const behind = (call) => call.refuse(new InvalidSystemClock({ message: 'behind' }));
const of2010 = (message) => (call) => (call.name === 'get_id'
  ? call.exception(INTERNAL_ERROR, message) : call.unknown());
const hang = () => undefined;

test('what a server says is a typed error', async (t) => {
  for (const [answer, type, reason, retryAfterMs] of [
    [unavailable('no worker ID', 250), UnavailableError, 'no worker ID', 250],
    [(call) => call.refuse(new WorkerIdUnavailable()), UnavailableError, 'it has no IDs'],
    [unavailable('no', 0), UnavailableError, 'no'],
    [unavailable('no', -1), UnavailableError, 'no'],
    [behind, ClockError, 'behind'],
    [of2010('WorkerIdUnavailable: why: so'), UnavailableError, 'why: so'],
    [of2010('InvalidSystemClock: why: so'), ClockError, 'why: so'],
    [of2010('InvalidUserAgentError: no'), InvalidAgentError, 'no'],
    [of2010('oh\r\nno'), UnreachableError, 'it says: oh  no'],
    [() => null, UnreachableError, 'it closed the connection'],
  ]) {
    const { address } = await peer(t, answer);
    const { error } = await failure(client(t, address, { prefetchMs: 0 }).nextId(), type);
    assert.deepStrictEqual(error.attempts, [{ server: address, reason }]);
    assert.strictEqual(error.retryAfterMs, retryAfterMs);
    assert.strictEqual(error.name, type.name);
    assert.match(error.code, /^ERR_SNOWFLAKE_/);
    assert.ok(error.message.endsWith(`: ${address}: ${reason}`), error.message);
  }
});

test('an agent that one refuses is asked for of no other', async (t) => {
  const refuse = (call) => call.refuse(new InvalidUserAgentError({ message: 'no' }));
  const peers = [await peer(t, refuse), await peer(t, refuse)];
  const snowflake = client(t, peers.map(({ address }) => address));
  await failure(snowflake.nextId(), InvalidAgentError);
  assert.strictEqual(peers[0].calls.length + peers[1].calls.length, 1);
});

test('the error is that which tells most', async (t) => {
  const clock = (await peer(t, behind)).address;
  const late = (await peer(t, unavailable('no', 250))).address;
  const soon = (await peer(t, unavailable('no', 100))).address;
  const closing = (await peer(t, () => null)).address;
  const none = await dead(t);
  for (const [servers, type, retryAfterMs] of [
    [[none, clock, closing], ClockError],
    [[late, clock, soon, none], UnavailableError, 100],
    [[none, closing], UnreachableError],
  ]) {
    const { error } = await failure(client(t, servers).nextId(), type);
    assert.deepStrictEqual(error.attempts.map(({ server }) => server).sort(), servers.sort());
    assert.strictEqual(error.retryAfterMs, retryAfterMs);
  }
});

function size(number) {
  const bytes = Buffer.alloc(104);
  bytes.writeInt32BE(number);
  return bytes;
}

function replaced(message, from, to) {
  const at = message.indexOf(from);
  assert.ok(at >= 0);
  return framed(Buffer.concat([message.subarray(4, at), to, message.subarray(at + from.length)]));
}

const NESTED = Buffer.from('\x80\x01\x00\x02\x00\x00\x00\x0bget_id_runs', 'latin1');
const GARBAGE = {
  'a web server': () => 'HTTP/1.1 400 Bad Request\r\n\r\n',
  '2 GB': () => size(0x7fffffff),
  'a negative size': () => size(-1),
  'an empty frame': () => size(0),
  bytes: () => framed(Buffer.alloc(100, 0xff)),
  'half a message': (call) => framed(call.ids().subarray(4, -6)),
  'a list of 2 billion': (call) => replaced(call.ids(), Buffer.from([12, 0, 0, 0, 1]),
    Buffer.from([12, 127, 255, 255, 255])),
  'a name that is no text': (call) => replaced(call.ids(), Buffer.from(call.name),
    Buffer.alloc(call.name.length, 0xff)),
  'structs in structs': (call) => {
    const sequenceId = Buffer.alloc(4);
    sequenceId.writeInt32BE(call.sequenceId);
    return framed(Buffer.concat([NESTED, sequenceId,
      Buffer.from('\x0c\x00\x09'.repeat(300000), 'latin1')]));
  },
  'another sequence ID': (call) => call.ids({ sequenceId: call.sequenceId + 1 }),
  'another name': (call) => call.ids({ name: 'get_worker' }),
  'a call': (call) => replaced(call.ids(), Buffer.from([0x80, 1, 0, 2]), Buffer.from([0x80, 1, 0, 1])),
  nothing: (call) => call.reply(),
  'too few': (call) => call.ids({ count: 1 }),
  'too many': (call) => call.ids({ count: call.count + 1 }),
  'an ID of 0': (call) => call.ids({ first: 0 }),
  'an ID below 0': (call) => call.ids({ first: -5 }),
  'IDs beyond 63 bits': (call) => call.ids({ first: 2n ** 63n - 1n }),
  'a run of none': (call) => call.runs([[5, call.count], [99, 0]]),
  'a run of fewer than none': (call) => call.runs([[5, call.count + 1], [99, -1]]),
  'runs that overlap': (call) => call.runs([[5, call.count - 1], [5, 1]]),
  'an error of its own': (call) => call.exception(INTERNAL_ERROR, 'out of\r\ncheese\0'.repeat(50)),
  'no batch at all': (call) => call.refuse(new InvalidCount({ message: '0 at most' })),
  'a retry after nothing': (call) => call.refuse(new InvalidCount()),
};

for (const [name, answer] of Object.entries(GARBAGE)) {
  test(`garbage is an error, and another server is asked: ${name}`, async (t) => {
    const bad = await peer(t, answer);
    const { error } = await failure(
      client(t, bad.address, { prefetchMs: 0 }).nextIds(2), UnreachableError);
    assert.deepStrictEqual(error.attempts.map(({ server }) => server), [bad.address]);
    assert.ok(error.message.length < 400 && !/\p{C}/u.test(error.message), error.message);

    inOrder(t);
    const good = await peer(t);
    const both = client(t, [bad.address, good.address], { prefetchMs: 0 });
    assertIds(await both.nextIds(2), 2);
    assert.strictEqual(good.calls.length, 1);
  });
}

test('a connection that had a wrong reply is not used again', async (t) => {
  for (const name of ['bytes', 'another sequence ID', 'another name', 'too many', 'an ID of 0']) {
    const server = await peer(t, GARBAGE[name]);
    const snowflake = client(t, server.address, { prefetchMs: 0 });
    await failure(snowflake.nextIds(2), UnreachableError);
    server.answer = (call) => call.ids();
    assertIds(await snowflake.nextIds(2), 2);
    assert.strictEqual(server.connections, 2, name);
  }
});

test('a second reply is nobody\'s', async (t) => {
  const server = await peer(t, (call) => Buffer.concat([call.ids(), call.ids()]));
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  const ids = [];
  for (let n = 1; n <= 5; n += 1) {
    ids.push(await snowflake.nextId());
  }
  assert.strictEqual(server.connections, 5);
  assertIds(ids, 5);
});

test('a reply that comes late is nobody\'s', async (t) => {
  let late;
  const server = await peer(t, (call, socket) => {
    late = () => socket.write(call.ids({ first: 7 }));
  });
  const snowflake = client(t, server.address, { prefetchMs: 0, timeoutMs: SHORT_MS });
  await failure(snowflake.nextId(), SnowflakeTimeoutError);
  // the fetch ends by a timer of its own: what comes before it does is a reply in time
  await until(() => server.open === 0);
  late();
  server.answer = (call) => call.ids();
  assert.notStrictEqual(await snowflake.nextId(), '7');
  assert.strictEqual(server.connections, 2);
});

test('older servers', async (t) => {
  for (const [calls, names, count] of [
    [['get_ids', 'get_id'], ['get_id_runs', 'get_ids', 'get_ids'], 20000],
    [['get_id'], ['get_id_runs', 'get_ids', ...Array(250).fill('get_id')], 250],
  ]) {
    const server = await peer(t, (call) => (calls.includes(call.name) ? call.ids()
      : call.unknown()));
    const snowflake = client(t, server.address);
    assertIds(await snowflake.nextIds(count), count);
    assert.deepStrictEqual(server.calls.map(({ name }) => name), names);
    assert.strictEqual(server.connections, 1);
  }
});

test('a server with smaller batches', async (t) => {
  const server = await peer(t, (call) => (call.count <= 100 ? call.ids()
    : call.refuse(new InvalidCount({ message: '100 at most' }))));
  assertIds(await client(t, server.address).nextIds(1000), 1000);
  assert.strictEqual(server.calls.filter(({ count }) => count > 100).length, 4);
});

test('a client stays with the server that answers', async (t) => {
  const peers = [await peer(t), await peer(t), await peer(t)];
  const servers = peers.map(({ address }) => address);
  await take(client(t, servers, { prefetchMs: 0 }), 20);
  assert.deepStrictEqual(peers.map(({ calls }) => calls.length).sort(), [0, 0, 20]);
  for (let n = 0; n < 100 && peers.some(({ connections }) => connections === 0); n += 1) {
    await client(t, servers).nextId();
  }
  assert.ok(peers.every(({ connections }) => connections > 0));
});

test('clients do not all go on with the same one', async (t) => {
  const servers = await Promise.all([dead(t), dead(t), dead(t)]);
  const orders = new Set();
  for (let n = 0; n < 300 && orders.size < 6; n += 1) {
    const { error } = await failure(client(t, servers, { prefetchMs: 0 }).nextId());
    orders.add(error.attempts.map(({ server }) => server).join());
  }
  assert.strictEqual(orders.size, 6);
});

test('one that hangs has half of the time', async (t) => {
  inOrder(t);
  const clock = new Clock(t);
  const hanging = await peer(t, hang);
  const good = await peer(t);
  const snowflake = client(t, [hanging.address, good.address],
    { timeoutMs: 2 * SHORT_MS, prefetchMs: 0 });
  const call = snowflake.nextId();
  await until(() => hanging.calls.length === 1);
  await clock.advance(SHORT_MS - 1);
  assert.strictEqual(good.connections, 0);
  await clock.advance(1);
  await call;
  await take(snowflake, 10);
  assert.strictEqual(hanging.calls.length, 1);
});

test('one of many addresses that hang has half of the time, all together', async (t) => {
  inOrder(t);
  const clock = new Clock(t);
  const hanging = await peer(t, hang, 0, '0.0.0.0');
  const good = await peer(t);
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    process.nextTick(callback, null, ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map(
      (address) => ({ address, family: 4 })));
  });
  const name = `ids.example:${hanging.listener.address().port}`;
  const snowflake = client(t, [name, good.address], { timeoutMs: 4000 });
  const call = snowflake.nextId();
  for (const [n, shareMs] of [1000, 500, 500].entries()) { // of 2000 in all, and not 3500
    await until(() => hanging.calls.length === n + 1);
    assert.strictEqual(good.connections, 0);
    await clock.advance(shareMs);
  }
  await call;
  assert.strictEqual(hanging.calls.length, 3);
});

test('a server that is refused and one that hangs are a timeout', async (t) => {
  inOrder(t);
  const clock = new Clock(t);
  const hanging = await peer(t, hang);
  const servers = [await dead(t), hanging.address];
  for (let n = 1; n <= 5; n += 1) {
    const call = failure(client(t, servers, { timeoutMs: 50 }).nextId(), SnowflakeTimeoutError);
    await until(() => hanging.calls.length === n);
    await clock.advance(50);
    assert.deepStrictEqual((await call).error.attempts.map(({ server }) => server), servers);
  }
});

test('all hang: one deadline, and who was asked', async (t) => {
  const clock = new Clock(t);
  const peers = [await peer(t, hang), await peer(t, hang), await peer(t, hang)];
  const servers = peers.map(({ address }) => address);
  const call = failure(client(t, servers, { timeoutMs: 2000 }).nextId(), SnowflakeTimeoutError);
  for (const [n, shareMs] of [1000, 500, 500].entries()) {
    await until(() => peers.filter(({ calls }) => calls.length > 0).length === n + 1);
    await clock.advance(shareMs);
  }
  const { error, tookMs } = await call;
  assert.deepStrictEqual(error.attempts.map(({ server }) => server).sort(), servers.sort());
  assert.strictEqual(tookMs, 2000);
});

test('a call that waits for another\'s turn ends in its own time', async (t) => {
  const clock = new Clock(t);
  const server = await peer(t, hang);
  const snowflake = client(t, server.address, { timeoutMs: 400, prefetchMs: 0 });
  const calls = [];
  for (let n = 0; n < 4; n += 1) {
    calls.push(failure(snowflake.nextId(), SnowflakeTimeoutError));
    await until(() => server.calls.length === 1);
    await clock.advance(100);
  }
  for (const call of calls) {
    const { error, tookMs } = await call;
    assert.strictEqual(tookMs, 400);
    assert.ok(error.attempts.length > 0 && error.message.includes(server.address));
    await clock.advance(100);
  }
});

test('a crowd that waits gets its IDs once a far server is back', async (t) => {
  const server = await peer(t, hang);
  const snowflake = client(t, server.address, { timeoutMs: SHORT_MS, prefetchMs: 0 });
  const calls = [];
  let answered = 0;
  for (let n = 0; answered === 0; n += 1) { // a new call each time, so that some always wait
    assert.ok(n < 10000);
    calls.push(snowflake.nextId().then(() => {
      answered += 1;
    }, (error) => assert.ok(error instanceof SnowflakeTimeoutError)));
    await pause(SHORT_MS / 40);
    if (n === 60) {
      server.answer = (call, socket) => {
        setTimeout(() => socket.write(call.ids()), SHORT_MS / 5);
      };
    }
  }
  await Promise.all(calls);
});

test('a program that was busy for longer than the deadline has its ID', async (t) => {
  const clock = new Clock(t);
  const server = await peer(t);
  const snowflake = client(t, server.address, { timeoutMs: 100, prefetchMs: 0 });
  await snowflake.nextId();
  let answer;
  server.answer = (call, socket) => {
    answer = () => socket.write(call.ids());
  };
  const call = snowflake.nextId();
  await until(() => answer);
  await new Promise(setImmediate); // so that timers come next
  answer();
  await clock.advance(200);
  await call;
});

test('an old connection that breaks costs one retry', async (t) => {
  const server = await peer(t);
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  await snowflake.nextId();
  await server.breakConnections();
  await snowflake.nextId();
  assert.strictEqual(server.connections, 2);
  server.answer = () => {
    server.answer = (call) => call.ids();
    return null;
  };
  await snowflake.nextId();
  assert.strictEqual(server.connections, 3);
  server.answer = () => null;
  await failure(snowflake.nextId(), UnreachableError);
  assert.strictEqual(server.connections, 4);
});

test('one that failed rests', async (t) => {
  inOrder(t);
  const bad = await peer(t, () => null);
  const good = await peer(t);
  const snowflake = client(t, [bad.address, good.address], { prefetchMs: 0 });
  await take(snowflake, 3);
  await good.breakConnections();
  await take(snowflake, 3);
  assert.strictEqual(bad.calls.length, 1);
  good.answer = () => null; // those that rest are asked all the same, when no other serves
  const { error } = await failure(snowflake.nextId(), UnreachableError);
  assert.deepStrictEqual(error.attempts.map(({ server }) => server), [good.address, bad.address]);
});

test('nobody listens', async (t) => {
  const servers = [await dead(t), await dead(t)];
  const snowflake = client(t, servers);
  for (let n = 0; n < 3; n += 1) {
    const { error } = await failure(snowflake.nextId(), UnreachableError);
    assert.deepStrictEqual(error.attempts.map(({ reason }) => reason),
      Array(2).fill('connection refused'));
  }
  const nowhere = client(t, `unix:${path.join(os.tmpdir(), 'nobody-listens')}`);
  const { error } = await failure(nowhere.nextId(), UnreachableError);
  assert.strictEqual(error.attempts[0].reason, 'no such file or directory');
});

test('names, IPv6 and local sockets', async (t) => {
  const server = await peer(t);
  const { port } = server.listener.address();
  await client(t, `localhost:${port}`).nextId();
  const { error } = await failure(client(t, 'nobody.invalid').nextId(), UnreachableError);
  assert.match(error.attempts[0].reason, /^its name is not known/);

  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  t.after(() => fs.rmSync(directory, { recursive: true }));
  await peer(t, (call) => call.ids(), path.join(directory, 'socket'));
  await client(t, `unix:${directory}/socket`).nextId();
  await peer(t, (call) => call.ids(), `\0${directory}`);
  await client(t, `unix:@${directory}`).nextId();

  const six = await peer(t, (call) => call.ids(), 0, '::1');
  await client(t, `[::1]:${six.listener.address().port}`).nextId();
});

test('a name of many addresses: each is a place to try', async (t) => {
  const server = await peer(t, (call) => call.ids(), 0, '127.0.0.3');
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    assert.deepStrictEqual([host, options], ['ids.example', { all: true }]);
    process.nextTick(callback, null, ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map(
      (address) => ({ address, family: 4 })));
  });
  const snowflake = client(t, `ids.example:${server.listener.address().port}`, { prefetchMs: 0 });
  await take(snowflake, 10);
  server.close();
  const { error } = await failure(snowflake.nextId(), UnreachableError);
  assert.strictEqual(error.attempts.length, 3);
  assert.match(error.attempts[0].reason, /^127\.0\.0\.\d: connection refused$/);
});

test('a name server that does not answer', async (t) => {
  const lookup = t.mock.method(dns, 'lookup', () => {});
  const snowflake = client(t, 'ids.example', { timeoutMs: SHORT_MS });
  for (let n = 0; n < 2; n += 1) {
    const { error, tookMs } = await failure(snowflake.nextId(), SnowflakeTimeoutError);
    assert.match(error.message, /ids\.example/);
    assert.ok(tookMs >= 0.9 * SHORT_MS);
  }
  assert.strictEqual(lookup.mock.callCount(), 1); // the one that is under way still
  const closing = client(t, 'ids.example');
  const call = failure(closing.nextId(), ClosedError);
  closing.close();
  await call;
});

test('a name that was known before', async (t) => {
  const server = await peer(t, (call) => call.ids());
  let answer = (callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]);
  const lookup = t.mock.method(dns, 'lookup', (host, options, callback) => {
    process.nextTick(answer, callback);
  });
  const name = `ids.example:${server.listener.address().port}`;
  const clock = new Clock(t);
  const snowflake = client(t, name, { prefetchMs: 0, timeoutMs: 4 * SHORT_MS });
  await snowflake.nextId();
  const known = lookup.mock.callCount();
  answer = (callback) => callback(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
  for (let n = 0; n < 2; n += 1) { // it fails; then it rests
    await server.breakConnections();
    await snowflake.nextId();
  }
  assert.strictEqual(lookup.mock.callCount(), known + 1);
  answer = () => {};
  await server.breakConnections();
  await clock.advance(150); // the first rest is over
  const call = snowflake.nextId();
  await until(() => lookup.mock.callCount() === known + 2);
  await clock.advance(2 * SHORT_MS);
  await call;
});

/** Of a name: its address, which can change. */
function named(t, name) {
  const found = { address: '127.0.0.1' };
  const lookUp = dns.lookup;
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    if (host === name) {
      process.nextTick(callback, null, [{ address: found.address, family: 4 }]);
    } else {
      lookUp(host, options, callback);
    }
  });
  return found;
}

test('a name that moves, from a server that falls silent, or ends, to another', async (t) => {
  const found = named(t, 'ids.example');
  const clock = new Clock(t);
  const leaves = [(old) => old.close(), (old) => { old.answer = hang; }];
  for (const leave of leaves) {
    found.address = '127.0.0.1';
    const old = await peer(t);
    const { port } = old.listener.address();
    const moved = await peer(t, (call) => call.ids(), port, '127.0.0.2');
    const snowflake = client(t, `ids.example:${port}`, { prefetchMs: 0, timeoutMs: 4 * SHORT_MS });
    await snowflake.nextId();
    leave(old);
    found.address = '127.0.0.2';
    const call = snowflake.nextId();
    if (old.answer === hang) {
      await until(() => old.calls.length === 2);
      await clock.advance(2 * SHORT_MS);
    }
    await call;
    assert.deepStrictEqual([old.connections, moved.connections], [1, 1]);
  }
});

test('a name is asked again where only its connection was silent', async (t) => {
  named(t, 'ids.example');
  const clock = new Clock(t);
  const server = await peer(t);
  const name = `ids.example:${server.listener.address().port}`;
  const snowflake = client(t, name, { prefetchMs: 0, timeoutMs: 4 * SHORT_MS });
  await snowflake.nextId();
  server.answer = () => {
    server.answer = (call) => call.ids();
  };
  const call = snowflake.nextId();
  await until(() => server.calls.length === 2);
  await clock.advance(2 * SHORT_MS);
  await call;
  assert.strictEqual(server.connections, 2);
});

test('a name that stays silent has all of the time', async (t) => {
  named(t, 'ids.example');
  const clock = new Clock(t);
  const server = await peer(t);
  const name = `ids.example:${server.listener.address().port}`;
  const snowflake = client(t, name, { prefetchMs: 0, timeoutMs: SHORT_MS });
  await snowflake.nextId();
  server.answer = hang;
  const call = failure(snowflake.nextId(), SnowflakeTimeoutError);
  for (const calls of [2, 3]) {
    await until(() => server.calls.length === calls);
    await clock.advance(SHORT_MS / 2);
  }
  assert.strictEqual((await call).tookMs, SHORT_MS);
});

test('what a long batch has left, the servers share', async (t) => {
  inOrder(t);
  const clock = new Clock(t);
  const slow = await peer(t);
  const good = await peer(t);
  const snowflake = client(t, [slow.address, good.address], { prefetchMs: 0, timeoutMs: 5000 });
  let answer;
  slow.answer = (call, socket) => {
    answer = () => socket.write(call.ids());
  };
  const ids = snowflake.nextIds(30000);
  for (const [n, tookMs] of [1500, 1250].entries()) { // and then it answers no more
    await until(() => slow.calls.length === n + 1);
    await clock.advance(tookMs);
    answer();
  }
  await until(() => slow.calls.length === 3);
  await clock.advance(1125); // half of what is left
  await ids;
  assert.deepStrictEqual([slow.calls.length, good.calls.length], [3, 1]);
});

test('a port that connects to itself is refused', async (t) => {
  // as if the port that it tries were the one that it got
  const server = await peer(t, hang);
  const connect = net.connect.bind(net);
  t.mock.method(net, 'connect', (options, listener) => {
    const socket = connect(options, listener);
    Object.defineProperty(socket, 'localPort', { get: () => socket.remotePort });
    return socket;
  });
  const { error } = await failure(client(t, server.address).nextId(), UnreachableError);
  assert.strictEqual(error.attempts[0].reason, 'connection refused');
});

test('a reply in pieces is a reply', async (t) => {
  const server = await peer(t, (call, socket) => {
    const bytes = [...call.ids()];
    socket.setNoDelay(true);
    const drip = setInterval(() => (bytes.length > 0 ? socket.write(Buffer.from([bytes.shift()]))
      : clearInterval(drip)), 1);
  });
  assertIds(await client(t, server.address).nextIds(3), 3);
});
