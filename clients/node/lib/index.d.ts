// SPDX-License-Identifier: Apache-2.0

/** Options of tls.connect(): the contents of PEM files, and whatever else it knows. */
export interface TlsOptions {
  ca?: string | Uint8Array | Array<string | Uint8Array>;
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
  [option: string]: unknown;
}

export interface Options {
  /** The name of the program: a letter, then letters, figures and "-", 256 at most. */
  agent: string;
  /** The deadline of each call, over all servers together. Default: 3000. */
  timeoutMs?: number;
  /** For how long the IDs in hand are to last; 0: each call asks a server. Default: 50. */
  prefetchMs?: number;
  /** IDs that were asked for longer ago are thrown away; at least twice prefetchMs. Default: 1000. */
  maxAgeMs?: number;
  /** For servers after "tls:". By default a server's certificate is held against Node's authorities. */
  tls?: TlsOptions;
  /** IDs are BigInts, not strings. Default: false. */
  bigint?: boolean;
}

/** Unique IDs from one of several servers. */
export interface Snowflake<Id extends string | bigint = string> {
  /** An ID. Those of one caller increase as long as one server answers. */
  nextId(): Promise<Id>;
  /** As many IDs, increasing as those of nextId() do; all of them, or none. */
  nextIds(count: number): Promise<Id[]>;
  /** Calls under way end at once, later ones fail, with ClosedError. What is in hand is lost. */
  close(): void;
}

/** HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH; one or several. */
export type Servers = string | readonly string[];

/**
 * Throws InvalidAgentError, TypeError or RangeError if an argument cannot be. Nothing is connected to
 * before the first call. Without servers it is 127.0.0.1:7609.
 */
export const Snowflake: {
  new (servers: Servers | undefined, options: Options & { bigint: true }): Snowflake<bigint>;
  new (servers: Servers | undefined, options: Options & { bigint?: false }): Snowflake<string>;
  new (servers: Servers | undefined, options: Options): Snowflake<string | bigint>;
};

/** A server that was asked, and why it did not answer with IDs. */
export interface Attempt {
  /** As it was given. */
  server: string;
  reason: string;
}

/** No ID was to be had. The message is one line that names each server and why. */
export class SnowflakeError extends Error {
  constructor(message: string, attempts?: Attempt[]);
  readonly code: string;
  /** In the order in which they were made. */
  readonly attempts: Attempt[];
}
/** The clock of a server is behind its IDs, or outside the layout. */
export class ClockError extends SnowflakeError {}
/** A server has no worker ID, or no IDs for the present time. */
export class UnavailableError extends SnowflakeError {
  constructor(message: string, attempts?: Attempt[], retryAfterMs?: number);
  /** The least that a server said; undefined: none did. */
  readonly retryAfterMs: number | undefined;
}
/** The agent is not a letter and then letters, figures and "-", 256 at most; or is refused. */
export class InvalidAgentError extends SnowflakeError {}
/** No server could be connected to, or answered as one. */
export class UnreachableError extends SnowflakeError {}
/** The deadline of the call was over first. */
export class SnowflakeTimeoutError extends SnowflakeError {}
/** The client is closed. */
export class ClosedError extends SnowflakeError {}

/** What an ID says. */
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
