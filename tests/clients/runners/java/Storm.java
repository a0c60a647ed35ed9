// SPDX-License-Identifier: Apache-2.0
import com.example.snowflake.Snowflake;
import com.example.snowflake.SnowflakeException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;

/** Threads that take a number of IDs together. A call that fails is made again. */
final class Storm {
	private final Snowflake client;
	private final AtomicLong left;
	private final AtomicLong failed = new AtomicLong();
	private final List<long[]> taken = new ArrayList<>();

	Storm(Snowflake client, long count) {
		this.client = client;
		this.left = new AtomicLong(count);
	}

	Map<String, Object> run(int threads, Path file) throws IOException, InterruptedException {
		List<Thread> crowd = new ArrayList<>();
		long n = 0;

		for (int i = 0; i < threads; i++)
			crowd.add(new Thread(this::take));
		crowd.forEach(Thread::start);
		for (Thread thread : crowd)
			thread.join();
		try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(file))) {
			for (long[] ids : taken) {
				LongStream.of(ids).forEach(lines::println);
				n += ids.length;
			}
		}
		return Map.of("taken", n, "failed", failed);
	}

	private void take() {
		LongStream.Builder ids = LongStream.builder();

		while (left.getAndDecrement() > 0)
			ids.add(takeOne());
		synchronized (taken) {
			taken.add(ids.build().toArray());
		}
	}

	private long takeOne() {
		for (;;) {
			try {
				return client.nextId();
			} catch (SnowflakeException e) {
				failed.incrementAndGet();
			}
		}
	}
}
