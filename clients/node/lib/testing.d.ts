// SPDX-License-Identifier: Apache-2.0
import { Snowflake } from './index';

/** The ID with the time 2023-11-14T22:13:20Z, datacenter 1, worker 2 and sequence 0. */
export const FIRST_ID: string;

/** A client that does not need a server, and returns the same IDs in every run: first, first + step
 * and so on. */
export class FakeSnowflake<Big extends boolean = false> extends Snowflake<Big> {
  /** Defaults: FIRST_ID, 1 and false. */
  constructor(options?: { first?: string | bigint; step?: number; bigint?: Big });
  /** Makes the next call reject with this error. Several errors are used in order, one per call. */
  failNext(error: Error): void;
}

/**
 * Starts a real server, and resolves when it is ready. Its state is in a temporary directory. The
 * server does not keep the process alive, and ends with it, unless the process is killed by a
 * signal.
 */
export function startServer(options?: {
  /** Default: snowflaked, in $PATH. */
  program?: string;
  /** Default: 127.0.0.1:0, a free port. */
  listen?: string;
  /** Additional options for the server. */
  args?: readonly string[];
}): Promise<{
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}>;
