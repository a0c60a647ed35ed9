// SPDX-License-Identifier: Apache-2.0
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const { test } = require('node:test');
const {
  ClosedError, UnavailableError, UnreachableError, decode,
} = require('..');
const { FIRST_ID, FakeSnowflake, startServer } = require('../lib/testing');
const {
  SNOWFLAKED, client, dead, failure, failureInTime,
} = require('./support');

test('the IDs of a fake are the same in each run', async () => {
  const fake = new FakeSnowflake();
  assert.deepStrictEqual([await fake.nextId(), ...await fake.nextIds(2)],
    ['1724551110456385536', '1724551110456385537', '1724551110456385538']);
  assert.deepStrictEqual(decode(FIRST_ID), {
    time: new Date('2023-11-14T22:13:20Z'), datacenter: 1, worker: 2, sequence: 0,
  });
  const other = new FakeSnowflake({ first: 5n, step: 3, bigint: true });
  assert.deepStrictEqual(await other.nextIds(3), [5n, 8n, 11n]);
});

test('a fake fails with the errors that it is given', async () => {
  const fake = new FakeSnowflake();
  fake.failNext(new UnavailableError('not today', [], 250));
  fake.failNext(new ClosedError('later'));
  assert.strictEqual((await failure(fake.nextId(), UnavailableError)).retryAfterMs, 250);
  await failure(fake.nextIds(2), ClosedError);
  assert.strictEqual(await fake.nextId(), FIRST_ID);
  await assert.rejects(fake.nextIds(0), RangeError);
  fake.close();
  await failure(fake.nextId(), ClosedError);
  for (const wrong of [{ first: 1 }, { first: '-1' }, { step: 0 }, { step: 1.5 }]) {
    assert.throws(() => new FakeSnowflake(wrong), /TypeError|RangeError/);
  }
});

test('a real server starts, is used, and leaves nothing behind', async (t) => {
  const made = t.mock.method(fs, 'mkdtempSync');
  const server = await startServer({ program: SNOWFLAKED, listen: await dead(t) });
  await client(t, server.address).nextId();
  await server.stop();
  await failureInTime(t, server.address, UnreachableError);
  assert.throws(() => process.kill(server.pid, 0), { code: 'ESRCH' });
  await server.stop();
  assert.strictEqual(fs.existsSync(made.mock.calls[0].result), false);
});

test('a server that does not start says why', async () => {
  await assert.rejects(startServer({ program: '/no/such/program' }),
    /^Error: cannot start \/no\/such\/program: .*ENOENT/);
  await assert.rejects(startServer({ program: SNOWFLAKED, listen: 'nonsense:x' }),
    /^Error: cannot start .*nonsense/);
});
