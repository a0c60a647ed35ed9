// SPDX-License-Identifier: Apache-2.0
'use strict';
// The client with real servers.
const assert = require('node:assert');
const { channel } = require('node:diagnostics_channel');
const net = require('node:net');
const { test } = require('node:test');
const {
  ClosedError, InvalidAgentError, Snowflake, SnowflakeTimeoutError, decode,
} = require('..');
const {
  Clock, assertIds, client, dead, failure, inOrder, peer, server, take, until,
} = require('./support');

test('IDs are strings, or BigInts', async (t) => {
  const address = await server(t);
  for (const prefetchMs of [50, 0]) {
    const strings = client(t, address, { prefetchMs });
    const bigints = client(t, address, { prefetchMs, bigint: true });
    for (const id of [...await take(strings, 300), ...await strings.nextIds(3)]) {
      assert.match(id, /^[1-9][0-9]{15,18}$/);
    }
    for (const id of [...await take(bigints, 300), ...await bigints.nextIds(3)]) {
      assert.strictEqual(typeof id, 'bigint');
    }
    const { time, worker } = decode(await strings.nextId());
    assert.ok(Math.abs(time - Date.now()) < 5000);
    assert.strictEqual(worker, 0);
  }
});

test('IDs of one caller increase, one by one and in batches', async (t) => {
  const address = await server(t);
  for (const prefetchMs of [50, 0]) {
    const snowflake = client(t, address, { prefetchMs });
    const ids = [];
    for (const count of [1, 5, 12000, 100, 1]) {
      ids.push(...await snowflake.nextIds(count), ...await take(snowflake, 200));
    }
    assertIds(ids, 12107 + 1000);
  }
});

test('callers at the same time get IDs of their own', async (t) => {
  const address = await server(t);
  for (const prefetchMs of [50, 0]) {
    const snowflake = client(t, address, { prefetchMs });
    const taken = await Promise.all([
      ...Array.from({ length: 8 }, () => take(snowflake, 2000)), snowflake.nextIds(25000)]);
    taken.forEach((ids) => assertIds(ids, ids.length));
    assert.strictEqual(new Set(taken.flat()).size, 8 * 2000 + 25000);
  }
});

test('prefetched IDs are given at once', async (t) => {
  const snowflake = client(t, await server(t), { maxAgeMs: 60000 });
  await take(snowflake, 1000);
  let isTurned = false;
  for (;;) { // until the event loop has not turned for a hundred IDs
    isTurned = false;
    setImmediate(() => {
      isTurned = true;
    });
    await take(snowflake, 100);
    if (!isTurned) {
      break;
    }
  }
});

test('a large batch does not delay the calls after it', async (t) => {
  const snowflake = client(t, (await peer(t)).address);
  const ended = [];
  const noted = (name, call) => call.finally(() => ended.push(name));
  const many = noted('many', snowflake.nextIds(100000));
  await Promise.all([noted('one', snowflake.nextId()), noted('ten', snowflake.nextIds(10))]);
  assertIds(await many, 100000);
  assert.deepStrictEqual(ended, ['one', 'ten', 'many']);
});

test('close ends calls at once', async (t) => {
  const hanging = await peer(t, () => undefined);
  for (const prefetchMs of [50, 0]) {
    const snowflake = client(t, hanging.address, { prefetchMs });
    const calls = [snowflake.nextId(), snowflake.nextIds(5), snowflake.nextId()];
    const failures = calls.map((call) => failure(call, ClosedError));
    await until(() => hanging.open > 0);
    snowflake.close();
    await Promise.all(failures);
    await failure(snowflake.nextId(), ClosedError);
    await failure(snowflake.nextIds(5), ClosedError);
    snowflake.close();
    await until(() => hanging.open === 0);
  }
});

test('interfaces', async (t) => {
  for (const zone of ['br-lan', 'eth0.100', '0123456789abcde']) {
    client(t, `[fe80::7%${zone}]:1`);
  }
});

test('an interface that Node.js cannot use', {
  skip: net.isIPv6('fe80::7%a_b') && 'this version can',
}, () => {
  assert.throws(() => new Snowflake('[fe80::7%a_b]:1', { agent: 'test' }), {
    name: 'TypeError', message: /^server "\[fe80::7%a_b\]:1": .*interface a_b, .*; rename/,
  });
});

