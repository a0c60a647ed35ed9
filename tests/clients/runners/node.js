#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';
// What the conformance suite asks of a client, asked of clients/node: a command a line, an answer a
// line, both JSON.
//
// The driver may kill servers meanwhile, so that each call that fails is an answer and no end.
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { setTimeout: pause } = require('node:timers/promises');

const PACKAGE = path.resolve(__dirname, '../../../clients/node');
const { Snowflake, SnowflakeError } = require(PACKAGE);

const KINDS = {
  ERR_SNOWFLAKE_CLOCK: 'clock',
  ERR_SNOWFLAKE_UNAVAILABLE: 'unavailable',
  ERR_SNOWFLAKE_INVALID_AGENT: 'invalid-agent',
  ERR_SNOWFLAKE_UNREACHABLE: 'unreachable',
  ERR_SNOWFLAKE_TIMEOUT: 'timeout',
  ERR_SNOWFLAKE_CLOSED: 'closed',
};
const OPTIONS = {
  agent: 'agent', timeout_ms: 'timeoutMs', attempt_timeout_ms: 'attemptTimeoutMs',
  prefetch_ms: 'prefetchMs', max_age_ms: 'maxAgeMs',
};
const EVERY = 1024; // calls, between looks at the clock

let client;

/** The answer for an error of the client's; others are the runner's end. */
function described(error, began) {
  const isArgument = error instanceof TypeError || error instanceof RangeError;
  if (!isArgument && !(error instanceof SnowflakeError)) {
    throw error;
  }
  return {
    error: isArgument ? 'invalid-argument' : KINDS[error.code],
    message: error.message,
    attempts: (error.attempts ?? []).map(({ server, reason }) => [server, reason]),
    retry_after_ms: error.retryAfterMs,
    took_ms: performance.now() - began,
  };
}

/** `count` calls, one after the other, until one fails: the IDs of all. */
async function outcome(call, count = 1, pauseMs = 0) {
  const ids = [];
  for (let n = 0; n < count; n += 1) {
    if (pauseMs > 0 && n > 0) {
      await pause(pauseMs);
    }
    const began = performance.now();
    try {
      ids.push(await call());
    } catch (error) {
      return { ids: ids.flat(), ...described(error, began) };
    }
  }
  return { ids: ids.flat() };
}

function material(tls) {
  const names = { ca: 'ca', certificate: 'cert', key: 'key' };
  return Object.fromEntries(Object.entries(names).filter(([name]) => tls[name])
    .map(([name, option]) => [option, fs.readFileSync(tls[name])]));
}

function open(command) {
  client?.close();
  const options = command.tls ? { tls: material(command.tls) } : {};
  for (const [name, option] of Object.entries(OPTIONS)) {
    if (command[name] !== undefined) {
      options[option] = command[name];
    }
  }
  const began = performance.now();
  try {
    client = new Snowflake(command.servers, options);
    return { ok: true };
  } catch (error) {
    return described(error, began);
  }
}

async function storm({ threads, count, file }) {
  const ids = [];
  let left = count;
  let failed = 0;
  const run = async () => {
    while (left > 0) {
      left -= 1;
      try {
        ids.push(await client.nextId());
      } catch (error) {
        described(error, 0);
        left += 1;
        failed += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: threads }, run));
  fs.writeFileSync(file, `${ids.join('\n')}\n`);
  return { taken: ids.length, failed };
}

async function pace({ per_second: perSecond, seconds }) {
  const took = [];
  let failed = 0;
  const start = performance.now();
  for (let n = 0; n < Math.round(perSecond * seconds); n += 1) {
    const due = start + (n * 1000) / perSecond;
    while (performance.now() < due) {
      await (due - performance.now() > 2 ? pause(1) : new Promise(setImmediate));
    }
    const began = performance.now();
    try {
      await client.nextId();
    } catch (error) {
      described(error, began);
      failed += 1;
    }
    took.push((performance.now() - began) * 1000);
  }
  took.sort((one, other) => one - other);
  return {
    taken: took.length - failed, failed, p50_us: took[Math.floor(took.length / 2)],
    p99_us: took[Math.floor((took.length * 99) / 100)], longest_us: took.at(-1),
  };
}

async function speed(call, seconds) {
  let n = 0;
  const began = performance.now();
  while (performance.now() - began < seconds * 1000) {
    for (let few = 0; few < EVERY; few += 1) {
      await call();
    }
    n += EVERY;
  }
  return { per_second: (n * 1000) / (performance.now() - began) };
}

/** By Thrift's plain client, as its own documentation has it. */
async function plain({ server, seconds }) {
  const thrift = require(require.resolve('thrift', { paths: [PACKAGE, __dirname] }));
  const { Client } = require(path.join(PACKAGE, 'tests/generated/SnowflakeExtended'));
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(server);
  const connection = thrift.createConnection(host, Number(port), {
    transport: thrift.TFramedTransport, protocol: thrift.TBinaryProtocol,
  });
  const generated = thrift.createClient(Client, connection);
  try {
    return await speed(() => generated.get_id('plain'), seconds);
  } finally {
    connection.end();
  }
}

async function redis({ port, seconds }) {
  const { createClient } = require(require.resolve('@redis/client', { paths: [PACKAGE] }));
  const connected = createClient({ socket: { port } });
  await connected.connect();
  try {
    return await speed(() => connected.incr('ids'), seconds);
  } finally {
    await connected.quit();
  }
}

async function nextThenClose(_, lines) {
  const call = outcome(() => client.nextId());
  await lines.next();
  client.close();
  return call;
}

const DO = {
  hello: () => ({
    language: 'Node',
    package: `snowflake-client ${require(path.join(PACKAGE, 'package.json')).version}`,
    node: process.version,
    lacks: { 'at-once': 'a call tries the servers until its deadline' },
  }),
  open,
  next: ({ count, pause_ms: pauseMs }) => outcome(() => client.nextId(), count, pauseMs),
  next_ids: ({ count }) => outcome(() => client.nextIds(count)),
  storm,
  pace,
  speed: ({ seconds }) => speed(() => client.nextId(), seconds),
  plain,
  redis,
  fork: () => ({ unsupported: 'Node cannot fork' }),
  next_then_close: nextThenClose,
  close: () => {
    client?.close();
    return { ok: true };
  },
};

async function main() {
  const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })[
    Symbol.asyncIterator]();
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const command = JSON.parse(line.value);
    const answer = Object.hasOwn(DO, command.do) ? await DO[command.do](command, lines)
      : { unsupported: `${command.do} is not known` };
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}

main();
