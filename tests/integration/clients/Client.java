/* SPDX-License-Identifier: Apache-2.0 */
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.thrift.TBase;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TJSONProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.THttpClient;
import org.apache.thrift.transport.TSSLTransportFactory;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;
import org.apache.thrift.transport.TZlibTransport;
import org.apache.thrift.transport.layered.TFramedTransport;

/** Client SERVICE, see ../official.py. Of either contract: the calls are found by their names. */
public final class Client {
	private static final int TIMEOUT_MS = 60000;
	private static final PrintStream out = new PrintStream(new BufferedOutputStream(System.out));

	private static TTransport socket(String host, int port) throws TTransportException {
		if (!host.startsWith("tls:"))
			return new TSocket(host, port, TIMEOUT_MS);
		String[] stores = System.getenv("SNOWFLAKE_TLS").split(",");
		TSSLTransportFactory.TSSLTransportParameters parameters =
			new TSSLTransportFactory.TSSLTransportParameters();
		parameters.setTrustStore(stores[0], "password", "PKIX", "PKCS12");
		parameters.setKeyStore(stores[1], "password", "PKIX", "PKCS12");
		return TSSLTransportFactory.getClientSocket(host.substring(4), port, TIMEOUT_MS,
							    parameters);
	}

	private static TTransport transport(String host, String port, String framing)
			throws TTransportException {
		if (framing.equals("http"))
			return new THttpClient("http://" + host + ":" + port + "/");
		TTransport socket = socket(host, Integer.parseInt(port));
		switch (framing) {
		case "framed":
			return new TFramedTransport(socket);
		case "zlib":
			return new TZlibTransport(socket);
		default:
			return socket;
		}
	}

	private static TProtocol protocol(String name, TTransport transport) {
		switch (name) {
		case "strict":
			return new TBinaryProtocol(transport, true, true);
		case "unversioned":
			return new TBinaryProtocol(transport, false, false);
		case "compact":
			return new TCompactProtocol(transport);
		case "json":
			return new TJSONProtocol(transport);
		default:
			throw new IllegalArgumentException(name);
		}
	}

	private static <F extends TFieldIdEnum> void showStruct(TBase<?, F> struct) {
		StringBuilder line = new StringBuilder();
		F field;
		for (int id = 1; (field = struct.fieldForId(id)) != null; id++)
			if (struct.isSet(field))
				line.append(field.getFieldName()).append('=')
					.append(struct.getFieldValue(field)).append(' ');
		out.println(line.toString().trim());
	}

	private static void show(Object value) {
		if (value instanceof List)
			((List<?>) value).forEach(Client::show);
		else if (value instanceof Map)
			((Map<?, ?>) value).forEach((key, each) -> out.println(key + " " + each));
		else if (value instanceof ByteBuffer)
			out.println(HexFormat.of().formatHex(((ByteBuffer) value).array(),
			            ((ByteBuffer) value).position(), ((ByteBuffer) value).limit()));
		else if (value instanceof TBase)
			showStruct((TBase<?, ?>) value);
		else
			out.println(value);
	}

	private static void call(Object client, String[] words) throws Throwable {
		Method found = null;
		for (Method method : client.getClass().getMethods())
			if (method.getName().equals(words[0]))
				found = method;
		try {
			if (words[0].equals("get_id"))
				for (int left = Integer.parseInt(words[2]); left > 0; left--)
					show(found.invoke(client, words[1]));
			else if (words.length == 1)
				show(found.invoke(client));
			else
				show(found.invoke(client, words[1], Integer.parseInt(words[2])));
		} catch (InvocationTargetException error) {
			throw error.getCause();
		}
	}

	public static void main(String[] args) throws Exception {
		Class<?> service = Class.forName(args[0] + "$Client");
		BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
		TTransport transport = null;
		Object client = null;
		String line;
		while ((line = commands.readLine()) != null) {
			String[] words = line.split(" ");
			try {
				if (words[0].equals("open")) {
					if (transport != null)
						transport.close();
					transport = transport(words[1], words[2], words[3]);
					if (!transport.isOpen()) /* with TLS, the factory has */
						transport.open();
					client = service.getConstructor(TProtocol.class)
						.newInstance(protocol(words[4], transport));
				} else {
					call(client, words);
				}
				out.println(".");
			} catch (Throwable error) {
				out.println("error " + error.getClass().getSimpleName() + ": "
				            + error.getMessage());
			}
			out.flush();
		}
	}
}
