// SPDX-License-Identifier: Apache-2.0
'use strict';
const assert = require('node:assert');
const path = require('node:path');
const { test } = require('node:test');
const {
  Layout, TWITTER, decode, fromBase62, fromCrockford, range, toBase62, toCrockford,
} = require('..');
const { ROOT } = require('./support');

const layouts = require(path.join(ROOT, 'tests/vectors/layouts.json'));
const text = require(path.join(ROOT, 'tests/vectors/text.json'));

function layoutOf({ bits, epoch_ms: epochMs, time_unit_ms: timeUnitMs }) {
  return new Layout({
    epochMs, timeUnitMs, timeBits: bits.time, datacenterBits: bits.datacenter,
    workerBits: bits.worker, sequenceBits: bits.sequence,
  });
}

function partsOf(vector) {
  return {
    time: new Date(vector.timestamp_ms), datacenter: vector.datacenter_id,
    worker: vector.worker_id, sequence: vector.sequence,
  };
}

test('decode agrees with the vectors', () => {
  assert.deepStrictEqual(layoutOf(layouts.twitter), TWITTER);
  assert.ok(layouts.twitter.ids.length > 0 && layouts.other_layouts.length > 0);
  for (const vector of layouts.twitter.ids) {
    assert.deepStrictEqual(decode(vector.id), partsOf(vector));
    assert.deepStrictEqual(decode(BigInt(vector.id)), partsOf(vector));
  }
  for (const vector of layouts.other_layouts) {
    assert.deepStrictEqual(decode(vector.id, layoutOf(vector)), partsOf(vector));
  }
});

test('text forms agree with the vectors', () => {
  assert.ok(text.ids.length > 0);
  for (const { id, base62, base32_crockford: crockford } of text.ids) {
    assert.strictEqual(toBase62(id), base62);
    assert.strictEqual(toCrockford(BigInt(id)), crockford);
    assert.strictEqual(fromBase62(base62), id);
    assert.strictEqual(fromBase62(base62, { bigint: true }), BigInt(id));
    assert.strictEqual(fromCrockford(crockford), id);
    assert.strictEqual(fromCrockford(crockford.toLowerCase(), { bigint: true }), BigInt(id));
  }
  assert.strictEqual(fromCrockford('oIlO1'), fromCrockford('01101'));
  assert.strictEqual(fromBase62('A'), '10');
});

test('what is not an ID in a text form is refused', () => {
  for (const wrong of ['', '-1', 'AzL8n0Y58m8', '000000000000', '1 ', 'ä', '1_0']) {
    assert.throws(() => fromBase62(wrong), /not an ID in base62/);
  }
  for (const wrong of ['', 'U', '8000000000000', '00000000000000', '-']) {
    assert.throws(() => fromCrockford(wrong), /not an ID in Crockford/);
  }
  assert.throws(() => fromBase62(7), TypeError);
});

test('a number is refused, which may have been rounded', () => {
  for (const wrong of [7, 1724551110456385539, null, undefined, '0x10', '-1', ' 1', '1.0', {}]) {
    assert.throws(() => decode(wrong), TypeError);
    assert.throws(() => toBase62(wrong), TypeError);
  }
  for (const wrong of [-1n, 2n ** 63n, '9223372036854775808']) {
    assert.throws(() => decode(wrong), RangeError);
    assert.throws(() => toCrockford(wrong), RangeError);
  }
});

test('a layout of fewer bits ends before', () => {
  const small = new Layout({
    epochMs: 0, timeBits: 4, datacenterBits: 1, workerBits: 1, sequenceBits: 2,
  });
  assert.strictEqual(decode(255n, small).time.getTime(), 15);
  assert.throws(() => decode('256', small), /0 to 255/);
  for (const wrong of [{ timeBits: 60 }, { timeBits: -1 }, { timeUnitMs: 0 }, { epochMs: 0.5 }]) {
    assert.throws(() => new Layout({ ...small, ...wrong }), RangeError);
  }
});

test('a span of time has a lowest and a highest ID', () => {
  for (const vector of layouts.twitter.ids) {
    const time = new Date(vector.timestamp_ms);
    const [lowest, highest] = range(time, time, { bigint: true });
    assert.ok(lowest <= BigInt(vector.id) && BigInt(vector.id) <= highest);
    assert.strictEqual(highest - lowest, (1n << 22n) - 1n);
    assert.strictEqual(decode(lowest).time.getTime(), time.getTime());
    assert.deepStrictEqual(range(time, time), [String(lowest), String(highest)]);
  }
  const { epochMs } = TWITTER;
  const last = 2n ** 63n - 1n;
  assert.deepStrictEqual(range(new Date(0), new Date(8.64e15), { bigint: true }), [0n, last]);
  const seconds = new Layout({ ...TWITTER, timeUnitMs: 1000 });
  assert.deepStrictEqual(
    range(new Date(epochMs + 1999), new Date(epochMs + 2001), { layout: seconds }),
    [String(1n << 22n), String((3n << 22n) - 1n)]);
});

test('a span that is none is refused', () => {
  assert.throws(() => range(new Date(2e12), new Date(1e12 + 1e12 - 1)), /not a time range/);
  assert.throws(() => range(new Date(0), new Date(1)), /not a time range/);
  assert.throws(() => range(new Date(4e12), new Date(4e12)), /not a time range/);
  assert.throws(() => range(new Date(NaN), new Date()), TypeError);
  assert.throws(() => range(1e12, 2e12), TypeError);
});
