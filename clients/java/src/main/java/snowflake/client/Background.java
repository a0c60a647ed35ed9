// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads for what callers do not wait for, or not for longer than their deadline. They do not keep
 * the program from ending, and are gone when there is nothing to do. */
final class Background {
	private static final long KEPT_S = 1;
	private static final Executor THREADS = new ThreadPoolExecutor(0, Integer.MAX_VALUE, KEPT_S,
		TimeUnit.SECONDS, new SynchronousQueue<>(), Background::thread);

	private Background() {
	}

	/** false: no thread can be had for it now. */
	static boolean run(Runnable task) {
		try {
			THREADS.execute(task);
			return true;
		} catch (OutOfMemoryError e) { // so Java says that the system gives it no thread
			return false;
		}
	}

	private static Thread thread(Runnable task) {
		Thread thread = new Thread(null, task, "snowflake-client", 0, false);

		thread.setDaemon(true);
		return thread;
	}
}
