// SPDX-License-Identifier: Apache-2.0
'use strict';
// Which server is asked when, and how its replies are checked. The servers are sockets that answer as
// a test tells them; the clock stands still until a test moves it.
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
} = require('./generated/snowflake_types');
const {
  Clock, assertIds, client, dead, failure, failureInTime, framed, inOrder, peer, take, until,
} = require('./support');

const { INTERNAL_ERROR } = Thrift.TApplicationExceptionType;
const SHORT_MS = 400;

const unavailable = (message, ms) => (call) => call.refuse(
  new WorkerIdUnavailable({ message, retry_after_ms: new Int64(ms) }));
const behind = (call) => call.refuse(new InvalidSystemClock({ message: 'behind' }));
const legacy = (message) => (call) => (call.name === 'get_id'
  ? call.exception(INTERNAL_ERROR, message) : call.unknown());
const hang = () => undefined;

test('an exception of a server is an error of its own type', async (t) => {
  for (const [answer, type, reason, retryAfterMs] of [
    [unavailable('no worker ID', 250), UnavailableError, 'no worker ID', 250],
    [(call) => call.refuse(new WorkerIdUnavailable()), UnavailableError, 'it has no IDs'],
    [unavailable('no', 0), UnavailableError, 'no'],
    [unavailable('no', -1), UnavailableError, 'no'],
    [behind, ClockError, 'behind'],
    [legacy('WorkerIdUnavailable: why: so'), UnavailableError, 'why: so'],
    [legacy('InvalidSystemClock: why: so'), ClockError, 'why: so'],
    [legacy('InvalidUserAgentError: no'), InvalidAgentError, 'no'],
    [legacy('oh\r\nno'), UnreachableError, 'it says: oh  no'],
    [() => null, UnreachableError, 'the server closed the connection'],
  ]) {
    const { address } = await peer(t, answer);
    const error = await failureInTime(t, address, type);
    assert.deepStrictEqual(error.attempts, [{ server: address, reason, cause: undefined }]);
    assert.strictEqual(error.retryAfterMs, retryAfterMs);
    assert.strictEqual(error.name, type.name);
    assert.match(error.code, /^ERR_SNOWFLAKE_/);
    assert.ok(error.message.endsWith(`: ${address}: ${reason}`), error.message);
  }
});

test('if a server refuses the agent, no other server is asked', async (t) => {
  const refuse = (call) => call.refuse(new InvalidUserAgentError({ message: 'no' }));
  const peers = [await peer(t, refuse), await peer(t, refuse)];
  const error = await failureInTime(t, peers.map(({ address }) => address), InvalidAgentError);
  assert.match(error.message, /^a server refused the agent test: /);
  assert.strictEqual(peers[0].calls.length + peers[1].calls.length, 1);
});

test('the error is the one that tells most', async (t) => {
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
    const error = await failureInTime(t, servers, type);
    assert.deepStrictEqual(error.attempts.map(({ server }) => server).sort(), servers.sort());
    assert.strictEqual(error.retryAfterMs, retryAfterMs);
  }
});

