// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs all test classes, or some of them by name. */
final class AllTests {
	private static final List<Class<?>> ALL = List.of(IdsTest.class, BufferTest.class, CodecTest.class,
		AnswersTest.class, FailoverTest.class, ConcurrencyTest.class, ClientTest.class, TlsTest.class,
		TestingTest.class, PackageTest.class);

	private AllTests() {
	}

	public static void main(String[] names) {
		List<Class<?>> chosen = new ArrayList<>(ALL);
		Set<String> failed = new ConcurrentSkipListSet<>(); // a test with failed parts has failed once
		JUnitCore core = new JUnitCore();

		if (names.length > 0)
			chosen.removeIf(test -> !List.of(names).contains(test.getSimpleName()));
		core.addListener(new RunListener() {
			@Override
			public void testStarted(Description test) {
				System.out.println(test.getDisplayName());
			}

			@Override
			public void testFailure(Failure failure) {
				failed.add(failure.getDescription().getDisplayName());
				System.out.println("FAILED " + failure.getTestHeader() + "\n"
					+ failure.getTrimmedTrace());
			}
		});
		Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
			failed.add("thread " + thread.getName());
			error.printStackTrace();
		});
		Result result = core.run(chosen.toArray(new Class<?>[0]));
		System.out.printf("client-java: %d passed, %d failed%n",
			Math.max(0, result.getRunCount() - failed.size()), failed.size());
		System.exit(failed.isEmpty() && result.getRunCount() > 0 ? 0 : 1);
	}
}
