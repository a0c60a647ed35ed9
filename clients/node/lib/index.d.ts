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
   * round trips, but at least 100. Default: 250. */
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
 * commas or in an array. snowflake://HOST:PORT,HOST:PORT/?agent=NAME; snowflakes:// is for TLS.
 */
export type Servers = string | readonly string[];

/** Unique IDs from one of several servers. */
export class Snowflake<Big extends boolean = false> {
  /** Connects at the first call. Default servers: $SNOWFLAKE_SERVERS, or 127.0.0.1:7609. Throws
   * InvalidAgentError, TypeError or RangeError. */
  constructor(servers?: Servers, options?: Options<Big>);
  /** Resolves to an ID. Those of one caller increase as long as one server answers. */
  nextId(options?: CallOptions): Promise<Big extends true ? bigint : string>;
  /** Resolves to `count` IDs, which increase. */
  nextIds(count: number, options?: CallOptions): Promise<Array<Big extends true ? bigint : string>>;
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
    /** Of a tick. Default: 1. */
    timeUnitMs?: number;
  });
  readonly epochMs: number;
  readonly timeBits: number;
  readonly datacenterBits: number;
  readonly workerBits: number;
  readonly sequenceBits: number;
  readonly timeUnitMs: number;
  /** The parts of an ID; RangeError if it is none of this layout. */
  decode(id: string | bigint): Parts;
  /**
   * The lowest ID of `from` and the highest of `to`, for WHERE id BETWEEN. A tick that the span has
   * only a part of counts as a whole. The span may begin before the layout or end after it;
   * RangeError if it ends before it begins, or is all outside the layout.
   */
  range(from: Date, to: Date, options: { bigint: true }): [bigint, bigint];
  range(from: Date, to: Date, options?: { bigint?: false }): [string, string];
}

/** Twitter's, which servers have by default. */
export const TWITTER: Layout;

/** The time, datacenter, worker and sequence of an ID. */
export function decode(id: string | bigint, layout?: Layout): Parts;

/** The lowest and the highest ID of a span of time, both of it: see Layout.range. */
export function range(from: Date, to: Date,
  options: { layout?: Layout; bigint: true }): [bigint, bigint];
export function range(from: Date, to: Date,
  options?: { layout?: Layout; bigint?: false }): [string, string];

/** 11 digits: figures, capital letters, small letters. */
export function toBase62(id: string | bigint): string;
/** The ID; RangeError if it is none. Zeros in front may be left out. */
export function fromBase62(text: string, options: { bigint: true }): bigint;
export function fromBase62(text: string, options?: { bigint?: false }): string;

/** 13 digits of Crockford's base 32. */
export function toCrockford(id: string | bigint): string;
/** The ID; RangeError if it is none. In either case; I and L are 1, O is 0. */
export function fromCrockford(text: string, options: { bigint: true }): bigint;
export function fromCrockford(text: string, options?: { bigint?: false }): string;
