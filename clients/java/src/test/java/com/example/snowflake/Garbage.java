// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.twitter.service.snowflake.gen.IdRun;
import com.twitter.service.snowflake.gen.InvalidCount;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;

/** Wrong answers, by name. */
final class Garbage {
	private static final int HEADER_BYTES = 4;
	private static final int NAME_AT = 12; // in a frame: its size, version and type, size of the name

	private Garbage() {
	}

	static Map<String, Peer.Answer> all() {
		Map<String, Peer.Answer> all = new LinkedHashMap<>();

		all.put("a web server", call -> "HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(
			StandardCharsets.US_ASCII));
		all.put("2 GB", call -> ByteBuffer.allocate(100).putInt(Integer.MAX_VALUE).array());
		all.put("a negative size", call -> ByteBuffer.allocate(100).putInt(-1).array());
		all.put("an empty frame", call -> new byte[HEADER_BYTES]);
		all.put("bytes", call -> Call.framed(filled(100)));
		all.put("half a message", call -> {
			byte[] whole = call.ids();
			return Call.framed(Arrays.copyOfRange(whole, HEADER_BYTES, whole.length - 6));
		});
		all.put("a list of 2 billion", Garbage::hugeList);
		all.put("a name of 2 GB", call -> ByteBuffer.wrap(call.ids())
			.putInt(NAME_AT - HEADER_BYTES, Integer.MAX_VALUE).array());
		all.put("a name that is not text", call -> {
			byte[] frame = call.ids();
			Arrays.fill(frame, NAME_AT, NAME_AT + call.name().length(), (byte) 0xff);
			return frame;
		});
		all.put("structs in structs", Garbage::nested);
		all.put("another sequence ID", call -> call.idsAs(call.name(), TMessageType.REPLY,
			call.message.seqid + 1));
		all.put("another sequence ID of an exception", call -> Call.framed(
			new TMessage(call.name(), TMessageType.EXCEPTION,
				call.message.seqid + 1), TMessageType.EXCEPTION,
			new TApplicationException(TApplicationException.UNKNOWN_METHOD, "unknown")));
		all.put("another name", call -> call.idsAs("get_worker", TMessageType.REPLY,
			call.message.seqid));
		all.put("a call", call -> call.idsAs(call.name(), TMessageType.CALL, call.message.seqid));
		all.put("nothing", call -> call.reply(Call.SUCCESS, null));
		all.put("too few", call -> call.ids(5, 1));
		all.put("too many", call -> call.ids(5, call.count + 1));
		all.put("an ID of 0", call -> call.ids(0, call.count));
		all.put("an ID below 0", call -> call.ids(-5, call.count));
		all.put("IDs beyond 63 bits", call -> call.ids(Long.MAX_VALUE, call.count));
		all.put("a run of none", runs(new IdRun(5, 2), new IdRun(99, 0)));
		all.put("a run of fewer than none", runs(new IdRun(5, 3), new IdRun(99, -1)));
		all.put("runs that overlap", runs(new IdRun(5, 1), new IdRun(5, 1)));
		all.put("an error of its own", call -> call.exception(TApplicationException.INTERNAL_ERROR,
			"out of\r\ncheese\0".repeat(50)));
		all.put("no batch at all", call -> call.reply(Call.COUNT, new InvalidCount("0 at most")));
		return all;
	}

	private static Peer.Answer runs(IdRun... runs) {
		return call -> call.reply(Call.SUCCESS, List.of(runs));
	}

	private static byte[] filled(int size) {
		byte[] bytes = new byte[size];

		Arrays.fill(bytes, (byte) 0xff);
		return bytes;
	}

	private static byte[] hugeList(Call call) throws TException {
		ByteBuffer frame = ByteBuffer.wrap(call.ids());
		// after the name: sequence ID, the field's type and ID, the elements' type
		int sizeAt = NAME_AT + call.name().length() + 4 + 3 + 1;

		return frame.putInt(sizeAt, 2_000_000_000).array();
	}

	private static byte[] nested(Call call) throws TException {
		int head = NAME_AT + call.name().length() + 4 - HEADER_BYTES;
		ByteBuffer message = ByteBuffer.allocate(head + 3 * 80_000);

		message.put(call.ids(), HEADER_BYTES, head);
		while (message.hasRemaining())
			message.put((byte) 12).putShort((short) 1);
		return Call.framed(message.array());
	}
}
