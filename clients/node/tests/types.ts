// SPDX-License-Identifier: Apache-2.0
// What the types promise; compiled by a test, never run.
import {
  Layout, Snowflake, SnowflakeError, TWITTER, UnavailableError, decode, fromBase62, range, toBase62,
} from 'snowflake-client';
import { FakeSnowflake, startServer } from 'snowflake-client/testing';

async function use(): Promise<void> {
  const strings = new Snowflake('a.example', { agent: 'test' });
  const id: string = await strings.nextId();
  const bigints = new Snowflake(['a', 'b'], { agent: 'test', bigint: true, tls: { ca: '' } });
  const ids: bigint[] = await bigints.nextIds(3);
  const other: bigint = await new Snowflake(undefined, { agent: 'test', bigint: true }).nextId();
  const fake: Snowflake = new FakeSnowflake();
  const bigFake: Snowflake<bigint> = new FakeSnowflake({ first: 5n, bigint: true });
  const [lowest]: [bigint, bigint] = range(new Date(), new Date(), { bigint: true, layout: TWITTER });
  const text: string = toBase62(ids[0] ?? other) + fromBase62(id) + lowest + await fake.nextId()
    + await bigFake.nextId();
  const { time }: { time: Date } = decode(text, new Layout({ ...TWITTER, timeUnitMs: 10 }));
  try {
    await (await startServer({ program: 'snowflaked', args: [] })).stop();
  } catch (error) {
    if (error instanceof UnavailableError) {
      const ms: number | undefined = error.retryAfterMs;
      throw new SnowflakeError(`${time} ${ms} ${error.attempts[0]?.reason}`, error.attempts);
    }
  }
  strings.close();
  // @ts-expect-error: an ID is no number
  const number: number = await strings.nextId();
  // @ts-expect-error: the agent is not an option to leave out
  new Snowflake('a.example', {});
  // @ts-expect-error: nor is there such an option
  new Snowflake('a.example', { agent: 'test', timeout: number });
  // @ts-expect-error: BigInts have to be asked for
  const bigint: bigint = await strings.nextId();
  void bigint;
}

void use;
