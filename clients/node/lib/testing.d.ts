// SPDX-License-Identifier: Apache-2.0
import { Snowflake, SnowflakeError } from './index.js';

/** Of 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0. */
export const FIRST_ID: string;

/** The calls of a Snowflake, with IDs that are the same in each run: first, first + step and so on. */
export interface FakeSnowflake<Id extends string | bigint = string> extends Snowflake<Id> {
  /** The next call rejects with it; the one after it, with what is given next. */
  failNext(error: SnowflakeError): void;
}

export interface FakeOptions {
  /** Default: FIRST_ID. */
  first?: string | bigint;
  /** Default: 1. */
  step?: number;
  /** IDs are BigInts, not strings. Default: false. */
  bigint?: boolean;
}

export const FakeSnowflake: {
  new (options: FakeOptions & { bigint: true }): FakeSnowflake<bigint>;
  new (options?: FakeOptions & { bigint?: false }): FakeSnowflake<string>;
  new (options?: FakeOptions): FakeSnowflake<string | bigint>;
};

/**
 * A server of one's own, once it is ready. It keeps its state in a directory that goes with it. It
 * does not keep the process alive, and goes with its exit, but not if a signal kills it. Rejects if it
 * does not start.
 */
export function startServer(options?: {
  /** Default: snowflaked, of $PATH. */
  program?: string;
  /** Default: 127.0.0.1:0, a port that is free. */
  listen?: string;
  /** More options of the server's. */
  args?: readonly string[];
}): Promise<{
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}>;
