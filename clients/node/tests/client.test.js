// SPDX-License-Identifier: Apache-2.0
'use strict';
// The client with real servers.
const assert = require('node:assert');
const { test } = require('node:test');
const {
  ClosedError, InvalidAgentError, Snowflake, decode,
} = require('..');
const {
  assertIds, client, failure, peer, server, take, until,
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

test('what is in hand is given at once', async (t) => {
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

test('many at once do not hold up the calls behind them', async (t) => {
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
  for (const zone of ['br-lan', 'eth0.100', 'a_b', '0123456789abcde']) {
    client(t, `[fe80::7%${zone}]:1`);
  }
});

test('arguments that cannot be', async (t) => {
  for (const agent of ['', '9bad', 'a b', 'a'.repeat(257), 'ä', 'a\n', 7, undefined]) {
    assert.throws(() => new Snowflake('a.example', { agent }), InvalidAgentError);
  }
  for (const wrong of ['', ':1', 'a b', 'a:0', 'a:65536', 'a:1:2', '[::1', '[1.2.3.4]', '[a]:1',
    'http://a', 'unix:', 'unix:a', `unix:/${'a'.repeat(200)}`, 'tls:',
    '[fe80::7%]', '[fe80::7%a/b]', '[fe80::7%0123456789abcdef]', '[1.2.3.4%lo]', [], [7], [[]], 7, null]) {
    assert.throws(() => new Snowflake(wrong, { agent: 'test' }), TypeError, String(wrong));
  }
  for (const [options, type] of [
    [{ timeoutMs: 0 }, RangeError], [{ timeoutMs: NaN }, RangeError],
    [{ timeoutMs: 3600001 }, RangeError], [{ timeoutMs: '5' }, RangeError],
    [{ prefetchMs: -1 }, RangeError], [{ prefetchMs: 501 }, RangeError],
    [{ maxAgeMs: 99 }, RangeError], [{ tls: 'ca.pem' }, TypeError], [{ timeout: 5 }, TypeError],
  ]) {
    assert.throws(() => new Snowflake('a.example', { agent: 'test', ...options }), type,
      JSON.stringify(options));
  }
  assert.throws(() => new Snowflake('tls:a.example', { agent: 'test', tls: { ca: 'ca.pem' } }),
    TypeError);
  const snowflake = new Snowflake(undefined, { agent: 'a-9', prefetchMs: 0, maxAgeMs: 1 });
  for (const count of [0, -1, 1.5, NaN, '3', 3n, undefined]) {
    await assert.rejects(snowflake.nextIds(count), RangeError);
  }
});
