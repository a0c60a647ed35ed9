// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.example.snowflake.Attempt.Kind;
import com.example.snowflake.Buffer.Run;
import com.example.snowflake.Codec.Method;
import com.example.snowflake.Failure.Type;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ref.Cleaner;
import java.net.ConnectException;
import java.net.ProtocolException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** A connection to an endpoint. One thread at a time uses it; any thread can close it, which ends
 * what is under way. */
final class Connection implements Closeable {
	private static final Cleaner CLEANER = Cleaner.create(); // for clients that are not closed
	private static final long SINGLES_NS = TimeUnit.MILLISECONDS.toNanos(20); // see requestOnce()

	private final Endpoint to;
	private final Closeable plain; // a Socket, or for a local socket a SocketChannel
	private final Cleaner.Cleanable closing;
	private InputStream in;
	private OutputStream out;
	private byte[] received = new byte[4096];
	private int length; // of what is in received: the reply, or a part of it
	private int sequence = ThreadLocalRandom.current().nextInt(1 << 30);
	private Method method = Method.GET_ID_RUNS; // the first one that the server may know
	private int limit = Codec.MAX_BATCH; // IDs of one call that the server may grant
	private boolean isSent; // a call, whose reply was not read
	private boolean hasAnswered;
	private boolean isSilent; // no byte came since the last call

	Connection(Endpoint to) throws Failure {
		this.to = to;
		try {
			plain = to.server.port == 0 ? SocketChannel.open(StandardProtocolFamily.UNIX) : new Socket();
		} catch (IOException e) {
			throw broken(e);
		}
		closing = CLEANER.register(this, closer(plain));
	}

	private static Runnable closer(Closeable plain) { // which does not refer to the connection
		return () -> {
			try {
				plain.close();
			} catch (IOException e) {
				// it was of no use any more
			}
		};
	}

	@Override
	public void close() {
		closing.clean();
	}

	void open(SSLContext context, boolean isAnyName) throws Failure {
		try {
			if (plain instanceof SocketChannel channel) {
				channel.connect(to.address);
				in = Channels.newInputStream(channel);
				out = Channels.newOutputStream(channel);
			} else {
				openSocket((Socket) plain, context, isAnyName);
			}
		} catch (IOException e) {
			throw broken(e);
		}
	}

	private void openSocket(Socket socket, SSLContext context, boolean isAnyName) throws IOException {
		Socket used = socket;

		socket.setTcpNoDelay(true);
		socket.connect(to.address);
		if (socket.getLocalSocketAddress().equals(to.address)) // the port was free for this end
			throw new ConnectException("Connection refused");
		if (to.server.isTls) {
			SSLSocketFactory factory = context == null ? (SSLSocketFactory) SSLSocketFactory.getDefault()
				: context.getSocketFactory();
			SSLSocket tls = (SSLSocket) factory.createSocket(socket, to.server.tlsName(), to.server.port,
				true);
			SSLParameters parameters = tls.getSSLParameters();
			if (!isAnyName)
				parameters.setEndpointIdentificationAlgorithm("HTTPS");
			tls.setSSLParameters(parameters);
			tls.startHandshake();
			used = tls;
		}
		in = used.getInputStream();
		out = used.getOutputStream();
	}

	/** Returns `count` IDs, or fewer if the server grants no more at once. Returns null if there is no
	 * answer before a deadline: then the next request waits for it. After a failure that is not an
	 * answer, the connection must not be used.
	 *
	 * @param deadlineNs 0: none; else the connection must be one that can time out */
	List<Run> request(String agent, int count, long deadlineNs) throws Failure {
		for (;;) {
			int asked = Math.min(count, limit);
			try {
				List<Run> runs = requestOnce(agent, asked, deadlineNs);
				hasAnswered = true;
				return runs;
			} catch (Failure e) {
				if (e.type == Type.UNKNOWN_METHOD && method.next() != null)
					method = method.next();
				else if (e.type == Type.INVALID_COUNT && asked > 1)
					limit = asked / 2;
				else
					throw e;
			} catch (SocketTimeoutException e) {
				return null;
			} catch (ProtocolException e) {
				throw new Failure(Kind.UNREACHABLE, "not the reply to the call: " + e.getMessage(), e);
			} catch (IOException e) {
				throw broken(e);
			}
		}
	}

