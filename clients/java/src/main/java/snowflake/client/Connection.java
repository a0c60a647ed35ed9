// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import com.twitter.service.snowflake.gen.IdRun;
import com.twitter.service.snowflake.gen.InvalidCount;
import com.twitter.service.snowflake.gen.InvalidSystemClock;
import com.twitter.service.snowflake.gen.InvalidUserAgentError;
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import com.twitter.service.snowflake.gen.WorkerIdUnavailable;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TList;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.transport.TTransport;
import snowflake.client.Failure.Kind;

/** To one address. Thrift's library makes and reads the messages; this bounds the time and the size
 * of what it reads, and sees that a reply is the one to its call. Used by one thread at a time;
 * interrupt() by any. */
final class Connection {
	static final int MAX_BATCH = 10_000; // IDs of one call
	private static final int SINGLE_CALLS = 100; // of get_id, for one batch

	/** A server that lacks one is asked by the next. */
	private enum Method { GET_ID_RUNS, GET_IDS, GET_ID }

	/** What was learnt of a server: what it lacks, and how many IDs it gives at once. */
	static final class Habits {
		private Method method = Method.GET_ID_RUNS;
		private int limit = MAX_BATCH;
	}

	/** The call that is. */
	private interface Call<T> {
		T make() throws TException, IOException;
	}

	private final Channel channel;
	private final SocketAddress address;
	private final Frames frames = new Frames();
	private final Client client = new Client(new Protocol(frames));
	private SSLSocket tls;
	private boolean hasAnswered;

	Connection(SocketAddress address) throws Failure {
		try {
			this.channel = new Channel(address);
		} catch (IOException e) {
			throw new Failure(Kind.UNREACHABLE, reason(e), e);
		}
		this.address = address;
	}

	void open(Server server, Options options, long deadlineNs) throws Failure {
		within(deadlineNs, "not connected", () -> {
			channel.connect(address);
			frames.setStreams(TlsStreams.in(channel), TlsStreams.out(channel));
			if (server.isTls()) {
				tls = TlsStreams.over(channel, options.tls, server.tlsName(), server.port(),
					options.takesAnyName);
				frames.setStreams(tls.getInputStream(), tls.getOutputStream());
			}
			return null;
		});
	}

	/** IDs, `count` of them or as many as the server gives at once. */
	long[] ids(String agent, int count, Habits habits, long deadlineNs) throws Failure {
		for (;;) {
			Method method = habits.method;
			int asked = Math.min(count, habits.limit);
			try {
				long[] ids = within(deadlineNs, "no answer", () -> call(method, agent, asked));
				hasAnswered = true;
				if (ids != null)
					return ids;
				habits.method = Method.values()[method.ordinal() + 1];
			} catch (TooMany e) {
				habits.limit = asked / 2;
			}
		}
	}

	/** The server has a smaller limit. */
	private static final class TooMany extends RuntimeException {
		private static final long serialVersionUID = 1;
	}

	/** null: the server lacks the method. */
	private long[] call(Method method, String agent, int count) throws TException {
		try {
			return switch (method) {
			case GET_ID_RUNS -> ofRuns(client.get_id_runs(agent, count), count);
			case GET_IDS -> checked(client.get_ids(agent, count).stream()
				.mapToLong(Long::longValue).toArray(), count);
			case GET_ID -> single(agent, Math.min(count, SINGLE_CALLS));
			};
		} catch (InvalidCount e) {
			if (count > 1)
				throw new TooMany();
			throw new TApplicationException(TApplicationException.INTERNAL_ERROR, e.message);
		} catch (TApplicationException e) {
			if (e.getType() == TApplicationException.UNKNOWN_METHOD && method != Method.GET_ID)
				return null;
			throw e;
		}
	}

	private long[] single(String agent, int count) throws TException {
		long[] ids = new long[count];

		for (int i = 0; i < count; i++)
			ids[i] = client.get_id(agent);
		return checked(ids, count);
	}

	private static long[] ofRuns(List<IdRun> runs, int count) throws Frames.NoReply {
		long[] ids = new long[count];
		int n = 0;

		for (IdRun run : runs) {
			if (run.count < 1 || run.count > count - n || run.first > Long.MAX_VALUE - run.count + 1)
				throw new Frames.NoReply("a run of " + run.count + " IDs from " + run.first + ", of "
					+ count);
			for (int i = 0; i < run.count; i++)
				ids[n++] = run.first + i;
		}
		if (n != count)
			throw new Frames.NoReply(n + " IDs, for " + count);
		return checked(ids, count);
	}

	private static long[] checked(long[] ids, int count) throws Frames.NoReply {
		long last = 0;

		if (ids.length != count)
			throw new Frames.NoReply(ids.length + " IDs, for " + count);
		for (long id : ids) {
			if (id <= last)
				throw new Frames.NoReply("IDs that are none, or do not increase: " + id + " after "
					+ last);
			last = id;
		}
		return ids;
	}

