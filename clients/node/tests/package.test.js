// SPDX-License-Identifier: Apache-2.0
'use strict';
// What is in the package, that it works where it is installed, and that its README does what it says.
const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { promisify } = require('node:util');
const client = require('..');
const testing = require('../lib/testing');
const {
  BUILD, PACKAGE, ROOT, peer, server,
} = require('./support');

const GENERATED = ['Snowflake.js', 'SnowflakeExtended.js', 'snowflake_types.js'];
const README = fs.readFileSync(path.join(PACKAGE, 'README.md'), 'utf8');
const manifest = require('../package.json');
const LIMIT_MS = 120000; // of a program that hangs

let place;
let packed;

/** What a program prints; it is to end well, and to say nothing on its standard error. */
async function run(program, args, options = {}) {
  const { stdout, stderr } = await promisify(execFile)(program, args,
    { cwd: place, timeout: LIMIT_MS, ...options });
  assert.strictEqual(stderr, '');
  return stdout;
}

function node(source, type = 'commonjs') {
  const file = path.join(place, `program.${type === 'module' ? 'mjs' : 'cjs'}`);
  fs.writeFileSync(file, source);
  return run('node', ['--trace-deprecation', file], {
    env: { ...process.env, PATH: `${path.join(BUILD, 'server')}:${process.env.PATH}` },
  });
}

before(async () => {
  place = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  const told = await run('npm', ['pack', '--json', '--silent', '--pack-destination', place],
    { cwd: PACKAGE });
  [packed] = JSON.parse(told);
  // what it depends on, as this tree has it, so that nothing is asked of the network
  const modules = path.join(place, 'node_modules');
  fs.cpSync(path.join(PACKAGE, 'node_modules'), modules, { recursive: true });
  fs.mkdirSync(path.join(modules, manifest.name));
  await run('tar', ['-xzf', path.join(place, packed.filename), '--strip-components=1', '-C',
    path.join(modules, manifest.name)]);
});
after(() => fs.rmSync(place, { recursive: true }));

test('the package holds what it should, and nothing else', () => {
  assert.deepStrictEqual(packed.files.map((file) => file.path).sort(), [
    'LICENSE', 'README.md', 'package.json',
    ...['client', 'errors', 'hand', 'ids', 'index', 'place', 'servers', 'testing', 'wire'].map(
      (name) => `lib/${name}.js`),
    ...['index', 'testing'].flatMap((name) => ['mjs', 'd.ts', 'd.mts'].map(
      (suffix) => `lib/${name}.${suffix}`)),
    ...GENERATED.map((name) => `lib/generated/${name}`),
  ].sort());
  assert.ok(fs.readFileSync(path.join(PACKAGE, 'LICENSE'))
    .equals(fs.readFileSync(path.join(ROOT, 'LICENSE'))));
});

test('it has the version of the tree, and depends on Thrift alone', () => {
  const [, version] = /version: '([^']+)'/.exec(
    fs.readFileSync(path.join(ROOT, 'meson.build'), 'utf8'));
  assert.strictEqual(manifest.version, version);
  assert.strictEqual(require('../package-lock.json').version, version);
  // node-int64 is Thrift's own dependency, which the generated code names
  assert.deepStrictEqual(Object.keys(manifest.dependencies), ['node-int64', 'thrift']);
});

test('the generated code is what the compiler makes', async () => {
  const made = path.join(place, 'generated');
  await run(path.join(PACKAGE, 'generate'), [made]);
  assert.deepStrictEqual(fs.readdirSync(made).sort(), [...GENERATED].sort());
  for (const name of GENERATED) {
    assert.ok(fs.readFileSync(path.join(made, name))
      .equals(fs.readFileSync(path.join(PACKAGE, 'lib/generated', name))), name);
  }
});

