// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.twitter.service.snowflake.gen.IdRun;
import com.twitter.service.snowflake.gen.Snowflake.get_id_args;
import com.twitter.service.snowflake.gen.Snowflake.get_id_result;
import com.twitter.service.snowflake.gen.SnowflakeExtended.get_id_runs_args;
import com.twitter.service.snowflake.gen.SnowflakeExtended.get_id_runs_result;
import com.twitter.service.snowflake.gen.SnowflakeExtended.get_ids_args;
import com.twitter.service.snowflake.gen.SnowflakeExtended.get_ids_result;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TBase;
import org.apache.thrift.TException;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.TSerializable;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.apache.thrift.transport.TMemoryInputTransport;

/** A call to a {@link Peer}, and the frames that can answer it, by the official Thrift library. */
final class Call {
	static final int SUCCESS = 0, CLOCK = 1, AGENT = 2, WORKER = 3, COUNT = 4; // of a result

	final TMessage message;
	final int count;
	private final Peer peer;

	Call(byte[] frame, Peer peer) throws TException {
		TBinaryProtocol protocol = new TBinaryProtocol(new TMemoryInputTransport(frame));

		this.peer = peer;
		message = protocol.readMessageBegin();
		switch (message.name) {
		case "get_id_runs" -> {
			get_id_runs_args arguments = new get_id_runs_args();
			arguments.read(protocol);
			count = arguments.count;
		}
		case "get_ids" -> {
			get_ids_args arguments = new get_ids_args();
			arguments.read(protocol);
			count = arguments.count;
		}
		default -> {
			new get_id_args().read(protocol);
			count = 1;
		}
		}
	}

	String name() {
		return message.name;
	}

	/** Returns a reply with one of its fields. */
	byte[] reply(int field, Object value) throws TException {
		return framed(message, TMessageType.REPLY, result(field, value));
	}

	TBase<?, ?> result(int field, Object value) {
		return switch (message.name) {
		case "get_id_runs" -> with(new get_id_runs_result(), field, value);
		case "get_ids" -> with(new get_ids_result(), field, value);
		default -> with(new get_id_result(), field, value);
		};
	}

	private static <T extends TBase<T, F>, F extends TFieldIdEnum> T with(T result, int field,
			Object value) {
		result.setFieldValue(result.fieldForId(field), value);
		return result;
	}

	byte[] exception(int type, String text) throws TException {
		return framed(message, TMessageType.EXCEPTION, new TApplicationException(type, text));
	}

	byte[] unknown() throws TException {
		return exception(TApplicationException.UNKNOWN_METHOD, "unknown " + message.name);
	}

	/** Returns the reply with as many IDs as it requests, the next ones of the peer. */
	byte[] ids() throws TException {
		return reply(SUCCESS, value(peer.take(count), count));
	}

	byte[] ids(long first, int number) throws TException {
		return reply(SUCCESS, value(first, number));
	}

	Object value(long first, int number) {
		return switch (message.name) {
		case "get_id_runs" -> List.of(new IdRun(first, number));
		case "get_ids" -> LongStream.range(first, first + number).boxed().toList();
		default -> first;
		};
	}

	/** Returns the same IDs, as a reply to another call. */
	byte[] idsAs(String name, byte type, int sequenceId) throws TException {
		return framed(new TMessage(name, type, sequenceId), type,
			result(SUCCESS, value(peer.take(count), count)));
	}

	static byte[] framed(TMessage call, byte type, TSerializable body) throws TException {
		TMemoryBuffer buffer = new TMemoryBuffer(64);
		TBinaryProtocol protocol = new TBinaryProtocol(buffer);

		protocol.writeMessageBegin(new TMessage(call.name, type, call.seqid));
		body.write(protocol);
		return framed(Arrays.copyOf(buffer.getArray(), buffer.length()));
	}

	static byte[] framed(byte[] message) {
		return ByteBuffer.allocate(Integer.BYTES + message.length).putInt(message.length).put(message)
			.array();
	}
}