test('errors have the cause', async (t) => {
  const none = await dead(t);
  const error = await failureInTime(t, none, UnreachableError);
  assert.strictEqual(error.cause.code, 'ECONNREFUSED');
  assert.strictEqual(error.attempts[0].cause, error.cause);
  assert.strictEqual(error.message, 'no server could be reached within 2000 ms: '
    + `${none}: connection refused`);
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
  'a name that is not text': (call) => replaced(call.ids(), Buffer.from(call.name),
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
  test(`a wrong reply is an error, and another server is asked: ${name}`, async (t) => {
    const bad = await peer(t, answer);
    const error = await failureInTime(t, bad.address, UnreachableError, { count: 2 });
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
  const clock = Clock.of(t);
  for (const name of ['bytes', 'another sequence ID', 'another name', 'too many', 'an ID of 0']) {
    const server = await peer(t, GARBAGE[name]);
    const snowflake = client(t, server.address, { prefetchMs: 0 });
    const call = snowflake.nextIds(2);
    await until(() => snowflake.stats().failures === 1);
    server.answer = (call) => call.ids();
    await clock.advance(125);
    assertIds(await call, 2);
    assert.strictEqual(server.connections, 2, name);
  }
});

test('a second reply is ignored', async (t) => {
  const server = await peer(t, (call) => Buffer.concat([call.ids(), call.ids()]));
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  const ids = [];
  for (let n = 1; n <= 5; n += 1) {
    ids.push(await snowflake.nextId());
  }
  assert.strictEqual(server.connections, 5);
  assertIds(ids, 5);
});

test('a reply after the time limit is ignored', async (t) => {
  const clock = Clock.of(t);
  let reply;
  const server = await peer(t, (call, socket) => {
    reply = () => socket.write(call.ids({ first: 7 }));
  });
  const snowflake = client(t, server.address, { prefetchMs: 0, timeoutMs: 200 });
  const late = failure(snowflake.nextId(), SnowflakeTimeoutError);
  await until(() => reply);
  await clock.advance(200);
  await late;
  await until(() => server.open === 0);
  reply();
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
    const error = await failureInTime(t, servers, UnreachableError);
    orders.add(error.attempts.map(({ server }) => server).join());
  }
  assert.strictEqual(orders.size, 6);
});

/** Resolves once a peer has `count` calls; the clock stands still meanwhile. */
const called = (one, count = 1) => until(() => one.calls.length === count);

test('a call whose server hangs tries the next one after 250 ms', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const hanging = await peer(t, hang);
  const good = await peer(t);
  const snowflake = client(t, [hanging.address, good.address], { timeoutMs: 1000, prefetchMs: 0 });
  const call = snowflake.nextId();
  await called(hanging);
  await clock.advance(249);
  assert.strictEqual(good.connections, 0);
  await clock.advance(1);
  await call;
  await take(snowflake, 10); // it stays with that one
  assert.deepStrictEqual([hanging.calls.length, good.calls.length], [1, 11]);
});

test('an attempt has eight round trips, 100 to 250 ms', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  for (const [roundTripMs, lateMs] of [[0, 100], [20, 160], [100, 250]]) {
    const near = await peer(t, hang);
    const good = await peer(t);
    const snowflake = client(t, [near.address, good.address], { prefetchMs: 0 });
    let answer;
    near.answer = (call, socket) => {
      answer = () => socket.write(call.ids());
    };
    const first = snowflake.nextId();
    await called(near);
    await clock.advance(roundTripMs);
    answer();
    await first;
    const second = snowflake.nextId();
    await called(near, 2);
    await clock.advance(lateMs - 1);
    assert.strictEqual(good.connections, 0);
    await clock.advance(1);
    await second;
  }
});

test('calls with 100 ms each fail over from a server that hangs', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const [hanging, good] = [await peer(t, hang), await peer(t)];
  const snowflake = client(t, [hanging.address, good.address], { prefetchMs: 0 });
  for (let n = 0; n < 2; n += 1) {
    const call = failure(snowflake.nextId({ timeoutMs: 100 }), SnowflakeTimeoutError);
    await called(hanging);
    await clock.advance(100);
    assert.strictEqual((await call).message,
      `no server answered within 100 ms: ${hanging.address}: no answer`);
  }
  const call = snowflake.nextId({ timeoutMs: 100 });
  await clock.advance(50);
  await call;
});

test('a late answer counts, and the other attempts end', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const peers = [await peer(t, hang), await peer(t, hang)];
  let answer;
  peers[0].answer = (call, socket) => {
    answer = () => socket.write(call.ids());
  };
  const snowflake = client(t, peers.map(({ address }) => address), { prefetchMs: 0 });
  const call = snowflake.nextId();
  await called(peers[0]);
  await clock.advance(250);
  await called(peers[1]);
  answer();
  await call;
  await until(() => peers[1].open === 0);
  assert.deepStrictEqual([peers[0].open, snowflake.stats().failovers], [1, 0]);
});

test('the only server can be slow', async (t) => {
  const clock = Clock.of(t);
  let answer;
  const server = await peer(t, (call, socket) => {
    answer = () => socket.write(call.ids());
  });
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  const call = snowflake.nextId();
  await called(server);
  for (let n = 0; n < 8; n += 1) {
    await clock.advance(250);
  }
  answer();
  await call;
  assert.strictEqual(server.calls.length, 1);
});

