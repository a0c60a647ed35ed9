// SPDX-License-Identifier: Apache-2.0
const thrift = require("thrift");
const SnowflakeExtended = require("./gen-nodejs/SnowflakeExtended");

const connection = thrift.createConnection("127.0.0.1", 7609, {
  transport: thrift.TFramedTransport,
  protocol: thrift.TBinaryProtocol,
  timeout: 2000, // milliseconds: to connect, and for each answer
});
const client = thrift.createClient(SnowflakeExtended, connection);
// An ID is kept as a string: it has 64 bits, and a number of JavaScript has room for 53
const decimal = (id) => BigInt(`0x${id.toOctetString()}`).toString();

// A call does not hear of these, and would wait for ever
const failure = new Promise((_, reject) => {
  connection.on("error", reject);
  connection.on("timeout", () => reject(new Error("timed out")));
  connection.on("close", () => reject(new Error("the server closed the connection")));
});

async function main() {
  console.log(decimal(await client.get_id("my-program")));
  const ids = await client.get_ids("my-program", 3);
  console.log(ids.map(decimal));
}

Promise.race([main(), failure])
  .catch((error) => {
    console.error(`no IDs: ${error.message}`);
    process.exitCode = 1;
  })
  .finally(() => connection.destroy());
