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

const README = fs.readFileSync(path.join(PACKAGE, 'README.md'), 'utf8');
const manifest = require('../package.json');
const LIMIT_MS = 120000; // of a program that hangs

let place;

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

/** Runs the commands of a block of the README, without a network. */
function shell(commands) {
  return run('bash', ['-ec', commands], {
    env: { ...process.env, TREE: ROOT, npm_config_offline: 'true', npm_config_loglevel: 'error' },
  });
}

before(async () => {
  place = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  fs.writeFileSync(path.join(place, 'package.json'), '{ "private": true }');
  const [, commands] = /^## Install\n.*?^```sh\n(.*?)^```/ms.exec(README);
  await shell(commands);
});
after(() => fs.rmSync(place, { recursive: true }));

test('the installed package survives another npm install and npm ci', async () => {
  const program = "console.log(require('snowflake-client').decode('1').sequence)";
  for (const commands of ['npm install', 'npm update', 'rm -r node_modules; npm ci']) {
    await shell(commands);
    assert.strictEqual(await node(program), '1\n', commands);
    assert.ok(!fs.lstatSync(path.join(place, 'node_modules', manifest.name)).isSymbolicLink());
  }
});

test('the package contains what it should, and nothing else', async () => {
  const listed = await run('tar', ['-tzf', `${manifest.name}-${manifest.version}.tgz`]);
  assert.deepStrictEqual(listed.trim().split('\n').sort(), [
    'LICENSE', 'README.md', 'CHANGELOG.md', 'package.json',
    ...['alarm', 'buffer', 'client', 'codec', 'connection', 'endpoints', 'errors', 'ids', 'index',
      'servers', 'testing'].map((name) => `lib/${name}.js`),
    'lib/index.d.ts', 'lib/testing.d.ts',
  ].map((name) => `package/${name}`).sort());
  assert.ok(fs.readFileSync(path.join(PACKAGE, 'LICENSE'))
    .equals(fs.readFileSync(path.join(ROOT, 'LICENSE'))));
});

test('the package has the version of the tree, no dependencies, and what npm shows', () => {
  const [, version] = /version: '([^']+)'/.exec(
    fs.readFileSync(path.join(ROOT, 'meson.build'), 'utf8'));
  assert.strictEqual(manifest.version, version);
  assert.strictEqual(require('../package-lock.json').version, version);
  assert.deepStrictEqual([manifest.dependencies, manifest.peerDependencies], [undefined, undefined]);
  for (const name of ['author', 'bugs', 'description', 'homepage', 'keywords', 'license',
    'repository']) {
    assert.ok(manifest[name], name);
  }
  assert.ok(fs.readFileSync(path.join(PACKAGE, 'CHANGELOG.md'), 'utf8').includes(`\n## ${version}`));
});

test('both kinds of module have the same names, and are one', async () => {
  const names = [client, testing].map((one) => [...Object.keys(one), 'default']);
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
  const blocks = [...README.matchAll(/(?<!recipe -->\n)^```js\n(.*?)^```/gms)].map(
    ([, block]) => block);
  assert.strictEqual(blocks.length, 6);
  const printed = [];
  for (const block of blocks) {
    // a time limit of a minute, since the machine can be slow
    const patient = block.replace(/agent: '[\w-]+'/, '$&, timeoutMs: 60000')
      .replace('timeoutMs: 500', 'timeoutMs: 60000');
    printed.push(await node(patient.replace('127.0.0.1:7609', address), 'module'));
  }
  assert.match(printed[0], /^\d{19} \[ '\d{19}', '\d{19}', '\d{19}' \]\n$/);
  assert.match(printed[1], /^\d{19}\n$/);
  assert.strictEqual(printed[2], '');
  assert.match(printed[3], /time: 2023-11-14T22:13:20.000Z,\n +datacenter: 1,\n +worker: 2,\n +seq/);
  assert.match(printed[3], /^1724551110456385539$/m);
  assert.match(printed[4], /'1724551110456385536', '1724551110456385537'/);
  assert.match(printed[5], /^\d{19}\n$/);
});

test('the recipe for TypeORM', {
  skip: Number(process.versions.node.split('.')[0]) < 20 && 'TypeORM needs Node 20',
}, async (t) => {
  const [, recipe] = /^<!-- recipe -->\n```js\n(.*?)^```/ms.exec(README);
  const sqlite = recipe.replace("type: 'postgres', url: process.env.DATABASE_URL",
    "type: 'sqljs', synchronize: true").replace("'bigint'", "'text'");
  assert.strictEqual([...sqlite.matchAll(/sqljs|id: \{ type: 'text'/g)].length, 2);
  // next to the program, so that it finds snowflake-client and these
  const modules = path.join(place, 'node_modules');
  for (const name of fs.readdirSync(path.join(PACKAGE, 'node_modules'))) {
    if (!fs.existsSync(path.join(modules, name))) {
      fs.symlinkSync(path.join(PACKAGE, 'node_modules', name), path.join(modules, name));
    }
  }
  process.env.SNOWFLAKE_SERVERS = await server(t);
  t.after(() => delete process.env.SNOWFLAKE_SERVERS);
  assert.match(await node(sqlite, 'module'), /^\{ item: 'tea', id: '\d{19}' \}\n$/);
});

test('a program that does not close its client still ends', async (t) => {
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
  const [, defaults] = /^const DEFAULTS = \{\n(.*?)^\}/ms.exec(source);
  const rows = new Map([...README.matchAll(/^\| `(\w+)` \| (.*?) \|/gm)].map(
    ([, name, value]) => [name, value]));
  for (const [, name, value] of defaults.matchAll(/(\w+): (\w+)/g)) {
    assert.ok(rows.has(name), name);
    assert.ok(value === 'undefined' || rows.get(name) === `\`${value}\``, `${name}: ${value}`);
  }
});
