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
  /** Name of the calling program: a letter, then letters, digits and "-", at most 256. Default: the
   * name of the script, without its suffix. */
  agent?: string;
  /** Time limit of each call, over all servers. Default: 3000. */
  timeoutMs?: number;
  /** After this time without an answer, the next server is tried too. Less for near servers: eight
   * round trips, but at least 40 % of it. Default: 250. */
  attemptTimeoutMs?: number;
  /** How long the prefetched IDs should last. 0: each call requests its IDs. Default: 50. */
  prefetchMs?: number;
  /** Prefetched IDs are discarded after this time; at least twice prefetchMs. Default: 1000. */
  maxAgeMs?: number;
  /** For servers after "tls:". Default: the CA certificates of Node verify the server. */
  tls?: TlsOptions;
  /** IDs are BigInts instead of strings. Default: false. */
  bigint?: Big;
}

export interface CallOptions {
  /** Ends the call: it rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Time limit of this call. Default: that of the client. */
  timeoutMs?: number;
}

export interface Stats {
  /** The server that answered last, with its IP address if it is a name. */
  server: string | undefined;
  prefetched: number;
  /** Since the start, as all that follow. */
  taken: number;
  /** Discarded for their age. */
  discarded: number;
  refills: number;
  /** Attempts that failed or had no answer in time. */
  failures: number;
  failovers: number;
  /** Calls that wait now. */
  waiting: number;
}

/**
 * HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH. Several are separated by
 * commas or in an array. Or snowflake://HOST:PORT,HOST:PORT/?agent=NAME&timeout_ms=N, with
 * attempt_timeout_ms, prefetch_ms and max_age_ms too; snowflakes:// is for TLS.
 */
export type Servers = string | readonly string[];

export type Id<Big extends boolean> = Big extends true ? bigint : string;

/** Unique IDs from one of several servers. */
export class Snowflake<Big extends boolean = false> {
  /** Connects at the first call. Default servers: $SNOWFLAKE_SERVERS, or 127.0.0.1:7609. Throws
   * InvalidAgentError, TypeError or RangeError. */
  constructor(servers?: Servers, options?: Options<Big>);
  /** Resolves to an ID. Those of one caller increase as long as one server answers. */
  nextId(options?: CallOptions): Promise<Id<Big>>;
  /** Resolves to `count` IDs, which increase. */
  nextIds(count: number, options?: CallOptions): Promise<Array<Id<Big>>>;
  stats(): Stats;
  /** Calls under way and later ones reject with ClosedError. Prefetched IDs are lost. */
  close(): void;
  /** Calls close(). */
  [Symbol.dispose](): void;
}

/** An endpoint that was tried, and why it returned no IDs. */
export interface Attempt {
  /** As it was given. */
  server: string;
  reason: string;
  cause?: Error;
}

/** A call got no IDs. The message is one line with each server and reason; `cause` is an error of
 * Node, if there was one. */
export class SnowflakeError extends Error {
  constructor(message: string, attempts?: Attempt[]);
  readonly code: string;
  /** The last of each endpoint, in order. */
  readonly attempts: Attempt[];
}
/** A server's clock is behind its IDs, or outside the layout. */
export class ClockError extends SnowflakeError {}
/** A server has no worker ID, or no IDs for the present time. */
export class UnavailableError extends SnowflakeError {
  constructor(message: string, attempts?: Attempt[], retryAfterMs?: number);
  /** The least that a server returned. */
  readonly retryAfterMs: number | undefined;
}
/** The agent is not valid, or a server refused it. */
export class InvalidAgentError extends SnowflakeError {}
/** No server could be reached, or what answered is not a Snowflake server. */
export class UnreachableError extends SnowflakeError {}
/** A server did not answer within the time limit. */
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

/** How an ID divides, from high bits to low: time, datacenter, worker, sequence. */
export class Layout {
  constructor(layout: {
    /** The time that is 0, since the Unix epoch. */
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
  /** Throws RangeError if it is not an ID of this layout. */
  decode(id: string | bigint): Parts;
  /**
   * Returns the lowest ID of `from` and the highest of `to`, for WHERE id BETWEEN. A tick that is
   * partly in the range counts as a whole. The range may begin before the layout or end after it.
   * Throws RangeError if it ends before it begins, or is outside the layout.
   */
  range<Big extends boolean = false>(from: Date, to: Date, options?: { bigint?: Big }):
    [Id<Big>, Id<Big>];
}

/** Twitter's layout, the default of servers. */
export const TWITTER: Layout;

/** As Layout.decode(). */
export function decode(id: string | bigint, layout?: Layout): Parts;

/** As Layout.range(). */
export function range<Big extends boolean = false>(from: Date, to: Date,
  options?: { layout?: Layout; bigint?: Big }): [Id<Big>, Id<Big>];

/** Returns 11 digits: 0 to 9, A to Z, a to z. */
export function toBase62(id: string | bigint): string;
/** Leading zeros can be omitted. Throws RangeError if it is not an ID. */
export function fromBase62<Big extends boolean = false>(text: string, options?: { bigint?: Big }):
  Id<Big>;

/** Returns 13 digits of Crockford's base 32. */
export function toCrockford(id: string | bigint): string;
/** Accepts both cases; I and L are 1, O is 0. Throws RangeError if it is not an ID. */
export function fromCrockford<Big extends boolean = false>(text: string, options?: { bigint?: Big }):
  Id<Big>;
