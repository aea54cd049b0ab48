package peers;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java producer and consumer against a broker. Three members share six partitions; one stays away from poll past
 * its interval, one is restarted as a static member, one is killed. Every record must be seen, none twice unless its
 * commit was refused or its reader killed, and at the end the committed offsets must be the ends of the log.
 *
 * <p>Arguments: HOST:PORT range|cooperative-sticky|consumer. The last is the consumer protocol, for which the broker
 * should have a group.consumer.session.timeout.ms that a restart fits in, and no more than 30000.
 */
final class Groups {
    private static final int PARTITIONS = 6;
    private static final long PATIENCE_MS = 60_000;
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "consumer", "consumer");

    private final String bootstrap;
    private final String assignor;
    private final boolean cooperative;
    private final String topic;
    private final String group;
    private final Admin admin;
    private final Map<String, Integer> seen = new HashMap<>();
    private final Map<String, Set<Integer>> owned = new TreeMap<>();
    private final Map<String, Integer> generation = new TreeMap<>();
    private final Set<String> lost = new HashSet<>();
    private int uncommitted;
    private int produced;

    private Groups(String bootstrap, String assignor) {
        this.bootstrap = bootstrap;
        this.assignor = ASSIGNORS.get(assignor);
        this.cooperative = !assignor.equals("range");
        String run = UUID.randomUUID().toString().substring(0, 8);
        this.topic = "java-" + assignor + "-" + run;
        this.group = "java-group-" + assignor + "-" + run;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2 || !ASSIGNORS.containsKey(args[1])) {
            throw new IllegalArgumentException("arguments: HOST:PORT range|cooperative-sticky|consumer");
        }
        Groups run = new Groups(args[0], args[1]);
        try {
            run.go();
        } finally {
            Child.killAll();
            run.admin.close();
        }
    }

    private void go() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            produce(600, codec);
        }
        Child a = join("a");
        Child b = join("b");
        Child c = join("c", "instance-c");
        until("three members share six partitions", () -> shared("a", "b", "c"));
        until("3,000 records of five codecs seen", this::allSeen);

        b.order("pause " + (Member.POLL_MS + 4000));
        until("one stays away past its poll interval, two share", () -> shared("a", "c"));
        produce(1200, "none");
        until("4,200 records seen", this::allSeen);
        until("it comes back, three share", () -> lost.contains("b") && shared("a", "b", "c"));
        check(twice() == 0 || uncommitted > 0, twice() + " records seen twice although every commit was acknowledged");

        until("the group has settled", () -> settled("a", "b", "c") && shared("a", "b", "c"));
        Set<Integer> before = partitions("c");
        int at = generation("a");
        c.leave();
        forget("c");
        c = join("c", "instance-c");
        until("a static member is restarted and has its partitions again", () -> partitions("c").equals(before));
        // In the consumer protocol each member has an epoch of its own, and says it only when it is assigned something.
        check(assignor.equals("consumer") || generation("c") == at && generation("a") == at,
                "a restarted static member made a new generation");

        a.kill();
        forget("a");
        produce(1200, "zstd");
        until("one is killed, two share after its session", () -> shared("b", "c"));
        until("5,400 records seen", this::allSeen);

        b.leave();
        c.leave();
        admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(
                List.of(new MemberToRemove("instance-c")))).all().get();
        Map<Integer, Long> ends = ends();
        Map<Integer, Long> committed = committed();
        check(ends.equals(committed), "committed " + committed + ", but the log ends at " + ends);
        System.out.println("  committed offsets are the ends of the log");
        admin.deleteConsumerGroups(List.of(group)).all().get();
        admin.deleteTopics(List.of(topic)).all().get();
        System.out.println("  group and topic deleted");
    }

    /** Whether no rebalance goes on, for the broker and, in a classic group, for the members. */
    private boolean settled(String... names) {
        try {
            ConsumerGroupDescription d = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            return d.groupState() == GroupState.STABLE && d.members().size() == names.length
                    && (assignor.equals("consumer") || Stream.of(names).mapToInt(this::generation).distinct().count() == 1);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private void produce(int n, String codec) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("compression.type", codec);
        p.put("acks", "all");
        p.put("linger.ms", "5");
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            Future<RecordMetadata> last = null;
            for (int end = produced + n; produced < end; produced++) {
                last = producer.send(new ProducerRecord<>(topic, produced % PARTITIONS, "k" + produced, "v" + produced), (m, e) -> {
                    if (e != null) {
                        System.out.println("  not produced: " + e);
                    }
                });
            }
            last.get();
        }
    }

    private Child join(String name, String... instance) throws Exception {
        String[] args = instance.length == 0
                ? new String[] {bootstrap, topic, group, assignor}
                : new String[] {bootstrap, topic, group, assignor, instance[0]};
        return new Child(name, line -> hear(name, line), Member.class, args);
    }

    private synchronized void hear(String name, String line) {
        String[] w = line.split(" ");
        Set<Integer> parts = owned.computeIfAbsent(name, n -> new TreeSet<>());
        switch (w[0]) {
            case "record" -> seen.merge(w[3], 1, Integer::sum);
            case "assigned" -> {
                if (!cooperative) {
                    parts.clear();
                }
                IntStream.range(1, w.length).forEach(i -> parts.add(Integer.valueOf(w[i])));
            }
            case "revoked" -> IntStream.range(1, w.length).forEach(i -> parts.remove(Integer.valueOf(w[i])));
            case "lost" -> {
                parts.clear();
                lost.add(name);
            }
            case "generation" -> generation.put(name, Integer.valueOf(w[1]));
            case "uncommitted" -> uncommitted++;
            case "closed" -> { }
            default -> System.out.println("  " + name + ": " + line);
        }
    }

    private synchronized void forget(String name) {
        owned.remove(name);
        generation.remove(name);
    }

    private synchronized Set<Integer> partitions(String name) {
        return new TreeSet<>(owned.getOrDefault(name, Set.of()));
    }

    private synchronized int generation(String name) {
        return generation.getOrDefault(name, -1);
    }

    private synchronized boolean allSeen() {
        return seen.size() == produced;
    }

    private synchronized long twice() {
        return seen.values().stream().filter(n -> n > 1).count();
    }

    /** Whether these members own all partitions, equally many each, none twice. */
    private synchronized boolean shared(String... names) {
        Set<Integer> all = new TreeSet<>();
        int sum = 0;
        for (String n : names) {
            Set<Integer> parts = owned.getOrDefault(n, Set.of());
            if (parts.size() != PARTITIONS / names.length) {
                return false; // they move still
            }
            all.addAll(parts);
            sum += parts.size();
        }
        return sum == PARTITIONS && all.size() == PARTITIONS;
    }

    private void until(String what, BooleanSupplier condition) throws InterruptedException {
        for (long end = System.currentTimeMillis() + PATIENCE_MS; System.currentTimeMillis() < end; Thread.sleep(50)) {
            if (condition.getAsBoolean()) {
                System.out.println("  " + what);
                return;
            }
        }
        synchronized (this) {
            throw new IllegalStateException("not within 60 s: " + what + "; owned " + owned + ", generations " + generation
                    + ", lost by " + lost + ", " + seen.size() + " of " + produced + " records seen");
        }
    }

    private static void check(boolean good, String otherwise) {
        if (!good) {
            throw new IllegalStateException(otherwise);
        }
    }

    private Map<Integer, Long> ends() throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        IntStream.range(0, PARTITIONS).forEach(p -> ask.put(new TopicPartition(topic, p), OffsetSpec.latest()));
        Map<Integer, Long> ends = new TreeMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResultInfo> e : admin.listOffsets(ask).all().get().entrySet()) {
            ends.put(e.getKey().partition(), e.getValue().offset());
        }
        return ends;
    }

    private Map<Integer, Long> committed() throws Exception {
        Map<Integer, Long> committed = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .forEach((tp, o) -> committed.put(tp.partition(), o.offset()));
        return committed;
    }
}
