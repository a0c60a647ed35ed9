// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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

/** The contents of the jar, the README, and programs in JVMs of their own. */
public class PackageTest extends Support {
	@ClassRule
	public static final TemporaryFolder FOLDER = new TemporaryFolder();

	private static final Path SOURCES = PACKAGE.resolve("src/main/java");
	private static final Path JAR = Path.of(System.getProperty("snowflake.jar", "none"));
	private static final String JAVA = Path.of(System.getProperty("java.home"), "bin/java").toString();
	private static final String ROOT_NAME = Snowflake.class.getPackageName();
	private static final String ROOT_PATH = ROOT_NAME.replace('.', '/');
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
	public void theReadmeHasEveryPublicClass() throws Exception {
		for (Path path : javaFiles(SOURCES.resolve(ROOT_PATH))) {
			String name = path.toString().replace(".java", "");
			Class<?> known = Class.forName(ROOT_NAME + "." + name.replace('/', '.'));
			if (Modifier.isPublic(known.getModifiers()))
				assertTrue(name, readme.contains(known.getSimpleName()));
		}
	}

	@Test
	public void theReadmeHasTheOptionsAndTheirDefaults() {
		for (var method : SnowflakeBuilder.class.getDeclaredMethods())
			if (Modifier.isPublic(method.getModifiers()) && !method.getName().equals("build"))
				assertTrue(method.getName(), readme.contains("| `" + method.getName()));
		Options options = Snowflake.builder().build().options;
		for (var one : Map.of("timeout", options.timeoutNs(), "prefetch", options.prefetchNs(), "maxAge",
				options.maxAgeNs()).entrySet())
			assertTrue(one.getKey(), readme.contains("| `" + one.getKey() + "` | "
				+ one.getValue() / 1_000_000 + " ms |"));
	}

	private static List<String> examples(String language) {
		return Pattern.compile("(?ms)^```" + language + "\n(.*?)^```").matcher(readme).results()
			.map((MatchResult found) -> found.group(1)).toList();
	}

	/** Runs the README from an empty directory on. */
	@Test
	public void theExamplesOfTheReadme() throws Exception {
		String address = server();
		List<String> blocks = examples("java");
		List<String> printed = List.of("\\d{18,19}\n\\[\\d+, \\d+, \\d+\\]\n", "",
			"Parts\\[time=2023-11-14T22:13:20Z, datacenter=1, worker=2, sequence=3\\]\n"
			+ "23OSfOacDQp 1FVPP347W4803\n1724551110456385539\n"
			+ "SELECT \\* FROM orders WHERE id BETWEEN \\d+ AND \\d+\n",
			"1724551110456385536\n\\d+\n");

		assertEquals(5, blocks.size());
		for (int i = 0; i < printed.size(); i++) {
			// a timeout of a minute: the machine can be slow
			String source = program(blocks.get(i).replaceFirst("\\.agent\\(.*?\\)",
				"$0.timeout(java.time.Duration.ofMinutes(1))").replace("127.0.0.1:7609", address));
			String said = runSource("Readme", source);
			assertTrue(said, said.matches(printed.get(i)));
		}
		Path directory = FOLDER.newFolder().toPath();
		Files.writeString(directory.resolve("FirstIds.java"),
			blocks.get(0).replace("127.0.0.1:7609", address));
		String said = run(directory, "bash", "-ec", "TREE=$0\n" + examples("sh").get(0)
			+ "java FirstIds.java", ROOT.toString());
		assertTrue(said, said.matches(printed.get(0)));
	}

	/** Compiles the recipe with what it uses of Hibernate 6, which Debian lacks. */
	@Test
	public void theRecipeForHibernate() throws Exception {
		Path directory = FOLDER.newFolder().toPath();
		String session = "SharedSessionContractImplementor";

		Files.writeString(directory.resolve("SnowflakeGenerator.java"), examples("java").get(4));
		for (var stub : Map.of("org/hibernate/engine/spi/" + session, "public interface " + session + " { }",
				"org/hibernate/id/IdentifierGenerator", "public interface IdentifierGenerator { Object "
				+ "generate(org.hibernate.engine.spi." + session + " session, Object entity); }")
				.entrySet()) {
			Path file = directory.resolve(stub.getKey() + ".java");
			Files.createDirectories(file.getParent());
			Files.writeString(file, "package " + stub.getKey().replaceFirst("/\\w+$", "").replace('/', '.')
				+ ";\n" + stub.getValue());
		}
		Files.writeString(directory.resolve("Main.java"), "public class Main { public static void main("
			+ "String[] args) { SnowflakeGenerator.ids = new " + ROOT_NAME + ".testing.FakeSnowflake(7, 1); "
			+ "System.out.println(new SnowflakeGenerator().generate(null, null)); } }");
		assertEquals("", run(directory, "javac", "-Xlint:all", "-Werror", "-cp", JAR + ":.", "Main.java"));
		assertEquals("7\n", run(directory, JAVA, "-cp", JAR + ":.", "Main"));
	}

