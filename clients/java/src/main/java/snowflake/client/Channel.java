// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;

/** A socket whose every operation ends at one deadline, however slowly the other side drips. Used by
 * one thread at a time; interrupt() by any. */
final class Channel implements Closeable {
	private final SocketChannel socket;
	private final Selector selector;
	private final SelectionKey key;
	private volatile boolean isInterrupted;
	private long deadlineNs; // of System.nanoTime()
	private boolean isOver;

	Channel(SocketAddress address) throws IOException {
		socket = address instanceof InetSocketAddress ? SocketChannel.open()
			: SocketChannel.open(StandardProtocolFamily.UNIX);
		Selector made = null;
		try {
			made = Selector.open();
			socket.configureBlocking(false);
			key = socket.register(made, 0);
			if (address instanceof InetSocketAddress)
				socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
		} catch (IOException e) {
			socket.close();
			if (made != null)
				made.close();
			throw e;
		}
		selector = made;
	}

	void setDeadline(long ns) {
		deadlineNs = ns;
		isOver = false;
	}

	/** An operation has failed since the deadline was over. */
	boolean isOver() {
		return isOver;
	}

	void connect(SocketAddress address) throws IOException {
		boolean isConnected = socket.connect(address);

		while (!isConnected) {
			await(SelectionKey.OP_CONNECT);
			isConnected = socket.finishConnect();
		}
		// nobody listens there, and the port was free for this end
		if (address instanceof InetSocketAddress
				&& socket.getLocalAddress().equals(socket.getRemoteAddress()))
			throw new ConnectException("connection refused");
	}

	/** One byte at least. */
	int read(byte[] buffer, int offset, int length) throws IOException {
		ByteBuffer part = ByteBuffer.wrap(buffer, offset, length);

		checkTime();
		for (;;) {
			int n = socket.read(part);
			if (n < 0)
				throw new EOFException("it closed the connection");
			if (n > 0)
				return n;
			await(SelectionKey.OP_READ);
		}
	}

	void write(byte[] buffer, int offset, int length) throws IOException {
		ByteBuffer part = ByteBuffer.wrap(buffer, offset, length);

		for (socket.write(part); part.hasRemaining(); socket.write(part))
			await(SelectionKey.OP_WRITE);
	}

	private void await(int operation) throws IOException {
		long leftMs = checkTime();

		key.interestOps(operation);
		selector.select(ready -> { }, leftMs);
		if (isInterrupted)
			throw new ClosedChannelException();
		if (Thread.currentThread().isInterrupted())
			throw new ClosedByInterruptException();
	}

	/** The milliseconds that are left, 1 or more. */
	private long checkTime() throws SocketTimeoutException {
		long leftNs = deadlineNs - System.nanoTime();

		isOver = leftNs <= 0;
		if (isOver)
			throw new SocketTimeoutException("timed out");
		return TimeUnit.NANOSECONDS.toMillis(leftNs) + 1;
	}

	/** Who waits stops to, with an exception. */
	void interrupt() {
		isInterrupted = true;
		selector.wakeup();
	}

	boolean isOpen() {
		return socket.isOpen();
	}

	@Override
	public void close() {
		try {
			socket.close();
			selector.close(); // only then is the descriptor of the socket given back
		} catch (IOException e) {
			// it was of no use any more
		}
	}
}
