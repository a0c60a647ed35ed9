// SPDX-License-Identifier: Apache-2.0
const thrift = require("thrift");
const SnowflakeExtended = require("./gen-nodejs/SnowflakeExtended");

const connection = thrift.createConnection("127.0.0.1", 7609, {
  transport: thrift.TFramedTransport,
  protocol: thrift.TBinaryProtocol,
});
const client = thrift.createClient(SnowflakeExtended, connection);
// Thrift's Int64 becomes a double as text or number, which has room for 53 bits only
const decimal = (id) => BigInt(`0x${id.toOctetString()}`).toString();

client
  .get_id("my-program")
  .then((id) => console.log(decimal(id)))
  .finally(() => connection.end());
