// SPDX-License-Identifier: Apache-2.0
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import java.net.InetSocketAddress;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.THsHaServer;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.transport.TNonblockingServerSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Thrift's THsHaServer, configured as in the original Snowflake: one selector thread, two threads
 * that answer, framed binary, not strict. Prints its port once it serves.
 */
public final class ThriftHsha {
	private static final int WORKERS = 2;

	public static void main(String[] arguments) throws Exception {
		int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 0;
		TNonblockingServerSocket socket =
			new TNonblockingServerSocket(new InetSocketAddress("127.0.0.1", port));
		THsHaServer server = new THsHaServer(
			new THsHaServer.Args(socket)
				.processor(new SnowflakeExtended.Processor<>(new SnowflakeHandler()))
				.protocolFactory(new TBinaryProtocol.Factory(false, true))
				.minWorkerThreads(WORKERS)
				.maxWorkerThreads(WORKERS));

		server.setServerEventHandler(new PrintPort(socket));
		server.serve();
	}

	private static final class PrintPort implements TServerEventHandler {
		private final TNonblockingServerSocket socket;

		PrintPort(TNonblockingServerSocket socket) {
			this.socket = socket;
		}

		@Override
		public void preServe() {
			System.out.println(socket.getPort());
		}

		@Override
		public ServerContext createContext(TProtocol input, TProtocol output) {
			return null;
		}

		@Override
		public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
		}

		@Override
		public void processContext(ServerContext context, TTransport input, TTransport output) {
		}
	}
}