test('an attempt ends after ten attempt timeouts', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const server = await peer(t, hang);
  const snowflake = client(t, server.address, { prefetchMs: 0, timeoutMs: 60000 });
  const call = snowflake.nextId();
  await called(server);
  await clock.advance(250);
  await clock.advance(2249);
  assert.strictEqual(server.connections, 1);
  server.answer = (one) => one.ids();
  await clock.advance(1);
  await clock.advance(250); // the second backoff
  await call;
  assert.strictEqual(server.connections, 2);
});

test('each address of a name is an endpoint', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const hanging = await peer(t, hang, 0, '0.0.0.0');
  const good = await peer(t);
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    assert.deepStrictEqual([host, options], ['ids.example', { all: true }]);
    process.nextTick(callback, null, ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map(
      (address) => ({ address, family: 4 })));
  });
  const name = `ids.example:${hanging.listener.address().port}`;
  const snowflake = client(t, [name, good.address], { prefetchMs: 0 });
  const call = snowflake.nextId();
  for (let n = 1; n <= 3; n += 1) {
    await called(hanging, n);
    assert.strictEqual(good.connections, 0);
    await clock.advance(250);
  }
  await call;
  assert.strictEqual(hanging.calls.length, 3);
});

test('a server that refuses connections and one that hangs are a timeout', async (t) => {
  inOrder(t);
  const servers = [await dead(t), (await peer(t, hang)).address];
  const clock = Clock.of(t);
  const snowflake = client(t, servers, { timeoutMs: 1000, prefetchMs: 0 });
  const call = failure(snowflake.nextId(), SnowflakeTimeoutError);
  await until(() => snowflake.stats().failures === 1);
  for (let n = 0; n < 4; n += 1) {
    await clock.advance(250);
  }
  assert.deepStrictEqual((await call).attempts.map(({ server }) => server).sort(), servers.sort());
});

test('all servers hang: each is tried, and the call ends in time', async (t) => {
  const clock = Clock.of(t);
  const peers = [await peer(t, hang), await peer(t, hang), await peer(t, hang)];
  const servers = peers.map(({ address }) => address);
  const call = failure(client(t, servers, { timeoutMs: 2000 }).nextId(), SnowflakeTimeoutError);
  for (const [n, ms] of [250, 250, 1500].entries()) {
    await until(() => peers.filter(({ calls }) => calls.length > 0).length === n + 1);
    await clock.advance(ms);
  }
  const error = await call;
  assert.deepStrictEqual(error.attempts.map(({ server }) => server).sort(), servers.sort());
  assert.match(error.message, /^no server answered within 2000 ms: /);
});

test('dead servers: attempts are paced, however many calls wait', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const snowflake = client(t, await dead(t), { timeoutMs: 300, prefetchMs: 0 });
  let isOver = false;
  const errors = [];
  const callers = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      errors.push(await failure(snowflake.nextId(), UnreachableError));
    }
  });
  await until(() => snowflake.stats().failures === 1);
  for (let n = 0; n < 10000 / 25; n += 1) {
    await clock.advance(25);
    await new Promise(setImmediate); // a refused connection
  }
  isOver = true;
  await clock.advance(300);
  await Promise.all(callers);
  // after 125, 250, 500, 1000 and 1250 ms
  assert.ok(snowflake.stats().failures <= 13, `${snowflake.stats().failures} attempts`);
  assert.ok(errors.length > 8);
});

test('a server that restarts within the time limit serves the call', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const address = await dead(t); // no other program gets this port
  const { hostname, port } = new URL(`tcp://${address}`);
  const server = await peer(t, (one) => one.ids(), port, hostname);
  const snowflake = client(t, address, { timeoutMs: 1000, prefetchMs: 0 });
  await snowflake.nextId();
  server.close();
  await until(() => server.open === 0);
  const call = snowflake.nextId();
  await until(() => snowflake.stats().failures > 0);
  await peer(t, (one) => one.ids(), port, hostname);
  await clock.advance(300);
  await call;
});

