// SPDX-License-Identifier: Apache-2.0
'use strict';
// For the tests of programs that take IDs: a client that needs no server, and a server that starts in
// milliseconds.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { ClosedError } = require('./errors');
const { formed, toNumber } = require('./ids');

const START_LIMIT_MS = 30000;
const FIRST_ID = '1724551110456385536'; // 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0

/** The calls of a Snowflake, with IDs that are the same in each run: first, first + step and so on. */
class FakeSnowflake {
  #next;
  #step;
  #bigint;
  #errors = [];
  #isClosed = false;

  constructor({ first = FIRST_ID, step = 1, bigint = false } = {}) {
    if (!Number.isSafeInteger(step) || step < 1) {
      throw new RangeError(`step ${String(step)}: not an integer of 1 or more`);
    }
    this.#next = toNumber(first);
    this.#step = BigInt(step);
    this.#bigint = bigint;
  }

  /** The next call rejects with it; the one after it, with what is given next. */
  failNext(error) {
    this.#errors.push(error);
  }

  async nextId() {
    return (await this.nextIds(1))[0];
  }

  async nextIds(count) {
    if (!Number.isSafeInteger(count) || count < 1) {
      throw new RangeError(`count ${String(count)}: not an integer of 1 or more`);
    }
    if (this.#isClosed) {
      throw new ClosedError('the client is closed');
    }
    if (this.#errors.length > 0) {
      throw this.#errors.shift();
    }
    return Array.from({ length: count }, () => {
      const id = this.#next;
      this.#next += this.#step;
      return formed(id, { bigint: this.#bigint });
    });
  }

  close() {
    this.#isClosed = true;
  }
}

/**
 * A server of one's own, once it is ready: {address, pid, stop()}. It keeps its state in a directory that
 * goes with it. It does not keep the process alive, and goes with its exit, but not if a signal kills
 * it. Rejects if it does not start.
 */
async function startServer({
  program = 'snowflaked', listen = '127.0.0.1:0', args = [],
} = {}) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  const child = spawn(program, ['--listen', listen, '--state-directory', directory, '--worker-id',
    '0', ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const end = () => {
    child.kill('SIGKILL');
    fs.rmSync(directory, { recursive: true, force: true });
  };
  process.once('exit', end);
  const ended = new Promise((resolve) => {
    const done = () => {
      process.removeListener('exit', end);
      fs.rmSync(directory, { recursive: true, force: true });
      resolve();
    };
    child.once('close', done);
    child.once('error', done);
  });
  const address = await addressOnceReady(child, program);
  child.unref();
  child.stderr.unref();
  return {
    address,
    pid: child.pid,
    stop() {
      child.ref();
      child.kill();
      return ended;
    },
  };
}

function addressOnceReady(child, program) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS);
    const log = [];
    let address;
    child.once('error', (error) => reject(new Error(`${program}: ${error.message}`)));
    // what it writes later is read too, so that it never waits for who does
    const lines = readline.createInterface({ input: child.stderr });
    lines.on('line', (line) => {
      address ??= / event=listening address=(\S+)/.exec(line)?.[1];
      if (/ event=ready /.test(`${line} `)) {
        clearTimeout(late);
        resolve(address);
      }
      if (log.length < 100) {
        log.push(line);
      }
    });
    lines.once('close', () => {
      clearTimeout(late);
      reject(new Error(`${program} did not start: ${log.join('; ')}`));
    });
  });
}

module.exports = { FIRST_ID, FakeSnowflake, startServer };
