// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** A call that the buffer has too few IDs for. The client's lock guards it until it is done. */
final class Waiter {
	final long[] ids;
	int found; // IDs that it has
	final boolean isSingle; // a call to nextId()
	final long beganNs;
	final long deadlineNs;
	Supplier<SnowflakeException> error; // null: none
	final CountDownLatch isDone = new CountDownLatch(1);
	final CompletableFuture<long[]> future; // null: a thread waits

	Waiter(int count, boolean isSingle, long beganNs, long timeoutNs,
			CompletableFuture<long[]> future) {
		ids = new long[count];
		this.isSingle = isSingle;
		this.beganNs = beganNs;
		deadlineNs = beganNs + timeoutNs;
		this.future = future;
	}

	int missing() {
		return ids.length - found;
	}

	/** Returns its time limit, for messages. */
	String timeout() {
		return TimeUnit.NANOSECONDS.toMillis(deadlineNs - beganNs) + " ms";
	}

	/** Completes the future, while the client is not locked. */
	void complete() {
		if (error == null)
			future.complete(ids);
		else
			future.completeExceptionally(error.get());
	}
}
