// SPDX-License-Identifier: Apache-2.0
'use strict';
const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const dns = require('node:dns');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const tls = require('node:tls');
const { UnreachableError, Snowflake } = require('..');
const { Server } = require('../lib/endpoints');
const {
  assertIds, client, failureInTime, server, take,
} = require('./support');

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
let directory;

function openssl(...words) {
  execFileSync('openssl', words, { cwd: directory, stdio: 'ignore' });
}

function sign(name, alternatives) {
  fs.writeFileSync(path.join(directory, 'extensions'), `subjectAltName=${alternatives}`);
  openssl('req', ...KEY, '-keyout', `${name}.key`, '-out', 'csr', '-subj', `/CN=${name}`);
  openssl('x509', '-req', '-in', 'csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial',
    '-days', '2', '-extfile', 'extensions', '-out', `${name}.pem`);
}

before(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'snowflake-'));
  openssl('req', '-x509', ...KEY, '-days', '2', '-keyout', 'ca.key', '-out', 'ca.pem', '-subj',
    '/CN=ca');
  sign('server', 'DNS:localhost,IP:127.0.0.1');
  sign('other', 'DNS:other.example');
  sign('client', 'DNS:client.example');
});
after(() => fs.rmSync(directory, { recursive: true }));

const read = (name) => fs.readFileSync(path.join(directory, name));
const known = () => ({ ca: read('ca.pem'), cert: read('client.pem'), key: read('client.key') });
const args = (name, ...more) => ['--tls-certificate', path.join(directory, `${name}.pem`),
  '--tls-key', path.join(directory, `${name}.key`), ...more];
const secure = (t, name, ...more) => server(t, {
  listen: 'tls:127.0.0.1:0', args: args(name, ...more),
});

async function refusal(t, address, tls) {
  const error = await failureInTime(t, address, UnreachableError, { tls });
  return error.attempts[0].reason;
}

test('a server whose certificate the CA signed', async (t) => {
  const address = await secure(t, 'server');
  for (const one of [address, address.replace('127.0.0.1', 'localhost')]) {
    const snowflake = client(t, one, { tls: { ca: read('ca.pem') } });
    assertIds([...await take(snowflake, 1000), ...await snowflake.nextIds(20000)], 21000);
  }
});

test('a name that ends with a dot', async (t) => {
  const names = [];
  const listener = tls.createServer({
    cert: read('server.pem'), key: read('server.key'),
    SNICallback: (name, callback) => {
      names.push(name);
      callback(null);
    },
  }, (socket) => socket.destroy());
  listener.on('tlsClientError', () => {});
  await new Promise((resolve) => { listener.listen(0, '127.0.0.1', resolve); });
  t.after(() => listener.close());
  const hosts = [];
  t.mock.method(dns, 'lookup', (host, options, callback) => {
    hosts.push(host);
    process.nextTick(callback, null, [{ address: '127.0.0.1', family: 4 }]);
  });
  await refusal(t, `tls:localhost.:${listener.address().port}`, { ca: read('ca.pem') });
  assert.deepStrictEqual([names, hosts], [['localhost'], ['localhost.']]);
});

test('names in certificates', () => {
  for (const [server, name] of [['tls:ids.example.', 'ids.example'], ['tls:a.b', 'a.b'],
    ['tls:[fe80::7%eth0.1]', 'fe80::7'], ['tls:127.0.0.1', '127.0.0.1']]) {
    assert.strictEqual(new Server(server).tlsName, name);
  }
});

test('certificates that are refused', async (t) => {
  const error = await failureInTime(t, await secure(t, 'server'), UnreachableError);
  assert.match(error.cause.code, /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_)/);
  assert.match(await refusal(t, await secure(t, 'server')), /^TLS: .*certificate/);
  const other = await secure(t, 'other');
  const tls = { ca: read('ca.pem') };
  assert.match(await refusal(t, other, tls), /^TLS: .*(altnames|list)/);
  const anyName = client(t, other, { tls: { ...tls, checkServerIdentity: () => undefined } });
  await anyName.nextId();
  await client(t, other, { tls: { ...tls, servername: 'other.example' } }).nextId();
});

test('a certificate of the client', async (t) => {
  const address = await secure(t, 'server', '--tls-client-ca', path.join(directory, 'ca.pem'));
  assert.match(await refusal(t, address, { ca: read('ca.pem') }), /TLS|closed|reset/);
  await client(t, address, { tls: known() }).nextId();
});

test('TLS calls of a plain server, and plain calls of a TLS server', async (t) => {
  const tls = { ca: read('ca.pem') };
  await refusal(t, `tls:${await server(t)}`, tls);
  await refusal(t, (await secure(t, 'server')).replace('tls:', ''), tls);
});

test('certificates and keys that are not valid', () => {
  for (const [tls, reason] of [
    [{ ca: 'ca.pem' }, /ca must be the contents of a PEM file/],
    [{ ca: [read('ca.pem'), 'ca.pem'] }, /ca must be/],
    [{ ...known(), key: 'x' }, /key must be/],
    [{ ...known(), key: read('server.key') }, /^tls: cannot use ca, cert and key/],
  ]) {
    assert.throws(() => new Snowflake('tls:a.example', { agent: 'test', tls }), {
      name: 'TypeError', message: reason,
    });
  }
});
