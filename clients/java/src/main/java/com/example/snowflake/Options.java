// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.function.Consumer;
import javax.net.ssl.SSLContext;

/** The options of a client: see {@link SnowflakeBuilder}. */
record Options(String agent, long timeoutNs, long attemptTimeoutNs, long prefetchNs, long maxAgeNs,
		SSLContext tls, boolean isAnyName, Consumer<Attempt> onFailure) { }
