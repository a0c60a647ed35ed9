// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** An address of a server, or its name, which is resolved to such endpoints. The client's lock guards
 * what changes. */
final class Endpoint {
	private static final long SHORTEST_BACKOFF_NS = TimeUnit.MILLISECONDS.toNanos(10);
	private static final long LONGEST_BACKOFF_NS = TimeUnit.MILLISECONDS.toNanos(250);

	final Server server;
	final SocketAddress address; // null: a name
	Connection connection; // idle; can be null
	long readyNs; // when it can be tried; 0: it has not failed since its last answer
	private long backoffNs; // doubles with each failure
	long roundTripNs; // 0: not known
	boolean isPending; // an attempt is under way, not on an older connection

	Endpoint(Server server, SocketAddress address) {
		this.server = server;
		this.address = address;
	}

	boolean isName() {
		return address == null;
	}

	/** Begins a backoff. */
	void postpone() {
		backoffNs = Math.min(Math.max(2 * backoffNs, SHORTEST_BACKOFF_NS), LONGEST_BACKOFF_NS);
		readyNs = Snowflake.now() + backoffNs * 3 / 4 + ThreadLocalRandom.current().nextLong(backoffNs / 2);
	}

	void endBackoff() {
		backoffNs = 0;
		readyNs = 0;
	}

	void disconnect() {
		if (connection != null)
			connection.close();
		connection = null;
	}

	@Override
	public String toString() {
		if (!(address instanceof InetSocketAddress tcp))
			return String.valueOf(address);
		InetAddress host = tcp.getAddress();
		return (host.getAddress().length > 4 ? "[" + host.getHostAddress() + "]" : host.getHostAddress())
			+ ":" + tcp.getPort();
	}
}
