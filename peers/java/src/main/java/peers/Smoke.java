package peers;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.streams.tests.SmokeTestDriver;
import org.apache.kafka.streams.tests.StreamsSmokeTest;

/**
 * Kafka Streams' own smoke test, as Kafka's system tests use it: its driver writes numbers, its client computes minima,
 * maxima, sums, counts, windows, suppressed windows, joins and a repartitioned aggregate of them, and the driver reads
 * all results and judges them. Two clients run, a third joins while numbers flow, one that computes is killed, another
 * closes.
 *
 * <p>The guarantee is at-least-once. After a kill records are processed again then, and the driver, which is told the
 * guarantee, lets sums and counts be too high and does not judge averages and the aggregate; minima, maxima, their
 * difference and that each suppressed window gives one result it judges as ever. Numbers flow for less than the 30 s of
 * grace of the small windows, so that a kill comes before any suppressed result.
 *
 * <p>Arguments: HOST:PORT classic|streams DIR.
 */
final class Smoke {
    private static final int KEYS = 10;
    private static final int RECORDS_PER_KEY = 800;
    private static final int PARTITIONS = 3;
    private static final Duration FLOW = Duration.ofSeconds(24);
    private static final long PATIENCE_MS = 90_000;
    private static final String TOO_BUSY = "the numbers were over before the first client could be killed: the machine is too busy";

    private final String bootstrap;
    private final String protocol;
    private final Path dir;
    private final PrintStream out = System.out;
    private final Map<String, String> states = new TreeMap<>();
    private final Map<String, Long> processed = new TreeMap<>();
    private String broken;

    private Smoke(String bootstrap, String protocol, Path dir) {
        this.bootstrap = bootstrap;
        this.protocol = protocol;
        this.dir = dir;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            throw new IllegalArgumentException("arguments: HOST:PORT classic|streams DIR");
        }
        try {
            new Smoke(args[0], args[1], Files.createDirectories(Path.of(args[2]))).go();
        } finally {
            Child.killAll();
        }
    }

    private void go() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(Stream.of(SmokeTestDriver.topics()).map(t -> new NewTopic(t, PARTITIONS, (short) 1)).toList()).all().get();
        }
        Map<String, Child> clients = new TreeMap<>(Map.of("a", client("a"), "b", client("b")));
        until("two clients run", () -> runs("a") && runs("b"));
        Path log = dir.resolve("driver.log");
        try (PrintStream driver = new PrintStream(Files.newOutputStream(log))) {
            System.setOut(driver); // what the driver says while it works would fill the log of the step
            CompletableFuture<Map<String, Set<Integer>>> numbers = CompletableFuture.supplyAsync(
                    () -> SmokeTestDriver.generate(bootstrap, KEYS, RECORDS_PER_KEY, FLOW));
            clients.put("c", client("c"));
            until("a third joins while numbers flow", () -> runs("c"));
            Map<String, Long> before = processed();
            until("one is seen to compute", () -> busy(before) != null || numbers.isDone());
            require(!numbers.isDone(), "the numbers were over before a client could be killed: the machine is too busy");
            String victim = busy(before);
            clients.remove(victim).kill();
            out.println("  that one, " + victim + ", is killed");
            Map<String, Set<Integer>> written = numbers.get();
            close(clients, clients.keySet().iterator().next());
            out.println("  all numbers are written, a second client has closed");
            boolean passed = SmokeTestDriver.verify(bootstrap, written, RECORDS_PER_KEY, false).passed();
            driver.flush();
            List<String> said = Files.readAllLines(log);
            List<String> verdict = said.subList(Math.max(0, said.lastIndexOf("Result Verification")), said.size());
            verdict.forEach(l -> out.println("  " + l));
            require(passed && verdict.contains("ALL-RECORDS-DELIVERED") && verdict.contains("SUCCESS"), "the driver does not say SUCCESS");
            close(clients, clients.keySet().iterator().next());
        } finally {
            System.setOut(out);
        }
        require(broken == null, broken);
    }

    private Child client(String name) throws IOException {
        List<String> settings = new ArrayList<>(List.of("bootstrap.servers=" + bootstrap, "processing.guarantee=at_least_once",
                "group.protocol=" + protocol, "num.stream.threads=2", "replication.factor=1", "commit.interval.ms=500",
                "state.dir=" + dir.resolve("state-" + name)));
        if (protocol.equals("classic")) { // in the streams protocol these are the broker's
            settings.addAll(List.of("consumer.session.timeout.ms=6000", "consumer.heartbeat.interval.ms=500"));
        }
        Path properties = Files.write(dir.resolve(name + ".properties"), settings);
        return new Child(name, line -> hear(name, line), List.of("-Xmx256m"), StreamsSmokeTest.class, properties.toString(), "process");
    }

    private synchronized void hear(String name, String line) {
        if (line.contains("-> RUNNING")) {
            states.put(name, "running");
        } else if (line.endsWith("SMOKE-TEST-CLIENT-CLOSED")) {
            states.put(name, "closed");
        } else if (line.contains("SMOKE-TEST-CLIENT-EXCEPTION")) {
            broken = line;
            out.println("  " + name + ": " + line);
        } else if (line.contains("processed ")) {
            processed.merge(name, 1L, Long::sum);
        }
    }

    private synchronized boolean runs(String name) {
        return "running".equals(states.get(name));
    }

    private synchronized Map<String, Long> processed() {
        return new TreeMap<>(processed);
    }

    /** A client that has said since then that it computes. */
    private String busy(Map<String, Long> before) {
        return processed().entrySet().stream().filter(e -> e.getValue() > before.getOrDefault(e.getKey(), 0L))
                .map(Map.Entry::getKey).findFirst().orElse(null);
    }

    private void close(Map<String, Child> clients, String name) throws InterruptedException {
        clients.remove(name).terminate();
        synchronized (this) {
            require("closed".equals(states.get(name)), name + " did not close well: " + states.get(name));
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    private void until(String what, BooleanSupplier holds) throws InterruptedException {
        long began = System.nanoTime();
        while (!holds.getAsBoolean()) {
            synchronized (this) {
                require(broken == null, broken);
                require(System.nanoTime() - began < PATIENCE_MS * 1_000_000, "not within " + PATIENCE_MS + " ms: " + what + "; " + states + ", " + processed);
            }
            Thread.sleep(50);
        }
        out.printf("  %s (%d ms)%n", what, (System.nanoTime() - began) / 1_000_000);
    }
}
