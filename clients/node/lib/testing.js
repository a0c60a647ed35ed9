// SPDX-License-Identifier: Apache-2.0
'use strict';
// For the tests of programs that take IDs; testing.d.ts documents it.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { Snowflake, checkCount } = require('./client');
const { ClosedError } = require('./errors');
const { formed, toBigInt } = require('./ids');

const START_LIMIT_MS = 30000;
const MAX_LOG_LINES = 20;
const FIRST_ID = '1724551110456385536'; // 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0

class FakeSnowflake extends Snowflake {
  #next;
  #step;
  #form;
  #errors = [];
  #isClosed = false;

  constructor({ first = FIRST_ID, step = 1, bigint = false } = {}) {
    super('127.0.0.1', { bigint });
    if (!Number.isSafeInteger(step) || step < 1) {
      throw new RangeError(`step ${String(step)}: must be an integer of 1 or more`);
    }
    this.#next = toBigInt(first);
    this.#step = BigInt(step);
    this.#form = (id) => formed(id, { bigint });
  }

  failNext(error) {
    this.#errors.push(error);
  }

  async nextId(options) {
    return (await this.nextIds(1, options))[0];
  }

  async nextIds(count, { signal } = {}) {
    checkCount(count);
    signal?.throwIfAborted();
    if (this.#isClosed) {
      throw new ClosedError('the client is closed');
    }
    if (this.#errors.length > 0) {
      throw this.#errors.shift();
    }
    const first = this.#next;
    this.#next += this.#step * BigInt(count);
    return Array.from({ length: count }, (_, n) => this.#form(first + this.#step * BigInt(n)));
  }

  close() {
    this.#isClosed = true;
    super.close();
  }
}

async function startServer({
  program = 'snowflaked', listen = '127.0.0.1:0', args = [],
} = {}) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  const child = spawn(program, ['--listen', listen, '--state-directory', directory, '--worker-id',
    '0', ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const remove = () => fs.rmSync(directory, { recursive: true, force: true });
  const kill = () => child.kill('SIGKILL') && remove();
  process.once('exit', kill);
  const ended = new Promise((resolve) => {
    child.once('error', resolve).once('close', resolve);
  }).then((error) => {
    process.removeListener('exit', kill);
    remove();
    return error;
  });
  const timer = setTimeout(kill, START_LIMIT_MS);
  const address = await new Promise((resolve, reject) => {
    const log = [];
    let listening;
    // later lines are read too, so that the server never waits for a reader
    readline.createInterface({ input: child.stderr }).on('line', (line) => {
      log.push(line);
      log.splice(0, log.length - MAX_LOG_LINES);
      listening ??= / event=listening address=(\S+)/.exec(line)?.[1];
      if (/ event=ready( |$)/.test(line)) {
        resolve(listening);
      }
    });
    ended.then((error) => reject(new Error(`cannot start ${program}: ${error?.message
      ?? log.join('; ')}`, { cause: error || undefined })));
  }).finally(() => clearTimeout(timer));
  child.unref();
  child.stderr.unref();
  return {
    address,
    pid: child.pid,
    stop() {
      child.ref();
      child.kill();
      return ended.then(() => {});
    },
  };
}

module.exports = { FIRST_ID, FakeSnowflake, startServer };
