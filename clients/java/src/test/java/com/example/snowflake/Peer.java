// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.thrift.TException;

/** A server whose answers a test defines. */
final class Peer implements AutoCloseable {
	interface Answer {
		/** Returns a frame; null: the connection ends. */
		byte[] to(Call call) throws TException, InterruptedException, IOException;
	}

	final List<Call> calls = new CopyOnWriteArrayList<>();
	final AtomicInteger connections = new AtomicInteger();
	private final ServerSocket listener;
	private final Answer answer;
	private final AtomicLong next = new AtomicLong(1L << 40);
	private final List<Socket> sockets = new CopyOnWriteArrayList<>();
	private final List<Thread> threads = new CopyOnWriteArrayList<>();
	private final CountDownLatch closing = new CountDownLatch(1);

	Peer(Answer answer) throws IOException {
		this(answer, "127.0.0.1", 0);
	}

	Peer(Answer answer, String address, int port) throws IOException {
		this.answer = answer;
		listener = new ServerSocket(port, 50, InetAddress.getByName(address));
		Support.daemon(this::accept);
	}

	String address() {
		return "127.0.0.1:" + listener.getLocalPort();
	}

	int port() {
		return listener.getLocalPort();
	}

	long take(int count) {
		return next.getAndAdd(count);
	}

	/** Waits until the peer is closed. */
	byte[] hang() throws InterruptedException {
		closing.await();
		return null;
	}

	/** Waits until the client ends the connection, at least its half. */
	void waitForEnd() throws IOException {
		sockets.get(sockets.size() - 1).getInputStream().read();
	}

	/** Sends a part of an answer, and then no more. */
	byte[] half(byte[] frame) throws IOException {
		byte[] part = Arrays.copyOf(frame, frame.length / 2);

		sockets.get(sockets.size() - 1).getOutputStream().write(part);
		return null;
	}

	private void accept() {
		try {
			for (;;) {
				Socket socket = listener.accept();
				connections.incrementAndGet();
				sockets.add(socket);
				threads.add(Support.daemon(() -> serve(socket)));
			}
		} catch (IOException e) {
			// it is closed
		}
	}

	private void serve(Socket socket) {
		try (socket) {
			DataInputStream in = new DataInputStream(socket.getInputStream());
			for (;;) {
				Call call = new Call(in.readNBytes(in.readInt()), this);
				calls.add(call);
				byte[] frame = answer.to(call);
				if (frame == null)
					return;
				socket.getOutputStream().write(frame);
			}
		} catch (IOException | TException | InterruptedException e) {
			// the client has gone, or the test is over
		}
	}

	/** Ends the connections. New ones are accepted. */
	void breakConnections() throws Exception {
		for (Socket socket : sockets)
			socket.close();
		for (Thread thread : threads)
			thread.join(Support.LONG_MS);
		sockets.clear();
		threads.clear();
	}

	@Override
	public void close() throws IOException {
		closing.countDown();
		listener.close();
		for (Socket socket : sockets)
			socket.close();
	}
}
