/* SPDX-License-Identifier: Apache-2.0 */
import com.twitter.service.snowflake.gen.IdRun;
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.TSSLTransportFactory;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;

/** Client HOST PORT framed|unframed PROTOCOL COMMAND..., see ../official.py. */
public final class Client {
	private static TProtocol protocol(String name, TTransport transport) {
		switch (name) {
		case "strict":
			return new TBinaryProtocol(transport, true, true);
		case "unversioned":
			return new TBinaryProtocol(transport, false, false);
		case "compact":
			return new TCompactProtocol(transport);
		default:
			throw new IllegalArgumentException(name);
		}
	}

	private static void run(SnowflakeExtended.Client client, String command, String agent, int count)
			throws TException {
		switch (command) {
		case "get_id":
			for (int i = 0; i < count; i++)
				System.out.println(client.get_id(agent));
			break;
		case "get_ids":
			client.get_ids(agent, count).forEach(System.out::println);
			break;
		case "get_id_runs":
			for (IdRun found : client.get_id_runs(agent, count))
				for (int i = 0; i < found.count; i++)
					System.out.println(found.first + i);
			break;
		default:
			System.out.println(client.get_worker_id());
			System.out.println(client.get_datacenter_id());
			System.out.println(client.get_timestamp());
		}
	}

	private static TTransport connect(String host, int port) throws TException {
		if (!host.startsWith("tls:"))
			return new TSocket(host, port, 60000);
		String[] stores = System.getenv("SNOWFLAKE_TLS").split(",");
		TSSLTransportFactory.TSSLTransportParameters parameters =
			new TSSLTransportFactory.TSSLTransportParameters();
		parameters.setTrustStore(stores[0], "password", "PKIX", "PKCS12");
		parameters.setKeyStore(stores[1], "password", "PKIX", "PKCS12");
		return TSSLTransportFactory.getClientSocket(host.substring(4), port, 60000, parameters);
	}

	public static void main(String[] args) throws TException {
		TTransport transport = connect(args[0], Integer.parseInt(args[1]));
		if (args[2].equals("framed"))
			transport = new TFramedTransport(transport);
		if (!transport.isOpen()) /* with TLS, the factory has */
			transport.open();
		try {
			run(new SnowflakeExtended.Client(protocol(args[3], transport)), args[4],
			    args.length > 5 ? args[5] : "", args.length > 6 ? Integer.parseInt(args[6]) : 0);
		} catch (TException error) {
			System.out.println("error " + error.getClass().getSimpleName() + ": " + error.getMessage());
			System.exit(3);
		}
	}
}
