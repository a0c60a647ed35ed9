// SPDX-License-Identifier: Apache-2.0
import { Snowflake } from 'snowflake-client';

const client = new Snowflake('127.0.0.1:7609', { agent: 'my-program' });
console.log(await client.nextId(), await client.nextIds(3));
client.close();
