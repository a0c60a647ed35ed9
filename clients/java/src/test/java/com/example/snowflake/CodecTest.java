// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import com.example.snowflake.Buffer.Run;
import com.example.snowflake.Codec.Method;
import com.example.snowflake.Failure.Type;
import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.Test;

/** The codec, byte by byte. {@link AnswersTest} holds it to the official Thrift library. */
public class CodecTest {
	private static final int SEQUENCE = 7;
	private static final String HEAD = "80010002" + "0000000b" + hex("get_id_runs") + "00000007";
	private static final String LIST = "0f0000" + "0c00000001";
	private static final String RUN = "0a0001" + "0000000000000005" + "080002" + "00000001";
	private static final String RESULT = LIST + RUN + "00" + "00";

	private static String hex(String text) {
		return HexFormat.of().formatHex(text.getBytes(StandardCharsets.US_ASCII));
	}

	private static List<Run> read(byte[] message) throws ProtocolException, Failure {
		return Codec.readReply(ByteBuffer.wrap(message), Method.GET_ID_RUNS, SEQUENCE);
	}

	private static List<Run> read(String message) throws ProtocolException, Failure {
		return read(HexFormat.of().parseHex(message));
	}

	private static byte[] vector(String name) throws IOException {
		return HexFormat.of().parseHex((String) Support.vectors("wire.json").get(name));
	}

	@Test
	public void vectors() throws Exception {
		assertArrayEquals(vector("call_get_id_foo_seq0"), Codec.call(Method.GET_ID, 0, "foo", 1));
		ByteBuffer reply = ByteBuffer.wrap(vector("reply_get_id_1_seq0"));
		assertEquals(reply.remaining() - 4, reply.getInt());
		List<Run> runs = Codec.readReply(reply, Method.GET_ID, 0);
		assertEquals(1, runs.size());
		assertEquals(1, runs.get(0).count);
		assertEquals(1, runs.get(0).next);
		// that vector is the reply to another method
		byte[] unknown = vector("reply_unknown_method_nope_seq1");
		assertThrows(ProtocolException.class, () -> Codec.readReply(
			ByteBuffer.wrap(unknown, 4, unknown.length - 4), Method.GET_ID, 1));
		byte[] named = HexFormat.of().parseHex(HexFormat.of().formatHex(unknown).replace(
			"00000004" + hex("nope"), "00000006" + hex("get_id")));
		assertEquals(Type.UNKNOWN_METHOD, assertThrows(Failure.class, () -> Codec.readReply(
			ByteBuffer.wrap(named, 4, named.length - 4), Method.GET_ID, 1)).type);
	}

	@Test
	public void unknownFieldsAreSkipped() throws Exception {
		String fields = "0d0009" + "0b0f" + "00000001" + "00000001" + hex("a") + "02" + "00000002" + "0001"
			+ "0e000a" + "03" + "00000001" + "05" + "04000b" + "0000000000000000" + "060008" + "0000";
		String run = "0c0007" + "040003" + "0000000000000000" + "00" + RUN;

		List<Run> runs = read(HEAD + fields + LIST + run + "00" + "0b0006" + "00000001" + hex("b") + "00");
		assertEquals(5, runs.get(0).next);
		assertEquals(1, runs.get(0).count);
	}

	@Test
	public void invalidReplies() {
		String nested = "0c0009".repeat(30);

		Map.ofEntries(Map.entry("no result", HEAD + "00"),
			Map.entry("half a message", HEAD + "0f"),
			Map.entry("long list", HEAD + "0f0000" + "0c7fffffff"),
			Map.entry("negative list", HEAD + "0f0000" + "0cffffffff" + "00"),
			Map.entry("long name", "80010002" + "7fffffff" + HEAD.substring(16) + RESULT),
			Map.entry("negative name", "80010002" + "ffffffff" + HEAD.substring(16) + RESULT),
			Map.entry("long skipped text", HEAD + "0b0009" + "7fffffff" + RESULT),
			Map.entry("long skipped list", HEAD + "0f0009" + "0f7fffffff" + RESULT),
			Map.entry("negative skipped list", HEAD + "0f0009" + "0fffffffff" + RESULT),
			Map.entry("list of nothing", HEAD + "0f0009" + "017fffffff" + RESULT),
			Map.entry("deep", HEAD + nested + "00".repeat(30) + RESULT),
			Map.entry("unknown type", HEAD + "070009" + RESULT),
			Map.entry("negative type", HEAD + "ff0009" + RESULT),
			Map.entry("list of i32", HEAD + "0f0000" + "0800000001" + "00000005" + "00"),
			Map.entry("two results", HEAD + LIST + RUN + "00" + LIST + RUN + "0000"),
			Map.entry("bytes after it", HEAD + RESULT + "00"),
			Map.entry("wrong sequence ID", HEAD.replaceAll("7$", "8") + RESULT),
			Map.entry("wrong method", HEAD.replace(hex("runs"), hex("rums")) + RESULT),
			Map.entry("unversioned", "0000000b" + hex("get_id_runs") + "02" + "00000007" + RESULT),
			Map.entry("a list of i64", HEAD + "0f0000" + "0a00000001" + "0000000000000005" + "00"),
			Map.entry("a set", HEAD + RESULT.replaceFirst("0f", "0e")),
			Map.entry("a call", HEAD.replace("80010002", "80010001") + RESULT))
			.forEach((name, message) ->
				assertThrows(name, ProtocolException.class, () -> read(message)));
	}

	/** No prefix and no change of one byte of a reply makes the codec fail in another way. */
	@Test
	public void damagedReplies() throws Exception {
		byte[] message = HexFormat.of().parseHex(HEAD + "0d0009" + "0b0f" + "00000001" + "00000000" + "03"
			+ "00000001" + "02" + RESULT);

		assertEquals(5, read(message).get(0).next);
		for (int i = 0; i < message.length; i++) {
			byte[] prefix = Arrays.copyOf(message, i);
			assertThrows(ProtocolException.class, () -> read(prefix));
			for (int other : new int[] {0, 1, 0x7f, 0x80, 0xff}) {
				byte[] changed = message.clone();
				changed[i] = (byte) other;
				for (Method method : Method.values())
					try {
						Codec.readReply(ByteBuffer.wrap(changed), method, SEQUENCE);
					} catch (ProtocolException | Failure e) {
						// as it should be
					}
			}
		}
	}
}
