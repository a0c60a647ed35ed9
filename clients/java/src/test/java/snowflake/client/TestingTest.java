// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import org.junit.Test;
import snowflake.client.testing.FakeSnowflake;
import snowflake.client.testing.RunningServer;

/** What users have for their own tests. */
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
		SnowflakeException error = new SnowflakeException("not today");

		client.failNext(error);
		assertSame(error, assertThrows(SnowflakeException.class, client::nextId));
		assertEquals(FakeSnowflake.FIRST_ID, client.nextId());
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

		assertTrue(client(options(), address).nextId() > 0);
		server.close();
		assertThrows(UnreachableException.class, client(options(), address)::nextId);
		Files.delete(temporary); // the server has removed its socket
	}
}
