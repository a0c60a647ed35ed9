// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** A real server for tests. It is ready within milliseconds and runs until it is closed. Its state
 * directory is then removed.
 *
 * <pre>{@code
 * try (RunningServer server = RunningServer.start();
 *         Snowflake client = Snowflake.builder(server.address()).build()) {
 *     client.nextId();
 * }
 * }</pre> */
public final class RunningServer implements AutoCloseable {
	private static final Pattern LISTENING = Pattern.compile(" event=listening address=(\\S+)");
	private static final long START_LIMIT_S = 30;
	private static final long STOP_LIMIT_S = 10;

	private final Process process;
	private final Path directory;
	private final String address;

	private RunningServer(Process process, Path directory, String address) {
		this.process = process;
		this.directory = directory;
		this.address = address;
	}

	/** Starts snowflaked, which must be in $PATH, on a free port of 127.0.0.1.
	 *
	 * @return the server
	 * @throws IOException if it does not start, with its log */
	public static RunningServer start() throws IOException {
		return start("snowflaked", "127.0.0.1:0");
	}

	/** Starts a server.
	 *
	 * @param program the program, a path or a name in $PATH
	 * @param listen the value of --listen
	 * @param options more options
	 * @return the server
	 * @throws IOException if it does not start, with its log */
	public static RunningServer start(String program, String listen, String... options)
			throws IOException {
		Path directory = Files.createTempDirectory("snowflake");
		List<String> command = new ArrayList<>(List.of(program, "--listen", listen,
			"--state-directory", directory.toString(), "--worker-id", "0"));
		command.addAll(List.of(options));
		StringBuffer log = new StringBuffer();

		try {
			Process process = new ProcessBuilder(command)
				.redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
			try {
				process.getOutputStream().close();
				return new RunningServer(process, directory,
					readLog(process, log).orTimeout(START_LIMIT_S, TimeUnit.SECONDS).join());
			} catch (CompletionException e) {
				process.destroyForcibly();
				throw new IOException("the server did not start: " + log, e);
			}
		} catch (IOException e) {
			remove(directory);
			throw e;
		}
	}

	/** Reads the log to its end, so that the server never waits for a reader. Returns the address, once
	 * the server is ready. */
	private static CompletableFuture<String> readLog(Process process, StringBuffer log) {
		CompletableFuture<String> ready = new CompletableFuture<>();
		Thread thread = new Thread(() -> {
			try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
				for (String line = lines.readLine(); line != null; line = lines.readLine()) {
					if (!ready.isDone())
						log.append(line).append('\n');
					Matcher found = LISTENING.matcher(log);
					if (line.contains(" event=ready ") && found.find())
						ready.complete(found.group(1));
				}
			} catch (IOException e) {
				// the server has ended
			}
			ready.completeExceptionally(new IOException("it has ended"));
		}, "snowflaked-log");

		thread.setDaemon(true);
		thread.start();
		return ready;
	}

	/** Returns the address for clients.
	 *
	 * @return the address */
	public String address() {
		return address;
	}

	/** Stops the server with SIGTERM. */
	@Override
	public void close() {
		process.destroy();
		try {
			if (!process.waitFor(STOP_LIMIT_S, TimeUnit.SECONDS))
				process.destroyForcibly().waitFor();
		} catch (InterruptedException e) {
			process.destroyForcibly();
			Thread.currentThread().interrupt();
		}
		remove(directory);
	}

	/** Kills the server. */
	public void kill() {
		process.destroyForcibly();
		close();
	}

	private static void remove(Path directory) {
		try (Stream<Path> paths = Files.walk(directory)) {
			for (Path path : paths.sorted(Comparator.reverseOrder()).toList())
				Files.deleteIfExists(path);
		} catch (IOException e) {
			// it is in the directory for temporary files
		}
	}
}