test('arguments that cannot be', async (t) => {
  for (const agent of ['', '9bad', 'a b', 'a'.repeat(257), 'ä', 'a\n', 7]) {
    assert.throws(() => new Snowflake('a.example', { agent }), InvalidAgentError);
  }
  for (const wrong of ['', ':1', 'a b', 'a:0', 'a:65536', 'a:1:2', '[::1', '[1.2.3.4]', '[a]:1',
    'http://a', 'unix:', 'unix:a', `unix:/${'a'.repeat(200)}`, 'tls:',
    '[fe80::7%]', '[fe80::7%a/b]', '[fe80::7%0123456789abcdef]', '[1.2.3.4%lo]', [], [7], [[]], 7,
    'a,,b', 'snowflake://', 'snowflake://a/?timeoutMs=5', 'snowflake://a/?tls=x',
    'snowflake://user@a', 'snowflakes://unix:/a']) {
    assert.throws(() => new Snowflake(wrong, { agent: 'test' }), TypeError, String(wrong));
  }
  for (const [options, type] of [
    [{ timeoutMs: 0 }, RangeError], [{ timeoutMs: NaN }, RangeError],
    [{ timeoutMs: 3600001 }, RangeError], [{ timeoutMs: '5' }, RangeError],
    [{ prefetchMs: -1 }, RangeError], [{ prefetchMs: 501 }, RangeError],
    [{ maxAgeMs: 99 }, RangeError],
    [{ attemptTimeoutMs: 0 }, RangeError], [{ tls: 'ca.pem' }, TypeError], [{ timeout: 5 }, TypeError],
  ]) {
    assert.throws(() => new Snowflake('a.example', { agent: 'test', ...options }), type,
      JSON.stringify(options));
  }
  for (const query of ['timeout_ms=', 'timeout_ms=0', 'prefetch_ms=x', 'max_age_ms=9']) {
    assert.throws(() => new Snowflake(`snowflake://a/?${query}`), RangeError, query);
  }
  assert.throws(() => new Snowflake('tls:a.example', { agent: 'test', tls: { ca: 'ca.pem' } }),
    TypeError);
  const snowflake = new Snowflake(undefined, { agent: 'a-9', prefetchMs: 0, maxAgeMs: 1 });
  for (const count of [0, -1, 1.5, NaN, '3', 3n, undefined]) {
    await assert.rejects(snowflake.nextIds(count), RangeError);
  }
});

test('an AbortSignal ends the call and leaves the others', async (t) => {
  const hanging = await peer(t, () => undefined);
  const snowflake = client(t, hanging.address);
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [snowflake.nextId({ signal }), snowflake.nextIds(3, { signal })];
  const other = snowflake.nextId();
  const reason = new Error('no longer needed');
  controller.abort(reason);
  for (const call of calls) {
    await assert.rejects(call, (error) => error === reason);
  }
  assert.strictEqual(snowflake.stats().waiting, 1);
  await assert.rejects(snowflake.nextId({ signal }), (error) => error === reason);
  await assert.rejects(snowflake.nextIds(3, { signal }), (error) => error === reason);
  snowflake.close();
  await failure(other, ClosedError);
});

test('a signal keeps no call once it has ended', async (t) => {
  const snowflake = client(t, (await peer(t)).address, { prefetchMs: 0 });
  const { signal } = new AbortController();
  const [add, remove] = ['addEventListener', 'removeEventListener'].map(
    (name) => t.mock.method(signal, name));
  await snowflake.nextId({ signal });
  await snowflake.nextIds(3, { signal });
  assert.deepStrictEqual([add.mock.callCount(), remove.mock.callCount()], [2, 2]);
});

test('a call can have a time limit of its own', async (t) => {
  const clock = Clock.of(t);
  const hanging = await peer(t, () => undefined);
  const snowflake = client(t, hanging.address, { timeoutMs: 60000 });
  const error = failure(snowflake.nextId({ timeoutMs: 50 }), SnowflakeTimeoutError);
  await clock.advance(50);
  assert.match((await error).message, /^no server answered within 50 ms: /);
  for (const timeoutMs of [0, -1, NaN, '5', 3600001]) {
    await assert.rejects(snowflake.nextId({ timeoutMs }), RangeError);
  }
});

