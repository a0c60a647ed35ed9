// SPDX-License-Identifier: Apache-2.0
import com.twitter.service.snowflake.gen.IdRun;
import com.twitter.service.snowflake.gen.InvalidSystemClock;
import com.twitter.service.snowflake.gen.InvalidUserAgentError;
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import com.twitter.service.snowflake.gen.Worker;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.thrift.TException;

/**
 * The original algorithm: one lock, a sequence of 12 bits within the millisecond, and a spin to the
 * next one when that is exhausted. Datacenter and worker are 0. There are no counters and no audit
 * log.
 */
public final class SnowflakeHandler implements SnowflakeExtended.Iface {
	private static final long EPOCH_MS = 1288834974657L;
	private static final int TIME_SHIFT = 22;
	private static final long SEQUENCE_MASK = 0xFFF;
	private static final Pattern AGENT = Pattern.compile("[a-zA-Z][a-zA-Z\\-0-9]*");

	private long lastMs = -1;
	private long sequence;

	private synchronized long nextId() throws TException {
		long now = System.currentTimeMillis();

		if (now < lastMs)
			throw new InvalidSystemClock();
		sequence = now == lastMs ? (sequence + 1) & SEQUENCE_MASK : 0;
		if (now == lastMs && sequence == 0) {
			while (now <= lastMs)
				now = System.currentTimeMillis();
		}
		lastMs = now;
		return (now - EPOCH_MS) << TIME_SHIFT | sequence;
	}

	private static void checkAgent(String agent) throws TException {
		if (!AGENT.matcher(agent).matches())
			throw new InvalidUserAgentError();
	}

	@Override
	public long get_id(String useragent) throws TException {
		checkAgent(useragent);
		return nextId();
	}

	@Override
	public synchronized List<Long> get_ids(String useragent, int count) throws TException {
		List<Long> ids = new ArrayList<>(count);

		checkAgent(useragent);
		for (int i = 0; i < count; i++)
			ids.add(nextId());
		return ids;
	}

	@Override
	public long get_timestamp() {
		return System.currentTimeMillis();
	}

	@Override
	public long get_worker_id() {
		return 0;
	}

	@Override
	public long get_datacenter_id() {
		return 0;
	}

	@Override
	public List<IdRun> get_id_runs(String useragent, int count) {
		throw new UnsupportedOperationException();
	}

	@Override
	public Worker get_worker() {
		throw new UnsupportedOperationException();
	}

	@Override
	public List<Worker> get_workers() {
		throw new UnsupportedOperationException();
	}

	@Override
	public Map<String, Long> get_counters() {
		throw new UnsupportedOperationException();
	}

	@Override
	public List<ByteBuffer> get_ulids(String useragent, int count) {
		throw new UnsupportedOperationException();
	}

	@Override
	public List<ByteBuffer> get_uuids(String useragent, int count) {
		throw new UnsupportedOperationException();
	}
}
