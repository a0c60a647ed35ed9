// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.BeforeClass;
import org.junit.ClassRule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** What is in the package, and that its README does what it says. */
public class PackageTest extends Support {
	@ClassRule
	public static final TemporaryFolder FOLDER = new TemporaryFolder();

	private static final Path SOURCES = PACKAGE.resolve("src/main/java");
	private static final Path JAR = Path.of(System.getProperty("snowflake.jar", "none"));
	private static final String JAVA = Path.of(System.getProperty("java.home"), "bin/java").toString();
	private static String readme;

	@BeforeClass
	public static void read() throws IOException {
		readme = Files.readString(PACKAGE.resolve("README.md"));
	}

	private static String first(String pattern, Path file) throws IOException {
		return Pattern.compile(pattern).matcher(Files.readString(file)).results()
			.map(found -> found.group(1)).findFirst().orElseThrow();
	}

	private static Set<Path> javaFiles(Path directory) throws IOException {
		try (Stream<Path> paths = Files.walk(directory)) {
			return paths.filter(path -> path.toString().endsWith(".java")).map(directory::relativize)
				.collect(Collectors.toCollection(TreeSet::new));
		}
	}

	@Test
	public void versions() throws IOException {
		String tree = first("version: '([^']+)'", ROOT.resolve("meson.build"));

		assertEquals(tree, first("<version>(.*)</version>", PACKAGE.resolve("pom.xml")));
		assertEquals("snowflake-client-" + tree + ".jar", JAR.getFileName().toString());
		try (JarFile jar = new JarFile(JAR.toFile())) {
			assertEquals(tree, jar.getManifest().getMainAttributes().getValue(
				"Implementation-Version"));
		}
		assertTrue(readme.contains("snowflake-client-" + tree + ".jar"));
	}

	@Test
	public void theJarHoldsItsClassesAndNothingElse() throws IOException {
		Set<String> expected = javaFiles(SOURCES).stream()
			.map(path -> path.toString().replace(".java", ".class"))
			.collect(Collectors.toCollection(TreeSet::new));
		Set<String> names = new TreeSet<>();

		try (JarFile jar = new JarFile(JAR.toFile())) {
			jar.stream().filter(entry -> !entry.isDirectory()).map(entry -> entry.getName())
				.filter(name -> !name.contains("$")).forEach(names::add);
			assertTrue(jar.stream().filter(entry -> entry.getName().contains("$")).allMatch(
				entry -> expected.contains(entry.getName().replaceFirst("\\$.*", ".class"))));
			assertArrayEquals(Files.readAllBytes(ROOT.resolve("LICENSE")),
				jar.getInputStream(jar.getEntry("META-INF/LICENSE")).readAllBytes());
		}
		expected.addAll(List.of("META-INF/LICENSE", "META-INF/MANIFEST.MF"));
		assertEquals(expected, names);
	}

	@Test
	public void theGeneratedCodeIsWhatTheCompilerMakes() throws Exception {
		Path made = FOLDER.newFolder("generated").toPath();

		run(made, PACKAGE.resolve("generate").toString(), made.toString());
		assertEquals(javaFiles(made).stream().map(Path::toString).toList(),
			javaFiles(SOURCES).stream().map(Path::toString).filter(name -> name.startsWith("com/"))
				.toList());
		for (Path path : javaFiles(made))
			assertEquals(path.toString(), -1,
				Files.mismatch(made.resolve(path), SOURCES.resolve(path)));
	}

	@Test
	public void theReadmeHasEveryPublicClass() throws Exception {
		for (Path path : javaFiles(SOURCES.resolve("snowflake/client"))) {
			String name = path.toString().replace(".java", "");
			Class<?> known = Class.forName("snowflake.client." + name.replace('/', '.'));
			if (Modifier.isPublic(known.getModifiers()))
				assertTrue(name, readme.contains(known.getSimpleName()));
		}
	}

	@Test
	public void theReadmeHasTheOptionsAndTheirDefaults() {
		for (var method : Options.class.getDeclaredMethods())
			if (Modifier.isPublic(method.getModifiers()))
				assertTrue(method.getName(), readme.contains("`" + method.getName() + "`"));
		Options options = Options.agent("test");
		assertTrue(readme.contains("| `timeout` | " + options.timeout.toMillis() + " ms |"));
		assertTrue(readme.contains("| `prefetch` | " + options.prefetch.toMillis() + " ms |"));
		assertTrue(readme.contains("| `maxAge` | " + options.maxAge.toMillis() + " ms |"));
	}