	/** The domain is a placeholder. One command replaces it wherever it is. */
	@Test
	public void rename() throws Exception {
		Path copy = FOLDER.newFolder().toPath();

		run(ROOT, "sh", "-ec", "git ls-files -z --cached --others --exclude-standard clients/java docs CHANGELOG.md "
			+ "tests/clients | xargs -0 cp --parents -t \"$0\" 2>\"$0/missing\" || [ -s \"$0/missing\" ]",
			copy.toString());
		run(copy, "clients/java/rename", "org.test.ids");
		assertEquals("", run(copy, "sh", "-c", "grep -rnE 'com[./]example' . || true"));
		run(copy, "clients/java/build", copy.toString());
		try (JarFile jar = new JarFile(copy.resolve(JAR.getFileName()).toFile())) {
			assertNotNull(jar.getEntry("org/test/ids/snowflake/Snowflake.class"));
		}
	}

	/** Makes a program from lines. */
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

	/** Runs a program with another program, which gets the command line. */
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
			"-cp", JAR.toString(), file.toString()));
		return run(directory, command.toArray(new String[0]));
	}

	@Test
	public void aProgramThatGetsNoThread() throws Exception {
		assumeTrue("for another user's limit", System.getProperty("user.name").equals("root"));
		long nobodyElse = 100_000 + ProcessHandle.current().pid();

		assertEquals("100000\ncannot start a thread\n", runSource("None", """
			import java.time.Duration;
			import java.util.*;
			import java.util.concurrent.locks.LockSupport;
			import com.example.snowflake.*;
			public class None {
				static void takeAllThreads() {
					try {
						for (;;) {
							Thread thread = new Thread(LockSupport::park);
							thread.setDaemon(true);
							thread.start();
						}
					} catch (OutOfMemoryError e) {
						// there are no more threads
					}
				}
				public static void main(String[] args) throws Exception {
					Snowflake client = Snowflake.builder("%s").timeout(Duration.ofMinutes(1)).build();
					Set<Long> ids = new HashSet<>(List.of(client.nextId())); // it is connected
					takeAllThreads();
					while (ids.size() < 100_000)
						ids.add(client.nextId());
					System.out.println(ids.size());
					while (Thread.getAllStackTraces().keySet().stream()
							.anyMatch(thread -> thread.getName().equals("snowflake-client")))
						LockSupport.parkNanos(1_000_000);
					takeAllThreads();
					try {
						Snowflake.builder("ids.invalid").build().nextId();
					} catch (UnreachableException e) {
						System.out.println(e.getMessage());
					}
				}
			}
			""".formatted(server()), "prlimit", "--nproc=80", "setpriv", "--reuid=" + nobodyElse,
			"--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"));
	}

	@Test
	public void aProgramEndsWithAnOpenClientAndLogsNothing() throws Exception {
		assertEquals("done\n", runSource("Ends", """
			import java.time.Duration;
			import com.example.snowflake.*;
			public class Ends {
				public static void main(String[] args) throws Exception {
					Snowflake client = Snowflake.builder("%s").timeout(Duration.ofMinutes(1)).build();
					for (int i = 0; i < 1000; i++)
						client.nextId();
					try {
						Snowflake.builder("%s").timeout(Duration.ofMillis(20)).build().nextId();
					} catch (SnowflakeException e) {
						System.out.println("done");
					}
				}
			}
			""".formatted(server(), dead())));
	}

	@Test
	public void serversFromTheEnvironment() throws Exception {
		assertEquals("1\n", runSource("Environment", """
			import com.example.snowflake.*;
			public class Environment {
				public static void main(String[] args) throws Exception {
					try (Snowflake client = Snowflake.builder().build()) {
						System.out.println(client.nextIds(1).length);
					}
				}
			}
			""", "env", "SNOWFLAKE_SERVERS=snowflake://" + dead() + "," + server()
				+ "/?timeout_ms=60000"));
	}
}
