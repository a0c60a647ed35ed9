// SPDX-License-Identifier: Apache-2.0
'use strict';
// Several clients at once: in the workers of a cluster and in worker threads.
const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { LONG_MS, PACKAGE, server } = require('./support');

const COUNT = 20000; // IDs of each member
const MEMBERS = 4;
const TAKE = `
  async function take(client) {
    const ids = [];
    while (ids.length < ${COUNT}) {
      ids.push(await client.nextId(), ...await client.nextIds(9));
    }
    return ids;
  }`;

/** Runs a program that prints the IDs of all its members, and checks them. */
async function check(t, program) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  t.after(() => fs.rmSync(directory, { recursive: true }));
  const file = path.join(directory, 'program.js');
  fs.writeFileSync(file, `
    const { Snowflake } = require(${JSON.stringify(PACKAGE)});
    ${TAKE}
    ${program}`);
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], {
    env: { ...process.env, SNOWFLAKE_SERVERS: await server(t) },
    maxBuffer: 1 << 26,
    timeout: LONG_MS,
  });
  assert.strictEqual(stderr, '');
  const members = stdout.trim().split('\n').map((line) => line.split(','));
  assert.strictEqual(members.length, MEMBERS);
  assert.strictEqual(new Set(members.flat()).size, MEMBERS * COUNT);
}

test('the workers of a cluster, with a client in the primary too', (t) => check(t, `
  const cluster = require('node:cluster');
  const client = new Snowflake(undefined, { timeoutMs: ${LONG_MS} });
  if (cluster.isPrimary) {
    take(client).then((ids) => {
      console.log(ids.join());
      for (let n = 1; n < ${MEMBERS}; n += 1) {
        cluster.fork().on('message', (taken) => console.log(taken));
      }
    });
  } else {
    take(client).then((ids) => process.send(ids.join(), () => process.disconnect()));
  }`));

test('worker threads, with a client in the main thread too', (t) => check(t, `
  const { Worker, isMainThread, parentPort } = require('node:worker_threads');
  const client = new Snowflake(undefined, { timeoutMs: ${LONG_MS} });
  if (isMainThread) {
    take(client).then((ids) => {
      console.log(ids.join());
      for (let n = 1; n < ${MEMBERS}; n += 1) {
        new Worker(__filename).on('message', (taken) => console.log(taken));
      }
    });
  } else {
    take(client).then((ids) => parentPort.postMessage(ids.join()));
  }`));