	private <T> T within(long deadlineNs, String what, Call<T> call) throws Failure {
		long beganNs = System.nanoTime();
		boolean isSound = false;

		channel.setDeadline(deadlineNs);
		try {
			T result = call.make();
			isSound = true;
			return result;
		} catch (TooMany e) {
			isSound = true;
			throw e;
		} catch (InvalidSystemClock e) {
			isSound = true;
			throw new Failure(Kind.CLOCK, said(e.message), e);
		} catch (WorkerIdUnavailable e) {
			isSound = true;
			throw new Failure(Kind.UNAVAILABLE, said(e.message), e.retry_after_ms, false, e);
		} catch (InvalidUserAgentError e) {
			isSound = true;
			throw new Failure(Kind.AGENT, said(e.message), e);
		} catch (TApplicationException e) {
			Failure failure = whatIsSaid(e);
			isSound = failure.kind != Kind.UNREACHABLE;
			throw failure;
		} catch (IOException | TException | RuntimeException | StackOverflowError e) {
			if (channel.isOver())
				throw new Failure(Kind.TIMEOUT, what + " within "
					+ TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNs) + " ms", e);
			throw broken(e);
		} finally {
			if (!isSound) // a reply may come yet, to no call
				close();
		}
	}

	private Failure broken(Throwable error) {
		IOException cause = error instanceof IOException network ? network
			: error.getCause() instanceof IOException network ? network : null;

		if (cause != null)
			return new Failure(Kind.UNREACHABLE, reason(cause), -1, hasAnswered && frames.isSilent(),
				error);
		// of bytes that are not its, Thrift's code makes anything at all
		return new Failure(Kind.UNREACHABLE, "what it answers is not the reply: "
			+ Objects.requireNonNullElse(error.getMessage(), error.getClass().getSimpleName()),
			error);
	}

	/** get_id has no typed exceptions: the message begins with the name. */
	private static Failure whatIsSaid(TApplicationException error) {
		String message = said(error.getMessage());
		String name = message.replaceFirst("(?s):.*", "");
		Kind kind = switch (name) {
		case "InvalidSystemClock" -> Kind.CLOCK;
		case "WorkerIdUnavailable" -> Kind.UNAVAILABLE;
		case "InvalidUserAgentError" -> Kind.AGENT;
		default -> Kind.UNREACHABLE;
		};

		return new Failure(kind, kind == Kind.UNREACHABLE ? "it says: " + message
			: message.substring(name.length()).replaceFirst("^: ?", ""), error);
	}

	private static String said(String message) {
		return message == null || message.isEmpty() ? "it says no more" : message;
	}

	private static String reason(IOException error) {
		Throwable root = error;

		while (error instanceof SSLException && root.getCause() != null)
			root = root.getCause();
		String message = root.getMessage();
		if (message == null || message.isEmpty())
			message = root.getClass().getSimpleName();
		return error instanceof SSLException ? "TLS: " + message
			: message.substring(0, 1).toLowerCase(Locale.ROOT) + message.substring(1);
	}

	/** An address, as people write it. */
	static String text(SocketAddress address) {
		return address instanceof InetSocketAddress at ? at.getAddress().getHostAddress()
			: address.toString();
	}

	boolean isOpen() {
		return channel.isOpen();
	}

	/** Who waits for the server stops to, with a Failure. */
	void interrupt() {
		channel.interrupt();
	}

	void close() {
		channel.close();
	}

	/** Sequence IDs begin anywhere, so that those of two connections differ. */
	private static final class Client extends SnowflakeExtended.Client {
		Client(Protocol protocol) {
			super(protocol);
			seqid_ = ThreadLocalRandom.current().nextInt(1 << 30);
		}
	}

	/** Thrift's, which also looks at whose reply it is: the library itself compares the sequence ID
	 * only, and not of an exception. */
	private static final class Protocol extends TBinaryProtocol {
		private TMessage call;

		Protocol(TTransport transport) {
			super(transport, true, true);
		}

		@Override
		public void writeMessageBegin(TMessage message) throws TException {
			call = message;
			super.writeMessageBegin(message);
		}

		@Override
		public TMessage readMessageBegin() throws TException {
			TMessage reply = super.readMessageBegin();

			if (!reply.name.equals(call.name) || reply.seqid != call.seqid
					|| reply.type != TMessageType.REPLY && reply.type != TMessageType.EXCEPTION)
				throw new Frames.NoReply("\"" + reply.name + "\" number " + reply.seqid + ", while \""
					+ call.name + "\" number " + call.seqid + " is awaited");
			return reply;
		}

		/** The library makes room for as many as it is told, before one is read. */
		@Override
		public TList readListBegin() throws TException {
			TList list = super.readListBegin();

			if (list.size > MAX_BATCH)
				throw new Frames.NoReply("a list of " + list.size + ", " + MAX_BATCH + " at most");
			return list;
		}
	}
}
