// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.example.snowflake.testing.FakeSnowflake;
import com.example.snowflake.testing.RunningServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.junit.Test;

/** The fake and the server for tests of programs. */
public class TestingTest extends Support {
	@Test
	public void aFakeGivesTheSameIdsInEachRun() {
		FakeSnowflake client = new FakeSnowflake();

		assertEquals(FakeSnowflake.FIRST_ID, client.nextId());
		assertArrayEquals(new long[] {FakeSnowflake.FIRST_ID + 1, FakeSnowflake.FIRST_ID + 2},
			client.nextIds(2));
		assertEquals(new Layout.Parts(Instant.parse("2023-11-14T22:13:20Z"), 1, 2, 0),
			Ids.decode(FakeSnowflake.FIRST_ID));
		assertArrayEquals(new long[] {7, 17, 27}, new FakeSnowflake(7, 10).nextIds(3));
	}

	@Test
	public void aFakeFailsAsItIsTold() {
		FakeSnowflake client = new FakeSnowflake();
		SnowflakeException error = new SnowflakeException("not today", List.of());

		client.failNext(error);
		assertSame(error, assertThrows(SnowflakeException.class, client::nextId));
		assertEquals(FakeSnowflake.FIRST_ID, client.nextId());
		assertEquals(FakeSnowflake.FIRST_ID + 1, client.nextIdAsync().join().longValue());
		client.failNext(error);
		assertSame(error, assertThrows(CompletionException.class,
			() -> client.nextIdAsync().join()).getCause());
		client.close();
		assertThrows(ClosedException.class, client::nextId);
	}

	@Test
	public void whatIsNoFake() {
		assertThrows(IllegalArgumentException.class, () -> new FakeSnowflake(0, 1));
		assertThrows(IllegalArgumentException.class, () -> new FakeSnowflake(1, 0));
		assertThrows(IllegalArgumentException.class, () -> new FakeSnowflake().nextIds(0));
	}

	@Test
	public void aServerThatDoesNotStartSaysWhy() throws IOException {
		IOException error = assertThrows(IOException.class,
			() -> RunningServer.start(SNOWFLAKED, "127.0.0.1:0", "--no-such-option"));

		assertTrue(error.getMessage(), error.getMessage().contains("no-such-option"));
		assertThrows(IOException.class, () -> RunningServer.start("/no/such", "127.0.0.1:0"));
	}

	@Test
	public void nothingIsLeftOfAServer() throws IOException {
		Path temporary = Files.createTempDirectory("snowflake-of-tests");
		RunningServer server = RunningServer.start(SNOWFLAKED, "unix:" + temporary.resolve("ids"));
		String address = server.address();

		assertTrue(open(to(address)).nextId() > 0);
		server.close();
		failing(UnreachableException.class, Snowflake::nextId, to(address), 1);
		Files.delete(temporary); // the server has removed its socket
	}
}
