// SPDX-License-Identifier: Apache-2.0
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.layered.TFramedTransport;

public final class ThriftId {
	private static final int TIMEOUT_MS = 2000; // for connecting, and for each reply

	public static void main(String[] args) {
		try (TSocket socket = new TSocket("127.0.0.1", 7609, TIMEOUT_MS);
				TFramedTransport transport = new TFramedTransport(socket)) {
			transport.open();
			SnowflakeExtended.Client client =
				new SnowflakeExtended.Client(new TBinaryProtocol(transport));
			System.out.println(client.get_id("my-program"));
			System.out.println(client.get_ids("my-program", 3));
		} catch (TException e) {
			System.err.println("no IDs: " + e.getMessage());
			System.exit(1);
		}
	}
}