test('a server without IDs is asked again when it says, within a second', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const server = await peer(t, unavailable('no', 400));
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  const call = snowflake.nextId();
  await until(() => snowflake.stats().failures === 1);
  server.answer = (one) => one.ids();
  await clock.advance(499);
  assert.strictEqual(server.calls.length, 1);
  await clock.advance(1); // 400 ms and a quarter
  await call;
});

test('each call ends in its own time', async (t) => {
  const clock = Clock.of(t);
  const server = await peer(t, hang);
  const snowflake = client(t, server.address, { timeoutMs: 400, prefetchMs: 0 });
  const calls = [];
  for (let n = 0; n < 4; n += 1) {
    const began = performance.now();
    calls.push(failure(snowflake.nextId(), SnowflakeTimeoutError).then((error) => {
      assert.ok(error.message.includes(server.address));
      return performance.now() - began;
    }));
    await called(server);
    await clock.advance(100);
  }
  for (const call of calls) {
    assert.strictEqual(await call, 400);
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
  const clock = Clock.of(t);
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

test('a reused connection that ends costs one retry', async (t) => {
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
  assert.strictEqual(snowflake.stats().failures, 0);
});

test('the only server is asked on a new connection after a wrong reply on a reused one', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const server = await peer(t);
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  await snowflake.nextId();
  server.answer = () => {
    server.answer = (call) => call.ids();
    return framed(Buffer.alloc(100, 0xff));
  };
  await snowflake.nextId(); // the clock stands still, so there was no backoff
  assert.deepStrictEqual([server.connections, snowflake.stats().failures], [2, 1]);
  server.answer = () => framed(Buffer.alloc(100, 0xff));
  const call = snowflake.nextId();
  await until(() => snowflake.stats().failures === 3);
  server.answer = (one) => one.ids();
  await clock.advance(249); // the second backoff, after the failure on a new connection
  assert.strictEqual(server.connections, 3);
  await clock.advance(1);
  await call;
});

test('a server that failed is not used during its backoff', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const [bad, good] = [await peer(t, () => null), await peer(t)];
  const snowflake = client(t, [bad.address, good.address], { prefetchMs: 0 });
  await take(snowflake, 3);
  await good.breakConnections();
  await take(snowflake, 3);
  assert.strictEqual(bad.calls.length, 1);
  good.answer = () => null;
  bad.answer = (call) => call.ids();
  const call = snowflake.nextId();
  await until(() => snowflake.stats().failures === 2);
  assert.strictEqual(bad.calls.length, 1);
  await clock.advance(125);
  await call;
  assert.strictEqual(bad.calls.length, 2);
});

test('servers that do not listen', async (t) => {
  const servers = [await dead(t), await dead(t)];
  const error = await failureInTime(t, servers, UnreachableError);
  assert.deepStrictEqual(error.attempts.map(({ reason }) => reason),
    Array(2).fill('connection refused'));
  const nowhere = await failureInTime(t, `unix:${path.join(os.tmpdir(), 'nobody-listens')}`,
    UnreachableError);
  assert.strictEqual(nowhere.attempts[0].reason, 'no such file or directory');
});

test('names, IPv6 and local sockets', async (t) => {
  const server = await peer(t);
  const { port } = server.listener.address();
  await client(t, `localhost:${port}`).nextId();
  const error = await failureInTime(t, 'nobody.invalid', UnreachableError);
  assert.match(error.attempts[0].reason, /^its name cannot be resolved/);

  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  t.after(() => fs.rmSync(directory, { recursive: true }));
  await peer(t, (call) => call.ids(), path.join(directory, 'socket'));
  await client(t, `unix:${directory}/socket`).nextId();
  await peer(t, (call) => call.ids(), `\0${directory}`);
  await client(t, `unix:@${directory}`).nextId();

  const six = await peer(t, (call) => call.ids(), 0, '::1');
  await client(t, `[::1]:${six.listener.address().port}`).nextId();
});

test('a DNS server that does not answer', async (t) => {
  const lookup = t.mock.method(dns, 'lookup', () => {});
  const clock = Clock.of(t);
  const snowflake = client(t, 'ids.example', { timeoutMs: 400 });
  for (let n = 0; n < 2; n += 1) {
    const call = failure(snowflake.nextId(), SnowflakeTimeoutError);
    await clock.advance(400);
    assert.match((await call).message, /: ids\.example: its name is not resolved$/);
  }
  assert.strictEqual(lookup.mock.callCount(), 1); // it is still under way
  const closing = client(t, 'ids.example');
  const call = failure(closing.nextId(), ClosedError);
  closing.close();
  await call;
});

test('a name that no longer resolves keeps its addresses', async (t) => {
  inOrder(t);
  const server = await peer(t, (call) => call.ids());
  let answer = (callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]);
  const lookup = t.mock.method(dns, 'lookup', (host, options, callback) => {
    process.nextTick(answer, callback);
  });
  const name = `ids.example:${server.listener.address().port}`;
  const clock = Clock.of(t);
  const snowflake = client(t, name, { prefetchMs: 0 });
  await snowflake.nextId();
  const known = lookup.mock.callCount();
  answer = (callback) => callback(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
  for (let n = 0; n < 2; n += 1) { // it fails; then there is a backoff
    await server.breakConnections();
    await snowflake.nextId();
  }
  assert.strictEqual(lookup.mock.callCount(), known + 1);
  answer = () => {};
  await server.breakConnections();
  await clock.advance(125);
  const call = snowflake.nextId();
  await until(() => lookup.mock.callCount() === known + 2);
  await clock.advance(100);
  await call;
});

/** The address of a name, which can change. */
function named(t, name) {
  const found = { address: '127.0.0.1' };
  const { lookup } = dns;
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    if (host === name) {
      process.nextTick(callback, null, [{ address: found.address, family: 4 }]);
    } else {
      lookup(host, options, callback);
    }
  });
  return found;
}

