// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.thrift.TConfiguration;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

/** Framed messages, as Thrift's TFramedTransport has them. But a reply is one frame, and who reads on
 * would wait for what never comes; and nothing is made room for that is not in it. */
final class Frames extends TTransport {
	private static final int MAX_BYTES = 1 << 20; // five times of what the largest batch takes

	/** It is not the network that fails: what came is no answer. */
	static final class NoReply extends TTransportException {
		private static final long serialVersionUID = 1;

		NoReply(String message) {
			super(CORRUPTED_DATA, message);
		}
	}

	private final ByteArrayOutputStream request = new ByteArrayOutputStream();
	private InputStream in;
	private OutputStream out;
	private byte[] reply = {};
	private int at;
	private boolean isDue;
	private boolean isSilent = true;

	void setStreams(InputStream in, OutputStream out) {
		this.in = in;
		this.out = out;
	}

	/** Nothing has come since the last call was sent. */
	boolean isSilent() {
		return isSilent;
	}

	@Override
	public void write(byte[] buffer, int offset, int length) {
		request.write(buffer, offset, length);
	}

	@Override
	public void flush() throws TTransportException {
		ByteBuffer frame = ByteBuffer.allocate(Integer.BYTES + request.size())
			.putInt(request.size()).put(request.toByteArray());

		request.reset();
		isDue = isSilent = true;
		reply = new byte[0];
		at = 0;
		try {
			out.write(frame.array());
			out.flush();
		} catch (IOException e) {
			throw new TTransportException(e);
		}
	}

	@Override
	public int read(byte[] buffer, int offset, int length) throws TTransportException {
		if (isDue)
			readFrame();
		checkReadBytesAvailable(length);
		System.arraycopy(reply, at, buffer, offset, length);
		at += length;
		return length;
	}

	private void readFrame() throws TTransportException {
		isDue = false;
		try {
			int size = ByteBuffer.wrap(readBytes(Integer.BYTES)).getInt();
			if (size < 1 || size > MAX_BYTES)
				throw new NoReply("a frame of " + size + " bytes, 1 to " + MAX_BYTES);
			reply = readBytes(size);
		} catch (IOException e) {
			throw new TTransportException(e);
		}
	}

	private byte[] readBytes(int size) throws IOException {
		byte[] bytes = new byte[size];

		for (int n = 0; n < size;) {
			int came = in.read(bytes, n, size - n);
			if (came < 0)
				throw new IOException("it closed the connection");
			n += came;
			isSilent = false;
		}
		return bytes;
	}

	@Override
	public void checkReadBytesAvailable(long bytes) throws TTransportException {
		if (bytes > reply.length - at)
			throw new NoReply("it ends too soon");
	}

	@Override
	public byte[] getBuffer() {
		return reply;
	}

	@Override
	public int getBufferPosition() {
		return at;
	}

	@Override
	public int getBytesRemainingInBuffer() {
		return reply.length - at;
	}

	@Override
	public void consumeBuffer(int bytes) {
		at += bytes;
	}

	@Override
	public TConfiguration getConfiguration() {
		return TConfiguration.DEFAULT;
	}

	@Override
	public void updateKnownMessageSize(long size) {
		// that of the frame is known
	}

	@Override
	public boolean isOpen() {
		return in != null;
	}

	@Override
	public void open() {
		// the channel is, before there are streams
	}

	@Override
	public void close() {
		// the channel is
	}
}