test('the class can be extended', async (t) => {
  class Prefixed extends Snowflake {
    async nextId(options) {
      return `order-${await super.nextId(options)}`;
    }
  }
  const snowflake = new Prefixed((await peer(t)).address);
  assert.match(await snowflake.nextId(), /^order-\d+$/);
  assert.ok(snowflake instanceof Snowflake);
  snowflake[Symbol.dispose]();
  await failure(snowflake.nextId(), ClosedError);
});

test('stats() counts what the client did', async (t) => {
  inOrder(t);
  const [none, good] = [await dead(t), await peer(t)];
  const snowflake = client(t, [none, good.address], { prefetchMs: 0 });
  assert.deepStrictEqual(snowflake.stats(), {
    server: undefined, prefetched: 0, taken: 0, discarded: 0, waiting: 0, refills: 0, failures: 0,
    failovers: 0,
  });
  await snowflake.nextIds(3);
  await snowflake.nextId();
  assert.deepStrictEqual(snowflake.stats(), {
    server: good.address, prefetched: 0, taken: 4, discarded: 0, waiting: 0, refills: 2,
    failures: 1, failovers: 0,
  });
});

test('failed attempts and failovers are published', async (t) => {
  inOrder(t);
  const events = [];
  for (const name of ['snowflake-client:attempt-failed', 'snowflake-client:failover']) {
    const listen = (event) => events.push([name.split(':')[1], event]);
    channel(name).subscribe(listen);
    t.after(() => channel(name).unsubscribe(listen));
  }
  const [first, second] = [await peer(t), await peer(t)];
  const snowflake = client(t, [first.address, second.address], { prefetchMs: 0 });
  await snowflake.nextId();
  first.answer = () => null;
  await first.breakConnections();
  await snowflake.nextId();
  const attempt = {
    server: first.address, reason: 'the server closed the connection', cause: undefined,
  };
  assert.deepStrictEqual(events, [
    ['attempt-failed', attempt],
    ['failover', { from: first.address, to: second.address, attempts: [attempt] }],
  ]);
  assert.strictEqual(snowflake.stats().failovers, 1);
});

test('servers of the environment, in a list and in a URL', async (t) => {
  const one = await peer(t);
  t.after(() => delete process.env.SNOWFLAKE_SERVERS);
  for (const [servers, agent] of [
    [`${one.address}`], [`${one.address}, ${one.address}`], [`snowflake://${one.address}`],
    [`snowflake://${one.address},${one.address}/?agent=in-url`, 'in-url'],
  ]) {
    process.env.SNOWFLAKE_SERVERS = servers;
    for (const given of [undefined, servers, [servers]]) {
      await client(t, given, { agent: undefined }).nextId();
      assert.strictEqual(one.calls.pop().agent, agent ?? 'client-test');
    }
  }
  // options of the constructor override those of the URL
  await client(t, `snowflake://${one.address}?agent=a`, { agent: 'given' }).nextId();
  assert.strictEqual(one.calls.pop().agent, 'given');
  const clock = Clock.of(t);
  one.answer = () => undefined;
  const slow = new Snowflake(`snowflake://${one.address}/?timeout_ms=70&prefetch_ms=0`);
  const error = failure(slow.nextId(), SnowflakeTimeoutError);
  await clock.advance(70);
  assert.match((await error).message, /^no server answered within 70 ms: /);
});

test('the default agent is the name of the script', async (t) => {
  const one = await peer(t);
  const { argv } = process;
  t.after(() => {
    process.argv = argv;
  });
  for (const [script, agent] of [
    ['/srv/shop.js', 'shop'], ['/srv/2 my_shop.v2.mjs', 'my-shop-v2'], [`/${'a'.repeat(300)}`,
      'a'.repeat(256)], ['/srv/\u00e4.js', 'node'], [undefined, 'node'],
  ]) {
    process.argv = ['node', script];
    await client(t, one.address, { agent: undefined }).nextId();
    assert.strictEqual(one.calls.pop().agent, agent);
  }
});