test('both kinds of module have the same names, and are one', async () => {
  const names = [Object.keys(client), Object.keys(testing)];
  const source = `
    import { createRequire } from 'node:module';
    import * as client from 'snowflake-client';
    import * as testing from 'snowflake-client/testing';
    const required = createRequire(import.meta.url)('snowflake-client');
    console.log(JSON.stringify([Object.keys(client), Object.keys(testing)]));
    console.log(required.Snowflake === client.Snowflake, createRequire(import.meta.url).resolve(
      'snowflake-client'));`;
  const [told, is] = (await node(source, 'module')).split('\n');
  assert.deepStrictEqual(JSON.parse(told).map((all) => all.sort()), names.map((all) => all.sort()));
  assert.strictEqual(is, `true ${fs.realpathSync(place)}/node_modules/snowflake-client/lib/index.js`);
});

test('the lines of the README', async (t) => {
  const address = await server(t);
  const blocks = [...README.matchAll(/^```js\n(.*?)^```/gms)].map(([, block]) => block);
  assert.strictEqual(blocks.length, 4);
  const printed = [];
  for (const block of blocks) {
    // a timeout of a minute: the machine can be slow
    const patient = block.replace(/agent: '[\w-]+'/, '$&, timeoutMs: 60000');
    printed.push(await node(patient.replace('127.0.0.1:7609', address), 'module'));
  }
  assert.match(printed[0], /^\d{19} \[ '\d{19}', '\d{19}', '\d{19}' \]\n$/);
  assert.match(printed[1], /time: 2023-11-14T22:13:20.000Z,\n +datacenter: 1,\n +worker: 2,\n +seq/);
  assert.match(printed[1], /^1724551110456385539$/m);
  assert.match(printed[2], /'1724551110456385536', '1724551110456385537'/);
  assert.match(printed[3], /^\d{19}\n$/);
});

test('a program that does not close its client ends all the same', async (t) => {
  const hanging = await peer(t, (call) => (call.count > 1 ? undefined : call.ids()));
  for (const servers of [await server(t), hanging.address]) {
    assert.match(await node(`
      const { Snowflake } = require('snowflake-client');
      const client = new Snowflake('${servers}', { agent: 'test', timeoutMs: 3600000 });
      client.nextId().then(console.log);
    `), /^\d+\n$/);
  }
  // nothing but the call that waits keeps it alive
  const none = await peer(t, () => undefined);
  assert.match(await node(`
    const { Snowflake } = require('snowflake-client');
    const client = new Snowflake('${none.address}', { agent: 'test', timeoutMs: 300 });
    client.nextId().catch((error) => console.log(error.code));
  `), /^ERR_SNOWFLAKE_TIMEOUT\n$/);
});

test('the types hold', async () => {
  const tsc = path.join(PACKAGE, 'node_modules/typescript/bin/tsc');
  for (const [name, options] of [
    ['types.mts', ['--module', 'node16']], ['types.cts', ['--module', 'node16']],
    ['types.ts', ['--module', 'esnext', '--moduleResolution', 'bundler']],
    // TypeScript's default for CommonJS, which does not read `exports`
    ['types.ts', ['--module', 'commonjs']],
  ]) {
    fs.copyFileSync(path.join(__dirname, 'types.ts'), path.join(place, name));
    await run('node', [tsc, '--noEmit', '--strict', '--target', 'es2022', ...options, name]);
  }
});

test('the README has every name, option and default', () => {
  for (const name of Object.keys(client)) {
    if (!['TWITTER', 'fromCrockford'].includes(name)) {
      assert.ok(README.includes(name), name);
    }
  }
  const source = fs.readFileSync(path.join(PACKAGE, 'lib/client.js'), 'utf8');
  const [, list] = /const OPTIONS = new Set\(\[(.*?)\]\)/.exec(source);
  const options = [...list.matchAll(/'(\w+)'/g)].map(([, name]) => name);
  const rows = new Map([...README.matchAll(/^\| `(\w+)` \| (.*?) \|/gm)].map(
    ([, name, value]) => [name, value]));
  for (const name of options) {
    assert.ok(rows.has(name), name);
    const [, value] = new RegExp(`, ${name} = (\\d+)`).exec(source) ?? [];
    assert.ok(value === undefined || rows.get(name) === `\`${value}\``, `${name} = ${value}`);
  }
});
