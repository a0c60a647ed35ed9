// SPDX-License-Identifier: Apache-2.0
'use strict';
// The codec, compared with the official Thrift library and the wire vectors.
const assert = require('node:assert');
const path = require('node:path');
const { test } = require('node:test');
const { TBinaryProtocol, TFramedTransport, Thrift } = require('thrift');
const { MAX_FRAME_BYTES, decodeReply, encodeCall } = require('../lib/codec');
const { Failure } = require('../lib/errors');
const { IdRun } = require('./generated/snowflake_types');
const SnowflakeExtended = require('./generated/SnowflakeExtended');
const { Call, ROOT, int64 } = require('./support');

const wire = require(path.join(ROOT, 'tests/vectors/wire.json'));
const { Type } = Thrift;

test('calls and replies agree with the vectors', () => {
  assert.strictEqual(encodeCall('get_id', 0, 'foo').toString('hex'), wire.call_get_id_foo_seq0);
  const reply = Buffer.from(wire.reply_get_id_1_seq0, 'hex').subarray(4);
  assert.deepStrictEqual(decodeReply(reply, 'get_id', 0, 1), [{ first: 1n, count: 1 }]);
  const unknown = Buffer.from(wire.reply_unknown_method_nope_seq1, 'hex').subarray(4);
  assert.throws(() => decodeReply(unknown, 'nope', 1, 1), (error) => error instanceof Failure
    && error.kind === 'method' && /Invalid method name: 'nope'/.test(error.message));
});

test('calls are those of the official library', () => {
  for (const [method, ...args] of [['get_id', 'a'], ['get_ids', 'agent-7', 10000],
    ['get_id_runs', 'x'.repeat(256), 1]]) {
    let official;
    const transport = new TFramedTransport(null, (bytes) => {
      official = bytes;
    });
    const client = new SnowflakeExtended.Client(transport, TBinaryProtocol);
    client._seqid = 2 ** 30;
    client[method](...args).catch(() => {});
    assert.deepStrictEqual(encodeCall(method, 2 ** 30 + 1, ...args), official);
  }
});

/** A reply of the official library: write(output) writes the fields of the result. */
function reply(method, write, kind = Thrift.MessageType.REPLY) {
  return Call.prototype.message.call({ name: method, sequenceId: 7 }, kind, (output) => {
    write(output);
    output.writeFieldStop();
  }).subarray(4);
}

function writeRuns(output, runs, more = () => {}) {
  output.writeFieldBegin('', Type.LIST, 0);
  output.writeListBegin(Type.STRUCT, runs.length);
  for (const [first, count] of runs) {
    output.writeFieldBegin('', Type.I64, 1);
    output.writeI64(int64(first));
    more(output);
    output.writeFieldBegin('', Type.I32, 2);
    output.writeI32(count);
    output.writeFieldStop();
  }
}

/** A field of each type, with a number that no struct has. */
function writeUnknown(output) {
  const run = new IdRun({ first: int64(5), count: 1 });
  for (const [type, write] of [
    [Type.BOOL, () => output.writeBool(true)],
    [Type.BYTE, () => output.writeByte(-1)],
    [Type.I16, () => output.writeI16(-1)],
    [Type.I32, () => output.writeI32(-1)],
    [Type.I64, () => output.writeI64(int64(-1))],
    [Type.DOUBLE, () => output.writeDouble(1.5)],
    [Type.STRING, () => output.writeString('ä')],
    [Type.STRUCT, () => run.write(output)],
    [Type.LIST, () => {
      output.writeListBegin(Type.STRUCT, 2);
      run.write(output);
      run.write(output);
    }],
    [Type.SET, () => {
      output.writeSetBegin(Type.STRING, 1);
      output.writeString('x');
    }],
    [Type.MAP, () => {
      output.writeMapBegin(Type.STRING, Type.LIST, 1);
      output.writeString('k');
      output.writeListBegin(Type.I64, 1);
      output.writeI64(int64(3));
    }],
  ]) {
    output.writeFieldBegin('', type, 99);
    write();
  }
}

const RUNS = [[1n << 62n, 3], [(1n << 62n) + 4096n, 2]];
const decode = (frame, count = 5) => decodeReply(frame, 'get_id_runs', 7, count);

test('unknown fields are skipped, in the result and in its structs', () => {
  const frame = reply('get_id_runs', (output) => {
    writeUnknown(output);
    writeRuns(output, RUNS, writeUnknown);
    writeUnknown(output);
  });
  assert.deepStrictEqual(decode(frame), RUNS.map(([first, count]) => ({ first, count })));
});

test('a field of another type is not the field', () => {
  const frame = reply('get_id_runs', (output) => {
    output.writeFieldBegin('', Type.I64, 0);
    output.writeI64(int64(5));
  });
  assert.throws(() => decode(frame), /a result without IDs/);
});

test('a message that is cut off anywhere is an error', () => {
  const frame = reply('get_id_runs', (output) => {
    writeUnknown(output);
    writeRuns(output, RUNS);
  });
  for (let size = 0; size < frame.length; size += 1) {
    assert.throws(() => decode(frame.subarray(0, size)), /the message ends|bytes|IDs/);
  }
  assert.throws(() => decode(Buffer.concat([frame, Buffer.of(0)])), /bytes after the message/);
});

test('changed bytes are IDs as requested, a failure or an error', () => {
  const frame = reply('get_id_runs', (output) => {
    writeUnknown(output);
    writeRuns(output, RUNS);
  });
  for (let at = 0; at < frame.length; at += 1) {
    for (const value of [0, 1, 11, 12, 13, 14, 15, 16, 0x7f, 0x80, 0xff]) {
      const changed = Buffer.from(frame);
      changed[at] = value;
      try {
        const runs = decode(changed);
        assert.strictEqual(runs.reduce((sum, { count }) => sum + count, 0), 5);
      } catch (error) {
        assert.ok(error instanceof Failure || /^Error: /.test(String(error)), error.stack);
      }
    }
  }
});

test('the largest batch fits a frame, in any form', () => {
  const count = 10000;
  for (const method of ['get_ids', 'get_id_runs']) {
    const frame = reply(method, (output) => {
      const ids = Array.from({ length: count }, (_, n) => BigInt(2 * n + 1));
      if (method === 'get_id_runs') {
        writeRuns(output, ids.map((id) => [id, 1]));
        return;
      }
      output.writeFieldBegin('', Type.LIST, 0);
      output.writeListBegin(Type.I64, count);
      ids.forEach((id) => output.writeI64(int64(id)));
    });
    assert.ok(frame.length < MAX_FRAME_BYTES);
    assert.strictEqual(decodeReply(frame, method, 7, count).length, count);
  }
});
