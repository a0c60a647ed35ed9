// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.twitter.service.snowflake.gen.InvalidCount;
import com.twitter.service.snowflake.gen.InvalidSystemClock;
import com.twitter.service.snowflake.gen.InvalidUserAgentError;
import com.twitter.service.snowflake.gen.WorkerIdUnavailable;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.thrift.TApplicationException;
import org.junit.Test;

/** What a server can answer. The servers are sockets, which answer by the official Thrift library. */
public class AnswersTest extends Support {
	private static final int INTERNAL = TApplicationException.INTERNAL_ERROR;
	private static final Peer.Answer UNAVAILABLE =
		call -> call.reply(Call.WORKER, new WorkerIdUnavailable("no worker ID", 250));
	private static final Peer.Answer BEHIND =
		call -> call.reply(Call.CLOCK, new InvalidSystemClock("behind"));

	private <T extends SnowflakeException> T outcome(Class<T> expected, Peer.Answer answer)
			throws IOException {
		Peer peer = peer(answer);
		T error = failing(expected, Snowflake::nextId, plain(peer.address()), 1);

		assertEquals(peer.address(), error.getAttempts().get(0).server());
		assertTrue(error.getMessage(), error.getMessage().contains(
			peer.address() + ": " + error.getAttempts().get(0).reason()));
		return error;
	}

	@Test
	public void typedExceptions() throws IOException {
		UnavailableException unavailable = outcome(UnavailableException.class, UNAVAILABLE);

		assertEquals(Optional.of(Duration.ofMillis(250)), unavailable.getRetryAfter());
		assertEquals("the server refused: no worker ID", unavailable.getAttempts().get(0).reason());
		outcome(ClockException.class, BEHIND);
		for (long wait : new long[] {0, -1})
			assertEquals(Optional.empty(), outcome(UnavailableException.class,
				call -> call.reply(Call.WORKER, new WorkerIdUnavailable("no", wait)))
				.getRetryAfter());
		outcome(UnavailableException.class,
			call -> call.reply(Call.WORKER, new WorkerIdUnavailable("no", Long.MAX_VALUE)));
	}

	@Test
	public void legacyExceptions() throws IOException {
		assertEquals(Optional.empty(), outcome(UnavailableException.class,
			legacy("WorkerIdUnavailable: why: so")).getRetryAfter());
		assertEquals("the server refused: why: so", outcome(ClockException.class,
			legacy("InvalidSystemClock: why: so")).getAttempts().get(0).reason());
		outcome(InvalidAgentException.class, legacy("InvalidUserAgentError: no"));
		outcome(UnreachableException.class, legacy("Cheese: none"));
	}

	private static Peer.Answer legacy(String message) {
		return call -> call.name().equals("get_id") ? call.exception(INTERNAL, message)
			: call.unknown();
	}

	@Test
	public void aRefusedAgentIsNotTriedElsewhere() throws IOException {
		Peer.Answer answer = call -> call.reply(Call.AGENT, new InvalidUserAgentError("no"));
		Peer first = peer(answer);
		Peer second = peer(answer);

		InvalidAgentException error = assertThrows(InvalidAgentException.class,
			open(plain(first.address(), second.address()))::nextId);
		assertEquals(1, error.getAttempts().size());
		assertEquals(1, first.calls.size() + second.calls.size());
	}

	@Test
	public void serversFailInDifferentWays() throws IOException {
		String later = peer(call -> call.reply(Call.WORKER, new WorkerIdUnavailable("later", 300)))
			.address();
		String unavailable = peer(UNAVAILABLE).address();
		String behind = peer(BEHIND).address();
		String ends = peer(call -> null).address();

		UnavailableException error = failing(UnavailableException.class, Snowflake::nextId,
			plain(later, behind, unavailable, dead()), 4);
		assertEquals(Optional.of(Duration.ofMillis(250)), error.getRetryAfter());
		failing(ClockException.class, Snowflake::nextId, plain(dead(), behind, ends), 3);
		failing(UnreachableException.class, Snowflake::nextId, plain(dead(), ends), 2);
	}

	@Test
	public void wrongAnswers() throws IOException {
		Peer good = peer(Call::ids);

		for (var garbage : Garbage.all().entrySet()) {
			Peer peer = peer(garbage.getValue());
			UnreachableException error = failing(UnreachableException.class,
				client -> client.nextIds(2), plain(peer.address()), 1);
			assertTrue(garbage.getKey(), error.getMessage().length() < 400);
			assertFalse(garbage.getKey(), error.getMessage().matches("(?s).*\\p{Cntrl}.*"));
			assertIds(open(plain(peer.address(), good.address())).nextIds(2), 2);
		}
	}

	@Test
	public void aConnectionWithAWrongAnswerIsNotUsedAgain() throws IOException {
		for (var garbage : Garbage.all().entrySet()) {
			if (garbage.getKey().equals("an error of its own") || garbage.getKey().equals("no batch at all"))
				continue; // these are answers
			AtomicReference<Peer> peer = new AtomicReference<>();
			peer.set(peer(call -> peer.get().calls.size() == 1 ? garbage.getValue().to(call)
				: call.ids()));
			assertIds(open(plain(peer.get().address())).nextIds(2), 2);
			assertEquals(garbage.getKey(), 2, peer.get().connections.get());
		}
	}

	@Test
	public void sequenceIdsDiffer() throws IOException {
		Peer peer = peer(Call::ids);
		Set<Integer> seen = new HashSet<>();

		take(open(plain(peer.address())), 10);
		take(open(plain(peer.address())), 10);
		peer.calls.forEach(call -> seen.add(call.message.seqid));
		assertEquals(20, seen.size());
	}

	@Test
	public void aServerWithoutRuns() throws IOException {
		Peer peer = peer(call -> call.name().equals("get_id_runs") ? call.unknown() : call.ids());

		assertIds(open(to(peer.address())).nextIds(20_000), 20_000);
		assertEquals(List.of("get_id_runs", "get_ids", "get_ids"),
			peer.calls.stream().map(Call::name).toList());
	}

	@Test
	public void aLegacyServer() throws IOException {
		Peer peer = peer(call -> call.name().equals("get_id") ? call.ids() : call.unknown());
		List<String> expected = new ArrayList<>(List.of("get_id_runs", "get_ids"));

		expected.addAll(Collections.nCopies(250, "get_id"));
		assertIds(open(plain(peer.address())).nextIds(250), 250);
		assertEquals(expected, peer.calls.stream().map(Call::name).toList());
		assertEquals(1, peer.connections.get());
	}

	@Test
	public void aServerWithSmallerBatches() throws IOException {
		Peer peer = peer(call -> call.count <= 100 ? call.ids()
			: call.reply(Call.COUNT, new InvalidCount("100 at most")));

		assertIds(open(to(peer.address())).nextIds(1000), 1000);
		assertEquals(4, peer.calls.stream().filter(call -> call.count > 100).count());
		assertEquals(1, peer.connections.get());
	}

	@Test
	public void greatestIds() throws IOException {
		Peer peer = peer(call -> call.ids(Long.MAX_VALUE - 9, 10));
		long[] ids = open(plain(peer.address())).nextIds(10);

		assertIds(ids, 10);
		assertEquals(Long.MAX_VALUE, ids[9]);
	}
}
