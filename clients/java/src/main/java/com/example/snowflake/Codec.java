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
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Thrift's framed binary protocol with the strict header, as far as the calls for IDs need it. An
 * instance reads one message. */
final class Codec {
	static final int MAX_FRAME = 1 << 20; // bytes: five times the longest reply
	static final int MAX_BATCH = 10_000; // IDs of one call
	private static final int MAX_DEPTH = 16; // of values in values
	private static final int CALL = 0x80010001, REPLY = 0x80010002, EXCEPTION = 0x80010003;
	private static final byte STOP = 0, BOOL = 2, BYTE = 3, DOUBLE = 4, I16 = 6, I32 = 8, I64 = 10,
		STRING = 11, STRUCT = 12, MAP = 13, SET = 14, LIST = 15;
	private static final int UNKNOWN_METHOD = 1, INTERNAL_ERROR = 6; // types of a TApplicationException
	/** The kinds of the exceptions by their field in a reply. The last one is InvalidCount. */
	private static final Kind[] TYPED = {null, Kind.CLOCK, Kind.INVALID_AGENT, Kind.UNAVAILABLE,
		Kind.UNREACHABLE};
	/** get_id declares no exceptions, so its messages begin with a name. */
	private static final Map<String, Kind> LEGACY = Map.of("InvalidSystemClock", Kind.CLOCK,
		"InvalidUserAgentError", Kind.INVALID_AGENT, "WorkerIdUnavailable", Kind.UNAVAILABLE);

	/** The calls for IDs, in order of preference. Old servers lack the first ones. */
	enum Method {
		GET_ID_RUNS, GET_IDS, GET_ID;

		private final String thriftName = name().toLowerCase(Locale.ROOT);

		boolean isBatch() {
			return this != GET_ID;
		}

		/** Returns the next one, or null. */
		Method next() {
			return this == GET_ID ? null : values()[ordinal() + 1];
		}
	}

	private final ByteBuffer in;

	private Codec(ByteBuffer in) {
		this.in = in;
	}

	/** Returns the frame of a call. */
	static byte[] call(Method method, int sequence, String agent, int count) {
		ByteBuffer out = ByteBuffer.allocate(64 + agent.length());

		putText(out.putInt(0).putInt(CALL), method.thriftName).putInt(sequence);
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

		check(name.equals(method.thriftName) && answered == sequence, "the reply to %.40s with sequence "
			+ "ID %d, not to %s with %d", name, answered, method.thriftName, sequence);
		check(header == REPLY || header == EXCEPTION, "header %#08x", header);
		Map<Short, Object> fields = struct(0);
		check(!in.hasRemaining(), "%d bytes after the message", in.remaining());
		if (header == EXCEPTION)
			throw legacy(get(fields, 1, ""), get(fields, 2, 0));
		for (int id = 1; id < TYPED.length && method.isBatch(); id++)
			if (fields.get((short) id) instanceof Map<?, ?> error)
				throw refusal(TYPED[id], get(error, 1, ""), get(error, 2, 0L),
					id == TYPED.length - 1 ? Type.INVALID_COUNT : Type.ANSWER);
		return ids(fields.get((short) 0), method);
	}

	private static Failure legacy(String text, int number) {
		String[] parts = text.split(": ", 2);
		Kind kind = number == INTERNAL_ERROR ? LEGACY.get(parts[0]) : null;
		return refusal(kind == null ? Kind.UNREACHABLE : kind, kind == null ? text
			: parts[parts.length - 1], 0, number == UNKNOWN_METHOD ? Type.UNKNOWN_METHOD : Type.ANSWER);
	}

	private static Failure refusal(Kind kind, String text, long retryAfterMs, Type type) {
		return new Failure(kind, "the server refused: " + text, null, retryAfterMs, type);
	}

	/** Returns the IDs in an i64, a list of them, or a list of IdRun. */
	private static List<Run> ids(Object result, Method method) throws ProtocolException {
		List<Run> found = new ArrayList<>(1);

		check(method.isBatch() ? result instanceof List : result instanceof Long, "no result");
		for (Object one : result instanceof List<?> list ? list : List.of(result))
			if (method == Method.GET_ID_RUNS && one instanceof Map<?, ?> run)
				extend(found, get(run, 1, 0L), get(run, 2, 0));
			else
				extend(found, method != Method.GET_ID_RUNS && one instanceof Long id ? id : 0, 1);
		return found;
	}

	/** Appends IDs, which must be valid and greater than those before. */
	private static void extend(List<Run> runs, long first, long count) throws ProtocolException {
		Run before = runs.isEmpty() ? null : runs.get(runs.size() - 1);

		check(first > 0 && count >= 1 && count <= MAX_BATCH && first <= Long.MAX_VALUE - count + 1,
			"%d IDs from %d on", count, first);
		check(before == null || first >= before.next + before.count, "ID %d, which is not greater", first);
		if (before != null && first == before.next + before.count)
			before.count += (int) count;
		else
			runs.add(new Run(first, (int) count));
	}

	/** Returns a field, if the struct has one with the type of the default. */
	private static <T> T get(Map<?, ?> struct, int id, T otherwise) {
		Object found = struct.get((short) id);

		@SuppressWarnings("unchecked") // it was checked
		T value = otherwise.getClass().isInstance(found) ? (T) found : otherwise;
		return value;
	}

	private String text() {
		byte[] bytes = new byte[bounded(in.getInt())];

		in.get(bytes);
		return new String(bytes, StandardCharsets.UTF_8);
	}

	private int bounded(int length) {
		if (length < 0 || length > in.remaining())
			throw new BufferUnderflowException();
		return length;
	}

	private Map<Short, Object> struct(int depth) throws ProtocolException {
		Map<Short, Object> fields = new HashMap<>();

		for (byte type = in.get(); type != STOP; type = in.get()) {
			short id = in.getShort();
			check(fields.put(id, value(type, depth + 1)) == null, "field %d comes twice", id);
		}
		return fields;
	}

	/** Reads a value. A map and a set are arrays, so they are not taken for lists. */
	private Object value(byte type, int depth) throws ProtocolException {
		check(depth <= MAX_DEPTH, "values are nested too deeply");
		return switch (type) {
		case BOOL, BYTE -> in.get();
		case I16 -> in.getShort();
		case I32 -> in.getInt();
		case I64 -> in.getLong();
		case DOUBLE -> in.getDouble();
		case STRING -> text();
		case STRUCT -> struct(depth);
		case MAP -> list(depth, in.get(), in.get()).toArray();
		case SET -> list(depth, in.get()).toArray();
		case LIST -> list(depth, in.get());
		default -> throw new ProtocolException("a value of type " + type);
		};
	}

	/** Reads a list, but keeps only one element more than any call for IDs can return. */
	private List<Object> list(int depth, byte... types) throws ProtocolException {
		List<Object> values = new ArrayList<>();

		for (int left = bounded(in.getInt()); left > 0; left--) // each has one byte or more
			for (byte type : types) {
				Object one = value(type, depth + 1);
				if (values.size() <= MAX_BATCH)
					values.add(one);
			}
		return values;
	}

	private static void check(boolean isRight, String format, Object... values)
			throws ProtocolException {
		if (!isRight)
			throw new ProtocolException(String.format(format, values));
	}
}
