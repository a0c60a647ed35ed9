// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.example.snowflake.Attempt.Kind;
import com.example.snowflake.Buffer.Run;
import com.example.snowflake.Failure.Type;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.stream.Stream;

/** A refill gets IDs for all calls that wait, and for the buffer. A client has one at a time.
 *
 * It tries the endpoints one after the other. If one fails, or does not answer soon, the next one is
 * tried; the slow one can still answer, and the first answer wins. While all fail, each is tried again
 * after its backoff, until an answer comes or no call is waiting.
 *
 * Each request has a thread, which makes the next request if its own fails. If it is slow, its timer
 * starts a thread that makes the next one. The client's lock guards all fields. */
final class Refill {
	private static final long MS = TimeUnit.MILLISECONDS.toNanos(1);
	private static final long LEAST_PATIENCE_NS = 50 * MS; // with an endpoint
	private static final long LONGEST_PATIENCE_NS = 250 * MS;
	private static final long LEAST_SHARE_NS = 5 * MS; // the same if a call has little time left
	private static final long LONGEST_INLINE_NS = 50 * MS;
	private static final long POLL_NS = 10 * MS; // while requests of an earlier refill end

	/** A request to an endpoint, or the resolution of a name. */
	final class Request {
		final Endpoint endpoint;
		final long beganNs = Snowflake.now();
		private final boolean isOnOldConnection;
		private Connection connection;
		private volatile long askedNs = beganNs;
		private long slowNs;
		private boolean isSlow;
		private boolean isExpired;
		private CompletableFuture<Void> timer; // null while the request is in the thread of a caller

		/** Takes the connection of the endpoint, if there is one. Meanwhile, another request can try the
		 * endpoint: a connection may have ended without a sign, while the server is well. */
		Request(Endpoint endpoint) {
			this.endpoint = endpoint;
			connection = endpoint.connection;
			isOnOldConnection = connection != null;
			endpoint.connection = null;
			if (!isOnOldConnection)
				endpoint.isPending = true;
			slowNs = beganNs + patienceNs();
			requests.add(this);
			client.waiters.forEach(this::leaveHalf);
		}

		private long patienceNs() {
			if (client.options.attemptTimeoutNs() > 0)
				return client.options.attemptTimeoutNs();
			return endpoint.roundTripNs == 0 ? LONGEST_PATIENCE_NS
				: Math.min(8 * endpoint.roundTripNs + LEAST_PATIENCE_NS, LONGEST_PATIENCE_NS);
		}

		/** Leaves half of the time until the deadline of a call for other endpoints. */
		private void leaveHalf(Waiter w) {
			long nowNs = Snowflake.now();
			long soonNs = nowNs + Math.max((w.deadlineNs - nowNs) / 2, LEAST_SHARE_NS);

			if (isSlow || soonNs >= slowNs)
				return;
			slowNs = soonNs;
			if (timer != null) {
				timer.cancel(false);
				startTimer();
			}
		}

		private Request startTimer() {
			long atNs = Math.min(slowNs, endNs());
			timer = Background.after(atNs - Snowflake.now(), this::giveWay);
			return this;
		}

		private long endNs() {
			return beganNs + client.options.timeoutNs();
		}

		/** Tries the next endpoint while this request is under way. */
		private void giveWay() {
			client.lock.lock();
			try {
				if (isOver() || !requests.contains(this) || isSlow)
					return;
				isSlow = true;
				endpoint.postpone();
				client.report(failureSoFar(), endpoint);
				timer = Background.after(endNs() - Snowflake.now(), this::expire);
			} finally {
				client.unlock();
			}
			work(null);
		}

		/** Closes the connection, at the time limit of a request. */
		private void expire() {
			client.lock.lock();
			isExpired = true;
			if (connection != null && requests.contains(this))
				connection.close();
			client.unlock();
		}

