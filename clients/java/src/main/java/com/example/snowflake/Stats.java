// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

/** The state of a client, and counts since it was created.
 *
 * @param server the server that answered last, as given to the client; null if none has answered
 * @param prefetched IDs in the buffer
 * @param waiting calls that wait for a server
 * @param taken IDs that calls have returned
 * @param discarded prefetched IDs that were too old
 * @param refills requests that were answered with IDs
 * @param failures attempts that failed or were slow
 * @param failovers refills by a different endpoint from the previous one */
public record Stats(String server, int prefetched, int waiting, long taken, long discarded, long refills,
		long failures, long failovers) { }
