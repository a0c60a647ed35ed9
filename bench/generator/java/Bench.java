/* SPDX-License-Identifier: Apache-2.0 */

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;

/**
 * What an ID costs in Java, as bench-generator tells it of C. First all is run until it is
 * compiled; then every round measures each case once, in turn. Prints JSON.
 */
final class Bench {
    private static final int MAX_ROUNDS = 10000;
    private static final int WARM_UP_RUNS = 2;
    /* the timed loop is called for so many at a time, so that it is compiled as a method */
    private static final int CHUNK = 10000;
    /* of each thread's IDs after the timed ones, to see that none comes twice */
    private static final int SAMPLE = 64000;

    private record Case(String name, int threads, int ids, Supplier<Subject> maker) {
    }

    private record Taken(long endNs, long sum, long[] sample) {
    }

    private static final List<Case> CASES = List.of(
            new Case("original-java", 1, 2000000, Original::new),
            new Case("original-java", 2, 1000000, Original::new),
            new Case("cached-uid-java", 1, 3000000, CachedUid::new),
            new Case("cached-uid-java", 2, 1500000, CachedUid::new),
            new Case("ulid-java", 1, 2000000, () -> new Ulids(false, false)),
            new Case("ulid-java", 2, 1000000, () -> new Ulids(false, false)),
            new Case("ulid-text-java", 1, 2000000, () -> new Ulids(false, true)),
            new Case("ulid-text-java", 2, 1000000, () -> new Ulids(false, true)),
            new Case("ulid-monotonic-java", 1, 2000000, () -> new Ulids(true, false)),
            new Case("ulid-monotonic-java", 2, 1000000, () -> new Ulids(true, false)),
            new Case("ulid-monotonic-text-java", 1, 2000000, () -> new Ulids(true, true)),
            new Case("ulid-monotonic-text-java", 2, 1000000, () -> new Ulids(true, true)));

    private Bench() {
    }

    private static long sum(Subject subject, int ids) {
        long sum = 0;
        for (int i = 0; i < ids; i++) {
            sum += subject.next();
        }
        return sum;
    }

    private static Taken take(Subject subject, int ids, CyclicBarrier start) throws Exception {
        start.await();
        long sum = 0;
        for (int taken = 0; taken < ids; taken += CHUNK) {
            sum += sum(subject, CHUNK);
        }
        long endNs = System.nanoTime();
        long[] sample = new long[SAMPLE];
        for (int i = 0; i < SAMPLE; i++) {
            sample[i] = subject.sample();
        }
        return new Taken(endNs, sum, sample);
    }

    private static void check(Case one, boolean increases, List<Taken> taken) {
        long[] ids = taken.stream().flatMapToLong(t -> Arrays.stream(t.sample())).sorted()
                .toArray();
        for (int i = 1; i < ids.length; i++) {
            if (ids[i] == ids[i - 1]) {
                throw new IllegalStateException(one.name() + ": an ID came twice");
            }
        }
        for (Taken of : taken) {
            for (int i = 1; i < SAMPLE; i++) {
                if (increases && of.sample()[i] <= of.sample()[i - 1]) {
                    throw new IllegalStateException(
                            one.name() + ": the IDs of a thread do not increase");
                }
            }
        }
    }

    private static double nsPerId(Case one) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(one.threads());
        try (Subject subject = one.maker().get()) {
            CyclicBarrier start = new CyclicBarrier(one.threads() + 1);
            Callable<Taken> task = () -> take(subject, one.ids(), start);
            List<Future<Taken>> futures = new ArrayList<>();
            for (int i = 0; i < one.threads(); i++) {
                futures.add(threads.submit(task));
            }
            while (start.getNumberWaiting() < one.threads()) {
                Thread.onSpinWait();
            }
            long startNs = System.nanoTime();
            start.await();
            List<Taken> taken = new ArrayList<>();
            for (Future<Taken> future : futures) {
                taken.add(future.get());
            }
            check(one, subject.increases(), taken);
            long endNs = taken.stream().mapToLong(Taken::endNs).max().getAsLong();
            return (double) (endNs - startNs) / ((double) one.ids() * one.threads());
        } finally {
            threads.shutdown();
        }
    }

    private static String spread(String form, double median, double min, double max) {
        return String.format(Locale.ROOT,
                "{\"median\": " + form + ", \"min\": " + form + ", \"max\": " + form + "}",
                median, min, max);
    }

    private static String json(Case one, double[] rounds) {
        Arrays.sort(rounds);
        double median = (rounds[(rounds.length - 1) / 2] + rounds[rounds.length / 2]) / 2;
        double min = rounds[0];
        double max = rounds[rounds.length - 1];
        return String.format(Locale.ROOT,
                "  {\"name\": \"%s\", \"threads\": %d, \"batch\": 1, \"ns_per_id\": %s, "
                        + "\"ids_per_s\": %s}",
                one.name(), one.threads(), spread("%.3f", median, min, max),
                spread("%.0f", 1e9 / median, 1e9 / max, 1e9 / min));
    }

    private static int parseRounds(String[] args) {
        if (args.length == 2 && args[0].equals("--rounds") && args[1].matches("[0-9]{1,5}")) {
            int rounds = Integer.parseInt(args[1]);
            if (rounds >= 1 && rounds <= MAX_ROUNDS) {
                return rounds;
            }
        }
        return -1;
    }

    public static void main(String[] args) throws Exception {
        int rounds = parseRounds(args);
        if (rounds < 0) {
            System.err.println("Bench: use --rounds N, 1 to " + MAX_ROUNDS);
            System.exit(2);
        }
        double[][] nsPerId = new double[CASES.size()][rounds];
        for (int round = -WARM_UP_RUNS; round < rounds; round++) {
            for (int i = 0; i < CASES.size(); i++) {
                double ns = nsPerId(CASES.get(i));
                if (round >= 0) {
                    nsPerId[i][round] = ns;
                }
            }
        }
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < CASES.size(); i++) {
            lines.add(json(CASES.get(i), nsPerId[i]));
        }
        System.out.println("{\"rounds\": " + rounds + ", \"cases\": [");
        System.out.println(String.join(",\n", lines));
        System.out.println("]}");
    }
}