		/** Returns the failure that the request has so far. */
		Failure failureSoFar() {
			String what = endpoint.isName() ? "name not resolved" : connection == null || askedNs == 0
				? "no connection" : "no answer";
			return new Failure(Kind.TIMEOUT, what + " for " + (Snowflake.now() - beganNs) / MS + " ms", null);
		}

		/** Makes the request, while the client is not locked. Returns false if it has no result before a
		 * deadline: then it must be performed again. 0: no deadline. */
		private boolean perform(long deadlineNs) {
			List<Run> runs = null;
			InetAddress[] addresses = null;
			Failure failure = null;

			try {
				if (endpoint.isName()) {
					addresses = InetAddress.getAllByName(endpoint.server.host);
				} else {
					if (!isOnOldConnection)
						connect();
					runs = connection.request(client.options.agent(), count, deadlineNs);
					if (runs == null)
						return false;
				}
			} catch (Failure e) {
				failure = e;
			} catch (UnknownHostException e) {
				failure = new Failure(Kind.UNREACHABLE, "cannot resolve the name", e);
			} catch (RuntimeException | Error e) { // for example, a provider of TLS is broken
				failure = new Failure(Kind.UNREACHABLE, e.toString(), e);
			}
			client.lock.lock();
			try {
				finish(this, runs, addresses, failure);
			} finally {
				client.unlock();
			}
			return true;
		}

		private void connect() throws Failure {
			Connection made = new Connection(endpoint);

			client.lock.lock();
			connection = made; // from now on, it can be closed
			askedNs = 0;
			if (isOver() || isExpired)
				made.close();
			client.unlock();
			made.open(client.options.tls(), client.options.isAnyName());
			askedNs = Snowflake.now();
		}
	}

	private final Snowflake client;
	private final int count; // IDs to request
	private final long untilNs; // when it ends if no call is waiting
	private final Set<Request> requests = new LinkedHashSet<>();
	private final Condition changed; // for the thread that is pausing
	boolean isPausing;

	Refill(Snowflake client, int count, long nowNs) {
		this.client = client;
		this.count = count;
		untilNs = nowNs + client.options.timeoutNs();
		changed = client.lock.newCondition();
	}

	/** Begins. If a thread waits and there is a connection, the first request begins in this thread. */
	void start(Waiter w) {
		Endpoint current = client.current;
		Request first = current == null || current.connection == null ? null : new Request(current);
		boolean canWait = first != null && w != null && w.future == null
			&& first.connection.canTimeOut();
		boolean isDone = canWait && performHere(first,
			Math.min(Math.min(first.beganNs + LONGEST_INLINE_NS, first.slowNs), w.deadlineNs));

		if (startThread(isDone ? null : first))
			return;
		if (canWait && !isDone)
			isDone = performHere(first, w.deadlineNs);
		if (!isOver())
			endWithoutThread(isDone ? null : first);
	}

	/** Performs a request in the thread of a caller, while the client is not locked. */
	private boolean performHere(Request request, long deadlineNs) {
		client.lock.unlock();
		try {
			return request.perform(deadlineNs);
		} finally {
			client.lock.lock();
		}
	}

	/** Returns false if the system has no thread. */
	private boolean startThread(Request first) {
		if (isOver())
			return true;
		if (first != null)
			first.startTimer();
		return Background.run(() -> work(first));
	}

	private void endWithoutThread(Request first) {
		if (first != null)
			finish(first, null, null, new Failure(Kind.UNREACHABLE, "cannot start a thread", null, 0,
				first.connection.isIdle() ? Type.ANSWER : Type.BROKEN));
		client.buffer.pauseRefills();
		end();
		client.failAll(() -> new UnreachableException("cannot start a thread", List.of()));
	}

	/** Makes requests, one after the other. The first one has begun, if there is one. */
	private void work(Request first) {
		Request request = first;

		do {
			if (request != null)
				request.perform(0);
			client.lock.lock();
			try {
				request = next();
			} finally {
				client.unlock();
			}
		} while (request != null);
	}

