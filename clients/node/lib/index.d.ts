// SPDX-License-Identifier: Apache-2.0
declare global {
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}

/** Options of tls.connect(). `ca`, `cert` and `key` are the contents of PEM files. */
export interface TlsOptions {
  ca?: string | Uint8Array | Array<string | Uint8Array>;
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
  [option: string]: unknown;
}

export interface Options<Big extends boolean = boolean> {
  /** Name under which servers count this program's IDs: a letter, then letters, digits and "-", at
   * most 256 characters. Default: the name of the script, without its suffix. */
  agent?: string;
  /** Time limit of each call, across all servers. Default: 3000. */
  timeoutMs?: number;
  /** How long the client waits for a server before it also tries the next one. For nearby servers,
   * it waits only eight round trips, but at least 40% of this time. Default: 250. */
  attemptTimeoutMs?: number;
  /** How long the prefetched IDs should last. 0 disables prefetching. Default: 50. */
  prefetchMs?: number;
  /** Prefetched IDs are discarded after this time; at least twice prefetchMs. Default: 1000. */
  maxAgeMs?: number;
  /** For servers with "tls:". Default: servers are verified with Node's CA certificates. */
  tls?: TlsOptions;
  /** Return IDs as BigInts instead of strings. Default: false. */
  bigint?: Big;
}

export interface CallOptions {
  /** Ends the call, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Time limit of this call. Default: the client's. */
  timeoutMs?: number;
}

export interface Stats {
  /** The server that answered last. If it was given by name, with its IP address. */
  server: string | undefined;
  prefetched: number;
  /** IDs taken. This and the following counts are since the client was created. */
  taken: number;
  /** IDs discarded because of their age. */
  discarded: number;
  refills: number;
  /** Attempts that failed or were not answered in time. */
  failures: number;
  failovers: number;
  /** Calls that are waiting now. */
  waiting: number;
}

/**
 * HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH. Several servers are
 * given as an array or separated by commas, or as
 * snowflake://HOST:PORT,HOST:PORT/?agent=NAME&timeout_ms=N, which also accepts attempt_timeout_ms,
 * prefetch_ms and max_age_ms; snowflakes:// selects TLS.
 */
export type Servers = string | readonly string[];

export type Id<Big extends boolean> = Big extends true ? bigint : string;

/** Unique IDs from one of several servers. */
export class Snowflake<Big extends boolean = false> {
  /** Connects at the first call. Default servers: $SNOWFLAKE_SERVERS, or 127.0.0.1:7609. Throws
   * InvalidAgentError, TypeError or RangeError. */
  constructor(servers?: Servers, options?: Options<Big>);
  /** Resolves to an ID. If a caller awaits each ID before it requests the next one, its IDs increase
   * as long as the same server answers. */
  nextId(options?: CallOptions): Promise<Id<Big>>;
  /** Resolves to `count` IDs, which increase. */
  nextIds(count: number, options?: CallOptions): Promise<Array<Id<Big>>>;
  stats(): Stats;
  /** Makes calls in progress and later calls reject with ClosedError. Prefetched IDs are lost. */
  close(): void;
  /** Calls close(). */
  [Symbol.dispose](): void;
}

/** An endpoint that was tried, and why it did not return IDs. */
export interface Attempt {
  /** As it was given. */
  server: string;
  reason: string;
  cause?: Error;
}

/** A call did not get IDs. The message is one line that lists each server and the reason; `cause`
 * is the underlying Node error, if there was one. */
export class SnowflakeError extends Error {
  constructor(message: string, attempts?: Attempt[]);
  readonly code: string;
  /** The last attempt at each endpoint, in order. */
  readonly attempts: Attempt[];
}
/** A server's clock is behind the IDs that it has issued, or outside the layout's range. */
export class ClockError extends SnowflakeError {}
/** A server has no worker ID, or no IDs left for the current time. */
export class UnavailableError extends SnowflakeError {
  constructor(message: string, attempts?: Attempt[], retryAfterMs?: number);
  /** The shortest time returned by a server. */
  readonly retryAfterMs: number | undefined;
}
/** The agent is invalid, or a server refused it. */
export class InvalidAgentError extends SnowflakeError {}
/** No server could be reached, or the reply is not from a Snowflake server. */
export class UnreachableError extends SnowflakeError {}
/** No server answered within the time limit. */
export class SnowflakeTimeoutError extends SnowflakeError {}
/** The client is closed. */
export class ClosedError extends SnowflakeError {}

/** The fields of an ID. */
export interface Parts {
  /** The beginning of the tick. */
  time: Date;
  datacenter: number;
  worker: number;
  sequence: number;
}

/** How an ID is divided, from the highest bits to the lowest: time, datacenter, worker, sequence. */
export class Layout {
  constructor(layout: {
    /** The time of tick 0, in milliseconds since the Unix epoch. */
    epochMs: number;
    timeBits: number;
    datacenterBits: number;
    workerBits: number;
    sequenceBits: number;
    /** Length of a tick. Default: 1. */
    timeUnitMs?: number;
  });
  readonly epochMs: number;
  readonly timeBits: number;
  readonly datacenterBits: number;
  readonly workerBits: number;
  readonly sequenceBits: number;
  readonly timeUnitMs: number;
  /** Throws RangeError if the argument is not an ID of this layout. */
  decode(id: string | bigint): Parts;
  /**
   * Returns the lowest ID at `from` and the highest at `to`, for WHERE id BETWEEN. Ticks that are
   * only partly in the time range are included. The time range can begin before the layout or end
   * after it. Throws RangeError if it ends before it begins, or is completely outside the
   * layout's range.
   */
  range<Big extends boolean = false>(from: Date, to: Date, options?: { bigint?: Big }):
    [Id<Big>, Id<Big>];
}

/** Twitter's layout, the servers' default. */
export const TWITTER: Layout;

/** Like Layout.decode(). */
export function decode(id: string | bigint, layout?: Layout): Parts;

/** Like Layout.range(). */
export function range<Big extends boolean = false>(from: Date, to: Date,
  options?: { layout?: Layout; bigint?: Big }): [Id<Big>, Id<Big>];

/** Returns 11 digits: 0 to 9, A to Z, a to z. */
export function toBase62(id: string | bigint): string;
/** Leading zeros can be omitted. Throws RangeError if the text is not an ID. */
export function fromBase62<Big extends boolean = false>(text: string, options?: { bigint?: Big }):
  Id<Big>;

/** Returns 13 digits of Crockford's base 32. */
export function toCrockford(id: string | bigint): string;
/** Accepts both cases; I and L count as 1, and O counts as 0. Throws RangeError if the text is not an ID. */
export function fromCrockford<Big extends boolean = false>(text: string, options?: { bigint?: Big }):
  Id<Big>;
