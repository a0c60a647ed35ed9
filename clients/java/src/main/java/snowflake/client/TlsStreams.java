// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** A channel as streams, and TLS over these: so its handshake and its records have the channel's
 * deadline, which a timeout of a socket, for each read anew, is not. */
final class TlsStreams {
	private TlsStreams() {
	}

	/** The context may be null, for Java's own. */
	static SSLSocket over(Channel channel, SSLContext context, String host, int port,
			boolean takesAnyName) throws IOException {
		SSLSocketFactory factory = context != null ? context.getSocketFactory()
			: (SSLSocketFactory) SSLSocketFactory.getDefault();
		SSLSocket tls = (SSLSocket) factory.createSocket(new ChannelSocket(channel), host, port,
			true);
		SSLParameters parameters = tls.getSSLParameters();

		if (!takesAnyName)
			parameters.setEndpointIdentificationAlgorithm("HTTPS");
		tls.setSSLParameters(parameters);
		tls.startHandshake();
		return tls;
	}

	static InputStream in(Channel channel) {
		return new InputStream() {
			@Override
			public int read() throws IOException {
				byte[] one = new byte[1];

				channel.read(one, 0, 1);
				return one[0] & 0xff;
			}

			@Override
			public int read(byte[] buffer, int offset, int length) throws IOException {
				return length == 0 ? 0 : channel.read(buffer, offset, length);
			}
		};
	}

	static OutputStream out(Channel channel) {
		return new OutputStream() {
			@Override
			public void write(int one) throws IOException {
				channel.write(new byte[] {(byte) one}, 0, 1);
			}

			@Override
			public void write(byte[] buffer, int offset, int length) throws IOException {
				channel.write(buffer, offset, length);
			}
		};
	}

	private static final class ChannelSocket extends Socket {
		private final Channel channel;

		ChannelSocket(Channel channel) {
			this.channel = channel;
		}

		@Override
		public InputStream getInputStream() {
			return in(channel);
		}

		@Override
		public OutputStream getOutputStream() {
			return out(channel);
		}

		@Override
		public boolean isConnected() {
			return true;
		}

		@Override
		public boolean isClosed() {
			return !channel.isOpen();
		}

		@Override
		public void close() {
			channel.close();
		}
	}
}