	/** Begins the next request. Returns null if there is none, or another thread is about to begin it. */
	private Request next() {
		changed.signalAll();
		while (!isOver()) {
			long nowNs = Snowflake.now();
			Endpoint endpoint = client.nextEndpoint();
			if (endpoint != null && endpoint.readyNs <= nowNs) {
				return new Request(endpoint).startTimer();
			} else if (client.waiters.isEmpty() && nowNs > untilNs) {
				client.buffer.pauseRefills();
				end();
			} else if (isPausing || endpoint == null && !requests.isEmpty()) {
				return null;
			} else {
				isPausing = true;
				try {
					changed.awaitNanos(endpoint == null ? POLL_NS : endpoint.readyNs - nowNs);
				} catch (InterruptedException e) {
					// the hook of the program interrupted its thread
				}
				isPausing = false;
			}
		}
		return null;
	}

	/** Takes the deadline of a further call into account. */
	void leaveHalf(Waiter w) {
		requests.forEach(request -> request.leaveHalf(w));
	}

	/** Adds the failures of requests that are under way. A request that has just begun counts only if
	 * nothing else is known about its endpoint. */
	void addLate(Map<Endpoint, Failure> failures) {
		for (Request request : requests)
			if (request.isSlow || !failures.containsKey(request.endpoint))
				failures.put(request.endpoint, request.failureSoFar());
	}

	boolean isOver() {
		return client.refill != this;
	}

	/** Cancels what is under way. */
	void end() {
		client.refill = null;
		changed.signalAll();
		for (Request request : requests)
			if (request.connection != null)
				request.connection.close();
	}

	/** Ends a request. It failed if it has no result. The server can answer after the connection was
	 * half closed at the time limit: then it failed, too. */
	private void finish(Request request, List<Run> runs, InetAddress[] addresses, Failure found) {
		Endpoint endpoint = request.endpoint;
		Failure failure = !request.isExpired || addresses != null ? found : new Failure(Kind.TIMEOUT,
			"no answer within " + client.options.timeoutNs() / MS + " ms", found);

		if (request.timer != null)
			request.timer.cancel(false);
		if (!request.isOnOldConnection)
			endpoint.isPending = false;
		requests.remove(request);
		if (!isOver() && failure != null && failure.isAnswer() && endpoint.connection == null)
			endpoint.connection = request.connection;
		else if ((isOver() || failure != null) && request.connection != null)
			request.connection.close();
		if (isOver()) {
			return;
		} else if (failure != null) {
			failRequest(request, failure);
		} else if (addresses != null) {
			endpoint.server.setAddresses(addresses);
			endpoint.postpone();
		} else {
			succeed(request, runs);
		}
	}

	private void failRequest(Request request, Failure failure) {
		Endpoint endpoint = request.endpoint;

		if (failure.type == Type.STALE) // the server can be well
			return;
		client.failures.remove(endpoint); // so that it becomes the last one
		client.failures.put(endpoint, failure);
		if (failure.kind == Kind.INVALID_AGENT) { // all servers have the same rule
			end();
			client.failAll(null);
		}
		if (!request.isSlow) {
			endpoint.postpone();
			client.report(failure, endpoint);
		}
	}

	private void succeed(Request request, List<Run> runs) {
		Endpoint endpoint = request.endpoint;
		long nowNs = Snowflake.now();
		long sampleNs = nowNs - request.askedNs;

		end();
		client.disconnect(); // other endpoints
		endpoint.connection = request.connection;
		Stream.of(endpoint, endpoint.server.mainEndpoint()).forEach(Endpoint::endBackoff);
		endpoint.roundTripNs = endpoint.roundTripNs == 0 ? sampleNs
			: (3 * endpoint.roundTripNs + sampleNs) / 4;
		client.succeed(endpoint, runs, request.askedNs, nowNs);
	}
}
