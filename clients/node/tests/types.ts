// SPDX-License-Identifier: Apache-2.0
// What the types promise; compiled by a test, never run.
import {
  type CallOptions,
  Layout, Snowflake, SnowflakeError, TWITTER, UnavailableError, decode, fromBase62, range, toBase62,
} from 'snowflake-client';
import { FakeSnowflake, startServer } from 'snowflake-client/testing';

class Ours extends Snowflake {
  async nextId(options?: CallOptions): Promise<string> {
    return `order-${await super.nextId(options)}`;
  }
}

async function use(): Promise<void> {
  const strings = new Snowflake('a.example', { agent: 'test' });
  const id: string = await strings.nextId();
  const bigints = new Snowflake(['a', 'b'], { agent: 'test', bigint: true, tls: { ca: '' } });
  const ids: bigint[] = await bigints.nextIds(3);
  const other: bigint = await new Snowflake(undefined, { agent: 'test', bigint: true }).nextId();
  const fake: Snowflake = new FakeSnowflake();
  const ours: Snowflake = new Ours();
  const bigFake: Snowflake<true> = new FakeSnowflake({ first: 5n, bigint: true });
  const [lowest]: [bigint, bigint] = range(new Date(), new Date(), { bigint: true, layout: TWITTER });
  const text: string = toBase62(ids[0] ?? other) + fromBase62(id) + lowest + await fake.nextId()
    + await bigFake.nextId() + await ours.nextId({ signal: AbortSignal.timeout(5), timeoutMs: 7 });
  const { time }: { time: Date } = decode(text, new Layout({ ...TWITTER, timeUnitMs: 10 }));
  try {
    await (await startServer({ program: 'snowflaked', args: [] })).stop();
  } catch (error) {
    if (error instanceof UnavailableError) {
      const ms: number | undefined = error.retryAfterMs;
      throw new SnowflakeError(`${time} ${ms} ${error.attempts[0]?.reason} ${error.cause}`,
        error.attempts);
    }
  }
  strings.close();
  // @ts-expect-error: an ID is not a number
  const number: number = await strings.nextId();
  const { prefetched, server }: { prefetched: number; server: string | undefined } = ours.stats();
  bigints[Symbol.dispose]();
  void [prefetched, server];
  // @ts-expect-error: there is no such option
  new Snowflake('a.example', { agent: 'test', timeout: number });
  // @ts-expect-error: BigInts have to be asked for
  const bigint: bigint = await strings.nextId();
  void bigint;
}

void use;
