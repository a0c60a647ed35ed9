// SPDX-License-Identifier: Apache-2.0
'use strict';
// How many IDs are in hand, and for how long.
const assert = require('node:assert');
const { test } = require('node:test');
const { SnowflakeTimeoutError } = require('..');
const { Hand } = require('../lib/hand');
const {
  LONG_MS, assertIds, client, failure, peer, stopClock, take, until,
} = require('./support');

const PREFETCH_MS = 50;
const MAX_AGE_MS = 1000;

/** A hand whose servers answer in no time, and a clock to go with it. */
class Taker {
  now = 1000;
  batches = []; // what was asked for
  #next = 1n;

  constructor(t) {
    stopClock(t, () => this.now);
    this.hand = new Hand(PREFETCH_MS, MAX_AGE_MS);
  }

  #fetch() {
    const count = this.hand.wanted(0);
    this.batches.push(count);
    this.hand.put([{ first: this.#next, count }], this.now);
    this.#next += BigInt(count);
  }

  takeFor(seconds, perSecond) {
    for (let n = 0; n < seconds * perSecond; n += 1) {
      this.now += 1000 / perSecond;
      if (this.hand.take() === undefined) {
        this.#fetch();
        this.hand.takeMany(1, true);
      } else if (this.hand.isLow) {
        this.#fetch();
      }
    }
  }
}

test('the first batch is one, and others grow slowly', (t) => {
  const taker = new Taker(t);
  taker.takeFor(0.1, 100000);
  assert.strictEqual(taker.batches[0], 1);
  taker.batches.slice(1).forEach((larger, n) => {
    assert.ok(larger <= 4 * taker.batches[n] + 4, `${larger} after ${taker.batches[n]}`);
  });
});

test('what is in hand lasts for the time of prefetch', (t) => {
  const taker = new Taker(t);
  for (const perSecond of [100, 1000, 10000, 100000]) {
    taker.takeFor(Math.min(3, 30000 / perSecond), perSecond);
    taker.batches = [];
    taker.takeFor(1, perSecond);
    assert.ok(taker.batches.length >= 18 && taker.batches.length < 60,
      `${taker.batches.length} at ${perSecond}`);
    assert.ok(taker.hand.left <= perSecond * 1.25 * PREFETCH_MS / 1000 + 1);
  }
});

test('no call asks for more than a batch', (t) => {
  const taker = new Taker(t);
  taker.takeFor(0.2, 1000000);
  assert.strictEqual(Math.max(...taker.batches.slice(-20)) <= 10000, true);
});

test('who takes seldom gets one at a time', (t) => {
  const taker = new Taker(t);
  taker.takeFor(100, 0.5);
  assert.deepStrictEqual(taker.batches, Array(50).fill(1));
});

test('a crowd that is gone leaves nothing behind', (t) => {
  const taker = new Taker(t);
  taker.takeFor(1, 10000);
  taker.now += 60000;
  taker.batches = [];
  taker.takeFor(20, 0.5);
  assert.ok(taker.batches.reduce((sum, one) => sum + one, 0) < 20);
});

test('IDs that are too old are thrown away', (t) => {
  const taker = new Taker(t);
  const { hand } = taker;
  hand.put([{ first: 1n, count: 2 }, { first: 9n, count: 1 }], 1000);
  taker.now += MAX_AGE_MS / 2;
  hand.put([{ first: 20n, count: 2 }], taker.now);
  assert.strictEqual(hand.take(), 1n);
  taker.now += MAX_AGE_MS / 2;
  assert.strictEqual(hand.take(), 20n);
  assert.strictEqual(hand.left, 1);
  taker.now += MAX_AGE_MS / 2;
  hand.age();
  assert.deepStrictEqual(hand.takeMany(3), []);
  assert.strictEqual(hand.take(), undefined);
});

/** Takes until there are some in hand; the answers then are those of `answer`. */
async function filled(t, options = {}) {
  const serving = { answer: (call) => call.ids() };
  const server = await peer(t, (call, socket) => serving.answer(call, socket));
  const snowflake = client(t, server.address, { maxAgeMs: LONG_MS, ...options });
  // the call after it shows that its reply has come
  for (let taken = 0; !server.calls.slice(0, -1).some((call) => call.count >= 100); taken += 1) {
    assert.ok(taken < 1000000, 'nothing comes in hand');
    await snowflake.nextId().catch((error) => { // a short deadline can be over
      assert.ok(error instanceof SnowflakeTimeoutError, error);
    });
  }
  return { serving, server, snowflake };
}

test('a batch takes nothing from the hand that is too old', async (t) => {
  const { snowflake } = await filled(t, { maxAgeMs: 200 });
  const last = BigInt(await snowflake.nextId());
  const began = performance.now();
  await until(() => performance.now() > began + 200);
  assert.ok(BigInt(await snowflake.nextIds(1)) > last + 1n);
});

test('refills come before the hand is empty', async (t) => {
  const { server, snowflake } = await filled(t);
  assertIds(await take(snowflake, 20000), 20000);
  assert.ok(server.calls.length < 10000, `${server.calls.length} calls`);
});

test('nobody takes, and nothing is fetched', async (t) => {
  const { server } = await filled(t, { prefetchMs: 5, maxAgeMs: 10 });
  const asked = server.calls.length;
  const began = performance.now();
  await until(() => performance.now() > began + 200); // many times what IDs live for
  assert.ok(server.calls.length <= asked + 1);
});

test('a refill that fails is nobody\'s failure, and is not tried again by itself', async (t) => {
  const { serving, server, snowflake } = await filled(t, { prefetchMs: 1000 });
  serving.answer = () => null;
  const asked = server.calls.length;
  let failed;
  for (let taken = 0; failed === undefined && taken < 100000; taken += 1) {
    await snowflake.nextId().catch((error) => {
      failed = error;
    });
  }
  assert.match(failed.message, /closed the connection/);
  // an old connection is made again once, by the refill and by the call
  assert.ok(server.calls.length <= asked + 4, `${server.calls.length - asked} calls`);
  serving.answer = (call) => call.ids();
  await snowflake.nextId();
});

test('a server hangs while there are IDs in hand', async (t) => {
  const { serving, snowflake } = await filled(t, { timeoutMs: 300, prefetchMs: 1000 });
  serving.answer = () => undefined;
  let taken = 0;
  const began = performance.now();
  const { error } = await failure((async () => {
    for (;;) {
      await snowflake.nextId();
      taken += 1;
    }
  })());
  assert.strictEqual(error.code, 'ERR_SNOWFLAKE_TIMEOUT');
  assert.ok(taken > 0 && performance.now() - began >= 290);
});

test('what many wait for at once is one call', async (t) => {
  const server = await peer(t);
  for (const prefetchMs of [50, 0]) {
    const asked = server.calls.length;
    const snowflake = client(t, server.address, { prefetchMs });
    const ids = await Promise.all(Array.from({ length: 1000 }, () => snowflake.nextId()));
    assertIds(ids, 1000);
    assert.ok(server.calls.length <= asked + 3);
  }
});
