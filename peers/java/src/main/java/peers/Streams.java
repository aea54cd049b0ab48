package peers;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka Streams 4.2.0 against a broker: two instances of {@link Advice} with two threads each; the second joins while
 * records flow, the first is killed, the second closes. Every result must be there, and everything must be committed.
 * Counts may be too high after the kill, for it is at-least-once.
 *
 * <p>Arguments: HOST:PORT [classic|streams [stateless|stateful]]
 */
final class Streams {
    private static final int PARTITIONS = 6;
    private static final long PATIENCE_MS = 90_000;

    private final String bootstrap;
    private final String protocol;
    private final String kind;
    private final String app;
    private final String source;
    private final String sink;
    private final Path dir;
    private final Admin admin;
    private final KafkaConsumer<String, String> results;
    private final Map<String, String> state = new HashMap<>();
    private final Set<String> seen = new HashSet<>();
    private final Map<String, Long> counts = new HashMap<>();
    private int produced;

    private Streams(String bootstrap, String protocol, String kind) throws Exception {
        this.bootstrap = bootstrap;
        this.protocol = protocol;
        this.kind = kind;
        this.app = "advice-" + UUID.randomUUID().toString().substring(0, 8);
        this.source = app + "-in";
        this.sink = app + "-out";
        this.dir = Files.createTempDirectory(app);
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        admin.createTopics(List.of(
                new NewTopic(source, PARTITIONS, (short) 1), new NewTopic(sink, PARTITIONS, (short) 1))).all().get();
        this.results = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest"),
                new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> all = new ArrayList<>();
        IntStream.range(0, PARTITIONS).forEach(n -> all.add(new TopicPartition(sink, n)));
        results.assign(all);
        results.seekToBeginning(all);
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 1 || args.length > 3) {
            throw new IllegalArgumentException("arguments: HOST:PORT [classic|streams [stateless|stateful]]");
        }
        Streams run = new Streams(args[0], args.length > 1 ? args[1] : "classic", args.length > 2 ? args[2] : "stateless");
        try {
            run.go();
        } finally {
            Child.killAll();
            run.results.close();
            run.admin.close();
            try (Stream<Path> files = Files.walk(run.dir)) {
                for (Path p : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(p);
                }
            }
        }
    }

    private void go() throws Exception {
        produce(3000);
        Child one = instance("one");
        until("one instance has done 3,000 records", this::done);
        Child two = instance("two");
        until("a second instance joins, both run", () -> running("one") && running("two") && members() == 4);
        produce(3000);
        until("6,000 records done", this::done);
        one.kill();
        produce(3000);
        until("one instance is killed, 9,000 records done", this::done);
        two.leave();
        Map<Integer, Long> ends = ends();
        Map<Integer, Long> committed = committed();
        if (!ends.equals(committed)) {
            throw new IllegalStateException("committed " + committed + ", but the log ends at " + ends);
        }
        System.out.println("  committed offsets are the ends of the log");
        admin.deleteTopics(admin.listTopics().names().get().stream().filter(t -> t.startsWith(app)).toList()).all().get();
    }

    private void produce(int n) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int end = produced + n; produced < end; produced++) {
                producer.send(new ProducerRecord<>(source, "k" + produced % 100, "v" + produced));
            }
            producer.flush();
        }
    }

    private Child instance(String name) throws Exception {
        return new Child(name, line -> hear(name, line), Advice.class,
                bootstrap, app, source, sink, dir.resolve(name).toString(), protocol, kind);
    }

    private synchronized void hear(String name, String line) {
        if (line.startsWith("state ")) {
            state.put(name, line.substring(6));
        } else {
            System.out.println("  " + name + ": " + line);
        }
    }

    private synchronized boolean running(String name) {
        return "RUNNING".equals(state.get(name));
    }

    private int members() {
        try {
            if (protocol.equals("streams")) {
                return admin.describeStreamsGroups(List.of(app)).all().get().get(app).members().size();
            }
            return (int) admin.describeClassicGroups(List.of(app)).all().get().get(app).members().stream()
                    .filter(m -> !m.host().isEmpty()).count();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether all the results of what was produced so far are there: two for each record whose number 3 does not divide. */
    private boolean done() {
        if (kind.equals("stateful")) {
            for (ConsumerRecord<String, String> r : results.poll(Duration.ofMillis(100))) {
                counts.merge(r.key(), Long.parseLong(r.value()), Math::max);
            }
            return counts.size() == 100 && counts.values().stream().allMatch(n -> n >= produced / 100);
        }
        for (ConsumerRecord<String, String> r : results.poll(Duration.ofMillis(100))) {
            seen.add(r.value());
            if (!r.key().startsWith(r.value().substring(0, 1))) {
                throw new IllegalStateException("result " + r.value() + " has the key " + r.key());
            }
        }
        return seen.size() == 2 * (int) IntStream.range(0, produced).filter(n -> n % 3 != 0).count();
    }

    private void until(String what, BooleanSupplier condition) throws InterruptedException {
        for (long end = System.currentTimeMillis() + PATIENCE_MS; System.currentTimeMillis() < end; Thread.sleep(50)) {
            if (condition.getAsBoolean()) {
                System.out.println("  " + what);
                return;
            }
        }
        synchronized (this) {
            throw new IllegalStateException("not within 90 s: " + what + "; states " + state + ", " + seen.size()
                    + " results and counts " + counts + " of " + produced + " records");
        }
    }

    private Map<Integer, Long> ends() throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        IntStream.range(0, PARTITIONS).forEach(p -> ask.put(new TopicPartition(source, p), OffsetSpec.latest()));
        Map<Integer, Long> ends = new TreeMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResultInfo> e : admin.listOffsets(ask).all().get().entrySet()) {
            ends.put(e.getKey().partition(), e.getValue().offset());
        }
        return ends;
    }

    private Map<Integer, Long> committed() throws Exception {
        Map<Integer, Long> committed = new TreeMap<>();
        admin.listConsumerGroupOffsets(app).partitionsToOffsetAndMetadata().get()
                .forEach((tp, o) -> {
                    if (tp.topic().equals(source)) {
                        committed.put(tp.partition(), o.offset());
                    }
                });
        return committed;
    }
}