	@Test
	public void theLinesOfTheReadme() throws Exception {
		String address = server();
		List<String> blocks = Pattern.compile("(?ms)^```java\n(.*?)^```").matcher(readme).results()
			.map((MatchResult found) -> found.group(1)).toList();

		assertEquals(4, blocks.size());
		for (String block : blocks) {
			// a timeout of a minute: the machine can be slow
			String patient = block.replaceAll(", (\"[\\w-]+\")\\)\\)", ", snowflake.client.Options"
				+ ".agent($1).timeout(java.time.Duration.ofMinutes(1))))");
			String printed = runSource("Readme",
				program(patient.replace("127.0.0.1:7609", address)));
			assertEquals(block, block.contains("println"), !printed.isEmpty());
			assertFalse(printed, printed.contains("SLF4J"));
		}
		assertTrue(readme.contains("Parts[time=2023-11-14T22:13:20Z, datacenter=1, worker=2, "
			+ "sequence=3]"));
		assertTrue(Ids.decode(1_724_551_110_456_385_539L).toString().startsWith(
			"Parts[time=2023-11-14T22:13:20Z, datacenter=1, worker=2, sequence=3]"));
	}

	/** Lines, as a file that java runs. */
	private static String program(String lines) {
		if (lines.contains("class "))
			return lines;
		String imports = lines.lines().filter(line -> line.startsWith("import "))
			.collect(Collectors.joining("\n"));
		String rest = lines.lines().filter(line -> !line.startsWith("import "))
			.collect(Collectors.joining("\n"));
		return imports + "\npublic class Readme { public static void main(String[] args) throws "
			+ "Exception {\n" + rest + "\n} }\n";
	}

	/** By a command that has its own last. */
	private static String runSource(String name, String source, String... by) throws Exception {
		Path directory = FOLDER.newFolder().toPath();
		Path file = Files.writeString(directory.resolve(name + ".java"), source);
		List<String> command = new ArrayList<>(List.of(by));

		for (Path path = directory; path.startsWith(FOLDER.getRoot().toPath()); path = path.getParent())
			assertTrue(path.toFile().setExecutable(true, false)); // if it is run by another user
		// G1 has threads of its own, and at times does not end where no more can be had
		command.addAll(List.of("env", "PATH=" + BUILD.resolve("server") + ":"
			+ System.getenv("PATH"), JAVA, "-Xlog:disable", "-XX:+UseSerialGC",
			"-XX:TieredStopAtLevel=1",
			"-cp", JAR + ":"
			+ System.getProperty("snowflake.library"), file.toString()));
		return run(directory, command.toArray(new String[0]));
	}

	@Test
	public void aProgramThatGetsNoThread() throws Exception {
		assumeTrue("for another user's limit", System.getProperty("user.name").equals("root"));
		long nobodyElse = 100_000 + ProcessHandle.current().pid();

		assertEquals("100000\nids.invalid: no thread can be had for its name\n", runSource("None", """
			import java.util.*;
			import java.util.concurrent.locks.LockSupport;
			import snowflake.client.*;
			public class None {
				public static void main(String[] args) throws Exception {
					Snowflake client = new Snowflake(List.of("%s"), "test");
					try {
						for (;;) {
							Thread thread = new Thread(LockSupport::park);
							thread.setDaemon(true);
							thread.start();
						}
					} catch (OutOfMemoryError e) {
						// no more can be had
					}
					Set<Long> ids = new HashSet<>();
					for (int i = 0; i < 100_000; i++)
						ids.add(client.nextId());
					System.out.println(ids.size());
					try {
						new Snowflake(List.of("ids.invalid"), "test").nextId();
					} catch (UnreachableException e) {
						System.out.println(e.getAttempts().get(0));
					}
				}
			}
			""".formatted(server()), "prlimit", "--nproc=80", "setpriv", "--reuid=" + nobodyElse,
			"--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"));
	}

	@Test
	public void aProgramEndsWithAClientOpenAndThriftSaysNothing() throws Exception {
		assertEquals("done\n", runSource("Ends", """
			import java.util.List;
			import snowflake.client.*;
			public class Ends {
				public static void main(String[] args) throws Exception {
					Snowflake client = new Snowflake(List.of("%s"), "test");
					for (int i = 0; i < 1000; i++)
						client.nextId();
					try {
						new Snowflake(List.of("%s"), "test").nextId();
					} catch (UnreachableException e) {
						System.out.println("done");
					}
				}
			}
			""".formatted(server(), dead())));
	}
}
