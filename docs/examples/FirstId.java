// SPDX-License-Identifier: Apache-2.0
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.layered.TFramedTransport;

public final class FirstId {
	public static void main(String[] args) throws Exception {
		try (TFramedTransport transport = new TFramedTransport(new TSocket("127.0.0.1", 7609))) {
			transport.open();
			SnowflakeExtended.Client client =
				new SnowflakeExtended.Client(new TBinaryProtocol(transport));
			System.out.println(client.get_id("my-program"));
		}
	}
}
