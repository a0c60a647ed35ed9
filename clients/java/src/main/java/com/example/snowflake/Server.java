// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** A server, as the client was given it: an endpoint, or a name that is resolved to several. */
final class Server {
	private static final String DEFAULT_PORT = "7609";
	private static final int MAX_PORT = 65535;
	private static final int MAX_PATH_BYTES = 107;
	private static final Pattern HOST = Pattern.compile(
		"(?:\\[(?<v6>[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%[A-Za-z0-9._-]{1,15})?)\\]"
		+ "|(?<host>[^\\[\\]:/\\s]+))(?::(?<port>\\d{1,5}))?");
	private static final String OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
	private static final Pattern V4 =
		Pattern.compile("(?:" + OCTET + "\\.){3}" + OCTET);
	private static final String TLS = "tls:";
	private static final String UNIX = "unix:";

	final String text;
	final boolean isTls;
	final int port; // 0: a local socket
	final String host;
	final Endpoint name; // null: the server was given by its address
	private List<Endpoint> endpoints = List.of(); // of a name: as it was last resolved

	Server(String text) {
		this.text = text;
		isTls = text.startsWith(TLS);
		if (text.startsWith(UNIX)) {
			host = "";
			port = 0;
			name = null;
			endpoints = List.of(new Endpoint(this, path(text.substring(UNIX.length()))));
			return;
		}
		Matcher found = HOST.matcher(isTls ? text.substring(TLS.length()) : text);
		if (!found.matches())
			throw invalid("must be HOST, HOST:PORT or [IPV6]:PORT, one of them after tls:, or unix:/PATH");
		port = Integer.parseInt(found.group("port") == null ? DEFAULT_PORT : found.group("port"));
		if (port < 1 || port > MAX_PORT)
			throw invalid("port " + port + " is not 1 to " + MAX_PORT);
		boolean isV6 = found.group("v6") != null;
		host = isV6 ? found.group("v6") : found.group("host");
		name = isV6 || V4.matcher(host).matches() ? null : new Endpoint(this, null);
		if (name == null)
			setAddresses(number());
	}

	private SocketAddress path(String path) {
		if (path.startsWith("@"))
			throw invalid("Java has no abstract local sockets; use unix:/PATH");
		if (!path.startsWith("/") || path.length() == 1
				|| path.getBytes(StandardCharsets.UTF_8).length > MAX_PATH_BYTES)
			throw invalid("must be unix:/PATH, at most " + MAX_PATH_BYTES + " bytes");
		return UnixDomainSocketAddress.of(path);
	}

	private InetAddress[] number() {
		try {
			return new InetAddress[] {InetAddress.getByName(host)}; // without DNS
		} catch (UnknownHostException e) {
			throw invalid("not an IPv6 address, or no such interface");
		}
	}

	private IllegalArgumentException invalid(String why) {
		return new IllegalArgumentException("server \"" + text + "\": " + why);
	}

	boolean isName() {
		return name != null;
	}

	/** Returns the name, or the only endpoint. */
	Endpoint mainEndpoint() {
		return name != null ? name : endpoints.get(0);
	}

	/** Keeps endpoints that are known already. */
	void setAddresses(InetAddress[] found) {
		List<Endpoint> made = new ArrayList<>();

		for (InetAddress one : found) {
			SocketAddress address = new InetSocketAddress(one, port);
			made.add(endpoints.stream().filter(known -> known.address.equals(address)).findAny()
				.orElseGet(() -> new Endpoint(this, address)));
		}
		endpoints.stream().filter(known -> !made.contains(known)).forEach(Endpoint::disconnect);
		Collections.shuffle(made);
		endpoints = made;
	}

	/** Returns the name, which is resolved before each new connection, and the addresses. */
	Stream<Endpoint> candidates() {
		return Stream.concat(Stream.ofNullable(name), endpoints.stream());
	}

	void disconnect() {
		endpoints.forEach(Endpoint::disconnect);
	}

	/** Returns the name for SNI and for checking the certificate: without the trailing dot, which only
	 * the resolver needs (RFC 6066), and without the zone. */
	String tlsName() {
		return host.replaceFirst("%.*|\\.$", "");
	}
}
