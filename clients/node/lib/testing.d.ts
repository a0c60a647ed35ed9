// SPDX-License-Identifier: Apache-2.0
import { Snowflake } from './index';

/** Of 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0. */
export const FIRST_ID: string;

/** A client without a server: first, first + step and so on, the same in each run. */
export class FakeSnowflake<Big extends boolean = false> extends Snowflake<Big> {
  /** Defaults: FIRST_ID, 1 and false. */
  constructor(options?: { first?: string | bigint; step?: number; bigint?: Big });
  /** The next call rejects with it. More than one: in order, each for one call. */
  failNext(error: Error): void;
}

/**
 * Resolves to a real server that is ready. Its state is in a temporary directory. It does not keep
 * the process alive, and ends with it, unless a signal kills the process.
 */
export function startServer(options?: {
  /** Default: snowflaked, in $PATH. */
  program?: string;
  /** Default: 127.0.0.1:0, a free port. */
  listen?: string;
  /** More options for the server. */
  args?: readonly string[];
}): Promise<{
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}>;
