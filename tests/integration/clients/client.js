// SPDX-License-Identifier: Apache-2.0
// client.js BINDINGS SERVICE, see ../official.py.
"use strict";

const fs = require("fs");
const readline = require("readline");
const thrift = require("thrift");

const [bindings, service] = process.argv.slice(2);
const Service = require(`${bindings}/${service}`);

const TRANSPORTS = { framed: thrift.TFramedTransport, unframed: thrift.TBufferedTransport };
const PROTOCOLS = {
  strict: thrift.TBinaryProtocol,
  unversioned: function (transport) {
    return new thrift.TBinaryProtocol(transport, false, false);
  },
  compact: thrift.TCompactProtocol,
};

// Int64.toString() passes through a double and loses digits
const decimal = (value) =>
  value instanceof thrift.Int64 ? BigInt.asIntN(64, BigInt(`0x${value.toOctetString()}`)) : value;

function lines(value) {
  if (Array.isArray(value)) return value.flatMap(lines);
  if (Buffer.isBuffer(value)) return [value.toString("hex")];
  if (typeof value !== "object" || value instanceof thrift.Int64) return [`${decimal(value)}`];
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  // a map is a plain object, a struct is not
  return Object.getPrototypeOf(value) === Object.prototype
    ? entries.map(([key, each]) => `${key} ${decimal(each)}`)
    : [entries.map(([name, each]) => `${name}=${decimal(each)}`).join(" ")];
}

function connect(host, port, options) {
  if (host.startsWith("unix:"))
    return thrift.createUDSConnection(host.slice("unix:".length), options);
  if (!host.startsWith("tls:")) return thrift.createConnection(host, port, options);
  const [ca, cert, key] = process.env.SNOWFLAKE_TLS.split(",").map((file) => fs.readFileSync(file));
  return thrift.createSSLConnection(host.slice("tls:".length), port, { ...options, ca, cert, key });
}

class Connection {
  constructor(host, port, framing, protocol) {
    const options = { transport: TRANSPORTS[framing], protocol: PROTOCOLS[protocol] };
    this.connection = connect(host, Number(port), options);
    // A call does not hear of these, and would wait for ever
    this.lost = new Promise((_, reject) => {
      this.connection.on("error", reject);
      this.connection.on("close", () => reject(new Error("closed, and the call unanswered")));
    });
    this.lost.catch(() => {});
    this.client = thrift.createClient(Service, this.connection);
  }

  opened() {
    return Promise.race([new Promise((done) => this.connection.on("connect", done)), this.lost]);
  }

  async call(method, agent, count) {
    if (method !== "get_id")
      return lines(
        await Promise.race([
          agent === undefined ? this.client[method]() : this.client[method](agent, Number(count)),
          this.lost,
        ])
      );
    const ids = [];
    for (let left = Number(count); left > 0; left--)
      ids.push(...lines(await Promise.race([this.client.get_id(agent), this.lost])));
    return ids;
  }
}

async function main() {
  let connection;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split(" ");
    try {
      let found = [];
      if (command === "open") {
        if (connection) connection.connection.end();
        connection = new Connection(...words);
        await connection.opened();
      } else {
        found = await connection.call(command, ...words);
      }
      console.log([...found, "."].join("\n"));
    } catch (error) {
      console.log(`error ${error.name}: ${error.message}`);
    }
  }
  if (connection) connection.connection.end();
}

main();
