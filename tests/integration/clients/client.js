// SPDX-License-Identifier: Apache-2.0
// client.js BINDINGS HOST PORT framed|unframed PROTOCOL COMMAND..., see ../official.py.
"use strict";

const [bindings, host, port, framing, protocol, command, agent, count] = process.argv.slice(2);
const fs = require("fs");
const thrift = require("thrift");
const SnowflakeExtended = require(`${bindings}/SnowflakeExtended`);

// Int64.toString() passes through a double and loses digits
const decimal = (id) => BigInt(`0x${id.toOctetString()}`).toString();

async function run(client) {
  if (command === "get_id") {
    for (let i = 0; i < Number(count); i++) console.log(decimal(await client.get_id(agent)));
  } else if (command === "get_ids") {
    for (const id of await client.get_ids(agent, Number(count))) console.log(decimal(id));
  } else if (command === "get_id_runs") {
    for (const found of await client.get_id_runs(agent, Number(count)))
      for (let i = 0; i < found.count; i++)
        console.log(String(BigInt(decimal(found.first)) + BigInt(i)));
  } else if (command === "get_ulids" || command === "get_uuids") {
    for (const wide of await client[command](agent, Number(count)))
      console.log(BigInt(`0x${wide.toString("hex")}`).toString());
  } else {
    console.log(decimal(await client.get_worker_id()));
    console.log(decimal(await client.get_datacenter_id()));
    console.log(decimal(await client.get_timestamp()));
  }
}

const options = {
  transport: framing === "framed" ? thrift.TFramedTransport : thrift.TBufferedTransport,
  protocol: protocol === "compact" ? thrift.TCompactProtocol : thrift.TBinaryProtocol,
};
function connect() {
  if (host.startsWith("unix:"))
    return thrift.createUDSConnection(host.slice("unix:".length), options);
  if (!host.startsWith("tls:")) return thrift.createConnection(host, Number(port), options);
  const [ca, cert, key] = process.env.SNOWFLAKE_TLS.split(",").map((file) => fs.readFileSync(file));
  const secure = { ...options, ca, cert, key };
  return thrift.createSSLConnection(host.slice("tls:".length), Number(port), secure);
}
const connection = connect();
connection.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
run(thrift.createClient(SnowflakeExtended, connection))
  .catch((error) => {
    console.log(`error ${error.name}: ${error.message}`);
    process.exitCode = 3;
  })
  .finally(() => connection.end());
