// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;

/** An address of a server, or its name, which is resolved to such endpoints. The client's lock guards
 * what changes. */
final class Endpoint {
	final Server server;
	final SocketAddress address; // null: a name
	Connection connection; // idle; can be null
	long failedNs; // 0: it has not failed since its last answer
	long roundTripNs; // 0: not known
	boolean isPending; // an attempt is under way, not on an older connection

	Endpoint(Server server, SocketAddress address) {
		this.server = server;
		this.address = address;
	}

	boolean isName() {
		return address == null;
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
