// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads and timers of all clients. The threads do not keep the program from ending, and end when
 * they are idle. */
final class Background {
	private static final class Worker extends Thread {
		Worker(Runnable task) {
			super(null, task, "snowflake-client", 0, false);
			setDaemon(true);
		}
	}

	private static final ThreadPoolExecutor THREADS = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1,
		TimeUnit.SECONDS, new SynchronousQueue<>(), Worker::new);

	private Background() {
	}

	/** Returns false if the system has no thread for the task. */
	static boolean run(Runnable task) {
		try {
			THREADS.execute(task);
			return true;
		} catch (OutOfMemoryError e) { // Java has no more specific error
			return false;
		}
	}

	/** Returns whether the current thread is one of these. */
	static boolean isCurrent() {
		return Thread.currentThread() instanceof Worker;
	}

	/** Runs a task later, unless the timer that it returns is cancelled. If the system has no thread
	 * then, the task does not run. */
	static CompletableFuture<Void> after(long ns, Runnable task) {
		CompletableFuture<Void> timer = new CompletableFuture<>();

		timer.thenRunAsync(task, THREADS);
		try {
			timer.completeOnTimeout(null, ns, TimeUnit.NANOSECONDS);
		} catch (OutOfMemoryError e) {
			timer.cancel(false);
		}
		return timer;
	}
}
