// SPDX-License-Identifier: Apache-2.0
const thrift = require("thrift");
const SnowflakeExtended = require("./gen-nodejs/SnowflakeExtended");

const connection = thrift.createConnection("127.0.0.1", 7609, {
  transport: thrift.TFramedTransport,
  protocol: thrift.TBinaryProtocol,
  timeout: 2000, // milliseconds, for connecting and for each reply
});
const client = thrift.createClient(SnowflakeExtended, connection);
// IDs are strings here: an ID has 64 bits, but a JavaScript number is exact only up to 53 bits
const decimal = (id) => BigInt(`0x${id.toOctetString()}`).toString();

// A call does not receive these events, and would wait without end
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
