// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.example.snowflake.Attempt.Kind;
import com.example.snowflake.Buffer.Run;
import com.example.snowflake.Failure.Type;
import java.net.ProtocolException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Thrift's framed binary protocol with the strict header, as far as the calls for IDs need it. An
 * instance reads one message. */
final class Codec {
	static final int MAX_FRAME = 1 << 20; // bytes: five times the longest reply
	static final int MAX_BATCH = 10_000; // IDs of one call
	private static final int MAX_DEPTH = 16; // of values that are skipped
	private static final int CALL = 0x80010001, REPLY = 0x80010002, EXCEPTION = 0x80010003;
	private static final byte STOP = 0, I32 = 8, I64 = 10, STRING = 11, STRUCT = 12, MAP = 13, SET = 14,
		LIST = 15;
	/** The sizes of types in bytes: bool, byte, double, i16, i32, i64. Others have -1. */
	private static final byte[] SIZES = {-1, -1, 1, 1, 8, -1, 2, -1, 4, -1, 8};
	private static final int UNKNOWN_METHOD = 1, INTERNAL_ERROR = 6; // types of a TApplicationException
	/** The kinds of the exceptions by their field in a reply. The last one is InvalidCount. */
	private static final Kind[] TYPED = {null, Kind.CLOCK, Kind.INVALID_AGENT, Kind.UNAVAILABLE,
		Kind.UNREACHABLE};
	/** get_id declares no exceptions, so its messages begin with a name. */
	private static final Map<String, Kind> LEGACY = Map.of("InvalidSystemClock", Kind.CLOCK,
		"InvalidUserAgentError", Kind.INVALID_AGENT, "WorkerIdUnavailable", Kind.UNAVAILABLE);

	/** The calls for IDs, in order of preference. Old servers lack the first ones. */
	enum Method {
		GET_ID_RUNS("get_id_runs", STRUCT), GET_IDS("get_ids", I64), GET_ID("get_id", I64);

		private final String name;
		private final byte element; // the type of the list's elements, or of the result

		Method(String name, byte element) {
			this.name = name;
			this.element = element;
		}

		boolean isBatch() {
			return this != GET_ID;
		}

		/** Returns the next one, or null. */
		Method next() {
			return this == GET_ID ? null : values()[ordinal() + 1];
		}
	}

	/** Reads a field of a struct, or returns false, so that it is skipped. */
	private interface Field {
		boolean read(short id, byte type) throws ProtocolException;
	}

	private final ByteBuffer in;
	private List<Run> runs; // the result
	private String text = ""; // of the exception, with its number
	private long number;
	private long first, count; // of an IdRun

	private Codec(ByteBuffer in) {
		this.in = in;
	}

	/** Returns the frame of a call. */
	static byte[] call(Method method, int sequence, String agent, int count) {
		ByteBuffer out = ByteBuffer.allocate(64 + agent.length());

		putText(out.putInt(0).putInt(CALL), method.name).putInt(sequence);
		putText(out.put(STRING).putShort((short) 1), agent);
		if (method.isBatch())
			out.put(I32).putShort((short) 2).putInt(count);
		out.put(STOP).putInt(0, out.position() - Integer.BYTES);
		byte[] frame = new byte[out.position()];
		out.get(0, frame);
		return frame;
	}

	private static ByteBuffer putText(ByteBuffer out, String text) {
		return out.putInt(text.length()).put(text.getBytes(StandardCharsets.US_ASCII));
	}

	/** Reads a message, which must be the reply to that call. */
	static List<Run> readReply(ByteBuffer message, Method method, int sequence)
			throws ProtocolException, Failure {
		try {
			return new Codec(message).reply(method, sequence);
		} catch (BufferUnderflowException e) {
			throw new ProtocolException("the message ends too soon");
		}
	}

	private List<Run> reply(Method method, int sequence) throws ProtocolException, Failure {
		int header = in.getInt();
		String name = text();
		int answered = in.getInt();

		check(name.equals(method.name) && answered == sequence, "the reply to %.40s with sequence ID %d, "
			+ "not to %s with %d", name, answered, method.name, sequence);
		check(header == REPLY || header == EXCEPTION, "header %#08x", header);
		Failure refusal = header == EXCEPTION ? legacy() : result(method);
		check(!in.hasRemaining(), "%d bytes after the message", in.remaining());
		if (refusal != null)
			throw refusal;
		return runs;
	}