test('a name that moves from a server that hangs, or ends', async (t) => {
  inOrder(t);
  const found = named(t, 'ids.example');
  const clock = Clock.of(t);
  for (const leave of [(old) => old.close(), (old) => { old.answer = hang; }]) {
    found.address = '127.0.0.1';
    const old = await peer(t);
    const { port } = old.listener.address();
    const moved = await peer(t, (call) => call.ids(), port, '127.0.0.2');
    const snowflake = client(t, `ids.example:${port}`, { prefetchMs: 0 });
    await snowflake.nextId();
    leave(old);
    found.address = '127.0.0.2';
    const call = snowflake.nextId();
    if (old.answer === hang) {
      await called(old, 2);
      await clock.advance(100);
      await clock.advance(125);
    }
    await call;
    assert.deepStrictEqual([old.connections, moved.connections], [1, 1]);
  }
});

test('a server is asked on a new connection if only the reused one is silent', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const server = await peer(t);
  const snowflake = client(t, server.address, { prefetchMs: 0 });
  await snowflake.nextId();
  server.answer = () => {
    server.answer = (call) => call.ids();
  };
  const call = snowflake.nextId();
  await called(server, 2);
  await clock.advance(100);
  await clock.advance(125);
  await call;
  assert.strictEqual(server.connections, 2);
});

test('the batches of a call can come from several servers', async (t) => {
  inOrder(t);
  const clock = Clock.of(t);
  const slow = await peer(t);
  const good = await peer(t);
  const snowflake = client(t, [slow.address, good.address], { prefetchMs: 0, timeoutMs: 5000 });
  let answer;
  slow.answer = (call, socket) => {
    answer = () => socket.write(call.ids());
  };
  const ids = snowflake.nextIds(30000);
  for (let n = 1; n <= 2; n += 1) {
    await called(slow, n);
    answer();
  }
  await called(slow, 3); // it does not answer
  await clock.advance(100);
  await ids;
  assert.deepStrictEqual([slow.calls.length, good.calls.length], [3, 1]);
});

test('a port that connects to itself does not answer', async (t) => {
  const server = await peer(t, (call) => call.frame); // as a connection to itself would
  const error = await failureInTime(t, server.address, UnreachableError);
  assert.match(error.attempts[0].reason, /^not a reply: .* of kind 1, /);
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