	/** Without a batch method, a request for several IDs is several calls to get_id, in a
	 * limited time. */
	private List<Run> requestOnce(String agent, int count, long deadlineNs)
			throws IOException, Failure {
		if (method.isBatch()) {
			List<Run> runs = call(agent, count, deadlineNs);
			if (sum(runs) != count)
				throw new ProtocolException(sum(runs) + " IDs instead of " + count);
			return runs;
		}
		List<Run> runs = new ArrayList<>();
		long beganNs = System.nanoTime();
		do {
			Codec.extend(runs, call(agent, 1, deadlineNs).get(0).next, 1);
		} while (sum(runs) < count && System.nanoTime() - beganNs < SINGLES_NS);
		return runs;
	}

	boolean canTimeOut() {
		return plain instanceof Socket && !to.server.isTls;
	}

	/** Returns whether no reply can come. */
	boolean isIdle() {
		return !isSent;
	}

	private List<Run> call(String agent, int count, long deadlineNs) throws IOException, Failure {
		if (!isSent) {
			isSilent = true;
			isSent = true;
			sequence = sequence + 1 & Integer.MAX_VALUE;
			out.write(Codec.call(method, sequence, agent, count));
		}
		while (!isComplete())
			receive(deadlineNs);
		try {
			return Codec.readReply(ByteBuffer.wrap(received, Integer.BYTES, frameLength()), method, sequence);
		} finally {
			isSent = false;
			int used = frameLength() + Integer.BYTES;
			length -= used;
			System.arraycopy(received, used, received, 0, length);
		}
	}

	private void receive(long deadlineNs) throws IOException {
		long leftNs = deadlineNs - Snowflake.now();

		if (deadlineNs != 0 && leftNs <= 0)
			throw new SocketTimeoutException();
		if (plain instanceof Socket socket)
			socket.setSoTimeout(deadlineNs == 0 ? 0 : (int) TimeUnit.NANOSECONDS.toMillis(leftNs) + 1);
		int n = in.read(received, length, received.length - length);

		if (n < 0)
			throw new EOFException("the server closed the connection");
		isSilent = false;
		length += n;
	}

	/** Returns whether a whole frame was received, and makes space for it. */
	private boolean isComplete() throws ProtocolException {
		if (length < Integer.BYTES)
			return false;
		int frame = frameLength();
		if (frame <= 0 || frame > Codec.MAX_FRAME)
			throw new ProtocolException("a frame of " + Integer.toUnsignedString(frame) + " bytes");
		if (frame + Integer.BYTES > received.length)
			received = Arrays.copyOf(received, frame + Integer.BYTES);
		return length >= frame + Integer.BYTES;
	}

	private int frameLength() {
		return ByteBuffer.wrap(received).getInt();
	}

	private static int sum(List<Run> runs) {
		int sum = 0;

		for (Run run : runs)
			sum += run.count;
		return sum;
	}

	private Failure broken(IOException error) {
		Throwable root = error;

		while (error instanceof SSLException && root.getCause() != null)
			root = root.getCause();
		String message = root.getMessage();
		if (message == null || message.isEmpty())
			message = root.getClass().getSimpleName();
		return new Failure(Kind.UNREACHABLE, error instanceof SSLException ? "TLS: " + message
			: message.substring(0, 1).toLowerCase(Locale.ROOT) + message.substring(1), error, 0,
			hasAnswered && isSilent ? Type.STALE : Type.BROKEN);
	}
}