	private Failure legacy() throws ProtocolException {
		exception(I32);
		String[] parts = text.split(": ", 2);
		Kind kind = number == INTERNAL_ERROR ? LEGACY.get(parts[0]) : null;
		return refusal(kind == null ? Kind.UNREACHABLE : kind, kind == null ? text
			: parts[parts.length - 1], 0, number == UNKNOWN_METHOD ? Type.UNKNOWN_METHOD : Type.ANSWER);
	}

	private static Failure refusal(Kind kind, String text, long retryAfterMs, Type type) {
		return new Failure(kind, "the server refused: " + text, null, retryAfterMs, type);
	}

	/** Reads the fields of a reply: 0 is the result, the others are exceptions. */
	private Failure result(Method method) throws ProtocolException {
		Failure[] refusal = {null};

		fields(0, (id, type) -> {
			if (id == 0 && type == (method.isBatch() ? LIST : I64)) {
				check(runs == null, "two results");
				runs = ids(method);
			} else if (id >= 1 && id < TYPED.length && type == STRUCT && method.isBatch()) {
				exception(I64);
				refusal[0] = refusal(TYPED[id], text, number,
					id == TYPED.length - 1 ? Type.INVALID_COUNT : Type.ANSWER);
			} else {
				return false;
			}
			return true;
		});
		check(runs != null || refusal[0] != null, "no result");
		return refusal[0];
	}

	/** Reads an i64, a list of them, or a list of IdRun. */
	private List<Run> ids(Method method) throws ProtocolException {
		List<Run> found = new ArrayList<>(1);
		int size = 1;

		if (method.isBatch()) {
			byte element = in.get();
			check(element == method.element, "a list of type %d", element);
			size = in.getInt();
			check(size >= 0, "a list of %d elements", size);
		}
		for (; size > 0; size--) { // each has one byte or more
			first = method.element == I64 ? in.getLong() : 0;
			count = 1;
			if (method.element == STRUCT)
				fields(1, (id, type) -> {
					if (id == 1 && type == I64)
						first = in.getLong();
					else if (id == 2 && type == I32)
						count = in.getInt();
					else
						return false;
					return true;
				});
			extend(found, first, count);
		}
		return found;
	}

	/** Appends IDs, which must be valid and greater than those before. */
	static void extend(List<Run> runs, long first, long count) throws ProtocolException {
		Run before = runs.isEmpty() ? null : runs.get(runs.size() - 1);

		check(first > 0 && count >= 1 && count <= MAX_BATCH && first <= Long.MAX_VALUE - count + 1,
			"%d IDs from %d on", count, first);
		check(before == null || first >= before.next + before.count, "ID %d, which is not greater", first);
		if (before != null && first == before.next + before.count)
			before.count += (int) count;
		else
			runs.add(new Run(first, (int) count));
	}

	/** Reads a struct that contains a string and a number. */
	private void exception(byte numberType) throws ProtocolException {
		text = "";
		number = 0;
		fields(1, (id, type) -> {
			if (id == 1 && type == STRING)
				text = text();
			else if (id == 2 && type == numberType)
				number = type == I64 ? in.getLong() : in.getInt();
			else
				return false;
			return true;
		});
	}

	private String text() {
		byte[] bytes = new byte[length(in.getInt())];

		in.get(bytes);
		return new String(bytes, StandardCharsets.UTF_8);
	}

	private int length(int length) {
		if (length < 0 || length > in.remaining())
			throw new BufferUnderflowException();
		return length;
	}

	private void fields(int depth, Field field) throws ProtocolException {
		for (byte type = in.get(); type != STOP; type = in.get())
			if (!field.read(in.getShort(), type))
				skip(type, depth + 1);
	}

	private void skip(byte type, int depth) throws ProtocolException {
		check(depth <= MAX_DEPTH, "values are nested too deeply");
		if (type >= 0 && type < SIZES.length && SIZES[type] > 0) {
			in.position(in.position() + length(SIZES[type]));
		} else if (type == STRING) {
			in.position(length(in.getInt()) + in.position());
		} else if (type == STRUCT) {
			fields(depth, (id, field) -> false);
		} else {
			check(type == MAP || type == SET || type == LIST, "a value of type %d", type);
			byte key = type == MAP ? in.get() : STOP;
			byte value = in.get();
			int left = in.getInt();
			check(left >= 0, "a container of %d elements", left);
			for (; left > 0; left--) { // each has one byte or more
				if (type == MAP)
					skip(key, depth + 1);
				skip(value, depth + 1);
			}
		}
	}

	private static void check(boolean isRight, String format, Object... values)
			throws ProtocolException {
		if (!isRight)
			throw new ProtocolException(String.format(format, values));
	}
}
