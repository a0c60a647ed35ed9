// SPDX-License-Identifier: Apache-2.0
'use strict';
// How many IDs are prefetched, and for how long.
const assert = require('node:assert');
const path = require('node:path');
const { test } = require('node:test');
const { SnowflakeTimeoutError } = require('..');
const { Buffer: IdBuffer } = require('../lib/buffer');
const { Servers } = require('../lib/servers');
const {
  LONG_MS, ROOT, assertIds, client, peer, stopClock, take, until,
} = require('./support');

const { scripts, rates } = require(path.join(ROOT, 'tests/vectors/prefetch.json'));

/** A client whose requests are answered at once, without a server, and its clock. */
class Taker {
  nowMs = 0;
  requests = [];
  answers = true;
  buffered = 0; // after the last request
  #next = 1n;

  constructor(t, { prefetchMs = 50, maxAgeMs = 1000, roundTripMs = 0 } = {}) {
    const taker = this;
    stopClock(t, () => 1000 + this.nowMs);
    t.mock.method(Servers.prototype, 'fetch', async function fetch(count) {
      this.roundTripMs = roundTripMs;
      taker.requests.push(count);
      return taker.answers ? taker.#answer(count) : undefined;
    });
    this.client = client(t, '127.0.0.1', { prefetchMs, maxAgeMs });
  }

  #answer(count) {
    const first = this.#next;
    this.#next += BigInt(count);
    return { runs: [{ first, count }], askedAt: performance.now() };
  }

  async call(method, ...args) {
    const { length } = this.requests;
    const answer = await this.client[method](...args);
    if (this.requests.length > length) {
      await new Promise(setImmediate); // its answer is in the buffer
      this.buffered = this.client.stats().prefetched;
    }
    return answer;
  }
}

for (const script of scripts) {
  test(`the requests of the script: ${script.name}`, async (t) => {
    const taker = new Taker(t, {
      prefetchMs: script.prefetch_ms, maxAgeMs: script.max_age_ms, roundTripMs: script.round_trip_ms,
    });
    for (const step of script.steps) {
      const missing = (step.next_ids ?? 0) - taker.client.stats().prefetched;
      taker.requests = [];
      for (let n = 0; n < (step.times ?? 1); n += 1) {
        taker.nowMs = (step.at_us + n * (step.every_us ?? 0)) / 1000;
        for (let one = 0; one < (step.next_id ?? 0); one += 1) {
          await taker.call('nextId');
        }
        if (step.next_ids) {
          await taker.call('nextIds', step.next_ids);
        }
      }
      assert.deepStrictEqual(taker.requests, [...(missing > 0 ? [missing] : []), ...step.requests]);
      assert.strictEqual(taker.client.stats().prefetched, step.buffered, `at ${step.at_us} us`);
    }
  });
}

test('the targets at steady rates', async (t) => {
  assert.ok(rates.length > 0);
  for (const { per_second: perSecond, round_trip_ms: roundTripMs, least, most } of rates) {
    const taker = new Taker(t, { roundTripMs });
    for (let n = 1; n <= perSecond; n += 1) {
      taker.nowMs = (n * 1000) / perSecond;
      await taker.call('nextId');
    }
    t.mock.restoreAll();
    assert.ok(taker.buffered >= least && taker.buffered <= most, `${taker.buffered} at ${perSecond}`);
  }
});

test('a refill that fails fails no call, and is not tried again until a call waits', async (t) => {
  const taker = new Taker(t);
  for (let n = 0; n < 30; n += 1) {
    taker.nowMs += 1;
    await taker.call('nextId');
  }
  taker.answers = false;
  taker.requests = [];
  const left = taker.client.stats().prefetched;
  assert.ok(left > 10);
  for (let n = 0; n < left; n += 1) {
    await taker.call('nextId');
  }
  assert.strictEqual(taker.requests.length, 1);
  taker.answers = true;
  await taker.call('nextId');
  assert.strictEqual(taker.requests.length, 2);
});

test('IDs that are too old are discarded', (t) => {
  let now = 1000;
  stopClock(t, () => now);
  const buffer = new IdBuffer(50, 1000);
  buffer.put([{ first: 1n, count: 2 }, { first: 9n, count: 1 }], now);
  now += 500;
  buffer.put([{ first: 20n, count: 2 }], now);
  assert.strictEqual(buffer.take(), 1n);
  now += 500;
  assert.strictEqual(buffer.take(), 20n);
  assert.strictEqual(buffer.left, 1);
  now += 500;
  buffer.discardOld();
  assert.deepStrictEqual(buffer.takeMany(3), []);
  assert.strictEqual(buffer.take(), undefined);
  assert.deepStrictEqual([buffer.taken, buffer.discarded], [2, 3]);
});

/** Resolves once IDs are prefetched. After that, `serving.answer` answers. */
async function filled(t, options = {}) {
  const serving = { answer: (call) => call.ids() };
  const server = await peer(t, (call, socket) => serving.answer(call, socket));
  const snowflake = client(t, server.address, { maxAgeMs: LONG_MS, ...options });
  // the call after it shows that its reply has come
  for (let taken = 0; !server.calls.slice(0, -1).some((call) => call.count >= 100); taken += 1) {
    assert.ok(taken < 1000000, 'nothing is prefetched');
    await snowflake.nextId().catch((error) => { // a short deadline can be over
      assert.ok(error instanceof SnowflakeTimeoutError, error);
    });
  }
  return { serving, server, snowflake };
}

test('a batch takes no ID from the buffer that is too old', async (t) => {
  const { snowflake } = await filled(t, { maxAgeMs: 200 });
  const last = BigInt(await snowflake.nextId());
  const began = performance.now();
  await until(() => performance.now() > began + 200);
  assert.ok(BigInt(await snowflake.nextIds(1)) > last + 1n);
});

test('refills come before the buffer is empty', async (t) => {
  const { server, snowflake } = await filled(t);
  assertIds(await take(snowflake, 20000), 20000);
  assert.ok(server.calls.length < 10000, `${server.calls.length} calls`);
});

test('nothing is requested while no IDs are taken', async (t) => {
  const { server } = await filled(t, { prefetchMs: 5, maxAgeMs: 10 });
  const asked = server.calls.length;
  const began = performance.now();
  await until(() => performance.now() > began + 200); // 20 times the largest age
  assert.ok(server.calls.length <= asked + 1);
});

test('a server hangs while there are prefetched IDs', async (t) => {
  const { serving, snowflake } = await filled(t, { timeoutMs: 300, prefetchMs: 1000 });
  serving.answer = () => undefined;
  const taken = [];
  await assert.rejects(async () => {
    for (;;) {
      taken.push(await snowflake.nextId());
    }
  }, { code: 'ERR_SNOWFLAKE_TIMEOUT' });
  assert.ok(taken.length > 0);
});

test('calls that wait at the same time share one request', async (t) => {
  const server = await peer(t);
  for (const prefetchMs of [50, 0]) {
    const asked = server.calls.length;
    const snowflake = client(t, server.address, { prefetchMs });
    const ids = await Promise.all(Array.from({ length: 1000 }, () => snowflake.nextId()));
    assertIds(ids, 1000);
    assert.ok(server.calls.length <= asked + 3);
  }
});
