package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.tools.VerifiableConsumer;
import org.apache.kafka.tools.VerifiableProducer;

/**
 * Kafka's own VerifiableProducer and VerifiableConsumer, as its system tests use them: 3,000 records while the group
 * changes. Every record must be consumed, none twice unless its commit was refused or its reader killed, and the
 * committed offsets must be the ends of the log.
 *
 * <p>Arguments: HOST:PORT MODE ..., where a mode is range, cooperative, static, killed, consumer (the consumer
 * protocol) or upgrade (members of the classic protocol are replaced, one by one, by members of the consumer protocol).
 */
final class Verifiable {
    private static final int PARTITIONS = 6;
    private static final int RECORDS = 3000;
    private static final long PATIENCE_MS = 60_000;
    private static final String COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final String mode;
    private final String topic;
    private final String group;
    private final Admin admin;
    private final Map<String, Set<Integer>> owned = new TreeMap<>();
    private final Map<String, Integer> revocations = new TreeMap<>();
    /** For each partition: how often an offset was seen. */
    private final Map<Integer, Map<Long, Integer>> seen = new TreeMap<>();
    private final Map<Integer, Long> acknowledged = new HashMap<>();
    private final Map<String, Set<String>> consumedBy = new HashMap<>();
    private int produced;
    private int notProduced;
    private int refusedCommits;

    private Verifiable(String bootstrap, String mode, Admin admin) {
        this.bootstrap = bootstrap;
        this.mode = mode;
        this.admin = admin;
        String run = UUID.randomUUID().toString().substring(0, 8);
        this.topic = "verifiable-" + mode + "-" + run;
        this.group = "verifiable-group-" + mode + "-" + run;
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 2) {
            throw new IllegalArgumentException("arguments: HOST:PORT MODE ...");
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            for (String mode : List.of(args).subList(1, args.length)) {
                new Verifiable(args[0], mode, admin).go();
            }
        } finally {
            Child.killAll();
        }
    }

    private void go() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        switch (mode) {
            case "range" -> change("--session-timeout", "10000");
            case "cooperative" -> change("--session-timeout", "10000", "--assignment-strategy", COOPERATIVE);
            case "consumer" -> change("--group-protocol", "consumer");
            case "static" -> restarted();
            case "killed" -> killed();
            case "upgrade" -> upgraded();
            default -> throw new IllegalArgumentException("unknown mode " + mode);
        }
        Map<Integer, Long> ends = ends();
        Map<Integer, Long> committed = committed();
        check(committed.equals(ends), "committed " + committed + ", but the log ends at " + ends);
        admin.deleteConsumerGroups(List.of(group)).all().get();
        admin.deleteTopics(List.of(topic)).all().get();
        System.out.printf("  %s: committed offsets are the ends of the log; %d commits refused, %d records consumed twice%n",
                mode, refusedCommits, twice());
    }

    /** A third member joins, the first leaves. */
    private void change(String... options) throws Exception {
        Child a = join("a", options);
        Child b = join("b", options);
        until("two share six partitions", () -> shared("a", "b"));
        Child producer = produce();
        Child c = join("c", options);
        until("a third joins, three share", () -> shared("a", "b", "c"));
        leave(a);
        until("one leaves, two share", () -> shared("b", "c"));
        finish(producer, b, c);
    }

    private void restarted() throws Exception {
        Child a = join("a", "--session-timeout", "30000", "--group-instance-id", "instance-a");
        Child b = join("b", "--session-timeout", "30000", "--group-instance-id", "instance-b");
        until("two static members share six partitions", () -> shared("a", "b"));
        Child producer = produce();
        Set<Integer> before = partitions("b");
        int disturbed = revocations("a");
        leave(b);
        b = join("b", "--session-timeout", "30000", "--group-instance-id", "instance-b");
        until("one is restarted and has its partitions again", () -> partitions("b").equals(before));
        check(revocations("a") == disturbed, "the restart of a static member took partitions from the other");
        await(producer);
        a.terminate();
        b.terminate();
        admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions()).all().get();
    }

    private void killed() throws Exception {
        Child a = join("a", "--session-timeout", "6000");
        Child b = join("b", "--session-timeout", "6000");
        Child c = join("c", "--session-timeout", "6000");
        until("three share six partitions", () -> shared("a", "b", "c"));
        Child producer = produce();
        until("all three consume", () -> consuming("a") && consuming("b") && consuming("c"));
        a.kill();
        // Its last commit may have come to the broker, and the news of that not to us.
        Map<Integer, Long> last = committed();
        synchronized (this) {
            last.forEach((partition, offset) -> acknowledged.merge(partition, offset, Math::max));
        }
        forget("a");
        until("one is killed, two share after its session", () -> shared("b", "c"));
        finish(producer, b, c);
    }

    private void upgraded() throws Exception {
        Child a = join("a", "--session-timeout", "10000");
        Child b = join("b", "--session-timeout", "10000");
        until("two members of the classic protocol share six partitions", () -> shared("a", "b"));
        check(type().equals("Classic"), "the group is of type " + type());
        Child producer = produce();
        Child c = join("c", "--group-protocol", "consumer");
        until("one of the consumer protocol joins, three share", () -> shared("a", "b", "c"));
        check(type().equals("Consumer"), "the group is of type " + type());
        leave(a);
        Child d = join("d", "--group-protocol", "consumer");
        until("the first is replaced, three share", () -> shared("b", "c", "d"));
        leave(b);
        until("the second leaves, two share", () -> shared("c", "d"));
        finish(producer, c, d);
    }

    // ---- programs ----

    private Child join(String name, String... options) throws IOException {
        List<String> args = new ArrayList<>(List.of("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"));
        args.addAll(List.of(options));
        synchronized (this) {
            owned.put(name, new TreeSet<>());
        }
        return new Child(name, line -> heard(name, line), VerifiableConsumer.class, args.toArray(String[]::new));
    }

    private Child produce() throws IOException {
        return new Child("producer", line -> heard("producer", line), VerifiableProducer.class, "--bootstrap-server", bootstrap,
                "--topic", topic, "--max-messages", Integer.toString(RECORDS), "--throughput", "400", "--acks", "-1", "--repeating-keys", "100");
    }

    private void leave(Child member) throws InterruptedException {
        member.terminate();
        forget(member.name);
    }

    private void finish(Child producer, Child... members) throws Exception {
        await(producer);
        for (Child m : members) {
            m.terminate();
        }
    }

    private void await(Child producer) throws Exception {
        until(RECORDS + " records produced", () -> produced == RECORDS || notProduced > 0);
        check(notProduced == 0, notProduced + " records were not produced");
        producer.terminate();
        until("every record consumed", () -> distinct() == RECORDS);
        produceLast();
        until("every offset committed", () -> distinct() == RECORDS + PARTITIONS && allAcknowledged());
        check(twice() == 0 || refusedCommits > 0, twice() + " records consumed twice although every commit was acknowledged");
    }

    /** One more record in each partition: the tool does not try again to commit what was refused during a rebalance. */
    private void produceLast() throws Exception {
        try (KafkaProducer<String, String> last = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap),
                new StringSerializer(), new StringSerializer())) {
            for (int p = 0; p < PARTITIONS; p++) {
                last.send(new ProducerRecord<>(topic, p, null, "last")).get();
            }
        }
    }

    /** Takes one event of a program. A killed program's last line may be cut off. */
    private synchronized void heard(String name, String line) {
        JsonNode event;
        try {
            event = JSON.readTree(line);
        } catch (IOException e) {
            return;
        }
        switch (event.path("name").asText()) {
            case "producer_send_success" -> produced++;
            case "producer_send_error" -> notProduced++;
            case "partitions_assigned" -> event.path("partitions").forEach(p -> owned.get(name).add(p.path("partition").asInt()));
            case "partitions_revoked" -> {
                event.path("partitions").forEach(p -> owned.get(name).remove(p.path("partition").asInt()));
                revocations.merge(name, event.path("partitions").size(), Integer::sum);
            }
            case "record_data" -> {
                int partition = event.path("partition").asInt();
                long offset = event.path("offset").asLong();
                seen.computeIfAbsent(partition, p -> new TreeMap<>()).merge(offset, 1, Integer::sum);
                consumedBy.computeIfAbsent(name, n -> new TreeSet<>()).add(partition + "/" + offset);
            }
            case "offsets_committed" -> committed(event);
            default -> { }
        }
    }

    private void committed(JsonNode event) {
        if (!event.path("success").asBoolean()) {
            refusedCommits++;
            return;
        }
        event.path("offsets").forEach(o -> acknowledged.merge(o.path("partition").asInt(), o.path("offset").asLong(), Math::max));
    }

    // ---- what was heard ----

    /** Forgets a member that is gone; what it consumed and had not committed will rightly be consumed again. */
    private synchronized void forget(String name) {
        owned.remove(name);
        for (String at : consumedBy.getOrDefault(name, Set.of())) {
            int partition = Integer.parseInt(at.substring(0, at.indexOf('/')));
            long offset = Long.parseLong(at.substring(at.indexOf('/') + 1));
            if (offset >= acknowledged.getOrDefault(partition, 0L)) {
                seen.get(partition).merge(offset, -1, (had, one) -> had + one == 0 ? null : had + one);
            }
        }
    }

    private synchronized boolean shared(String... members) {
        Set<Integer> all = new TreeSet<>();
        int sum = 0;
        for (String m : members) {
            Set<Integer> mine = owned.get(m);
            if (mine == null || mine.size() != PARTITIONS / members.length) {
                return false;
            }
            all.addAll(mine);
            sum += mine.size();
        }
        return sum == PARTITIONS && all.size() == PARTITIONS && owned.size() == members.length;
    }

    private synchronized Set<Integer> partitions(String member) {
        return new TreeSet<>(owned.getOrDefault(member, Set.of()));
    }

    private synchronized int revocations(String member) {
        return revocations.getOrDefault(member, 0);
    }

    private synchronized boolean consuming(String member) {
        return consumedBy.containsKey(member);
    }

    private synchronized int distinct() {
        return seen.values().stream().mapToInt(Map::size).sum();
    }

    private synchronized int twice() {
        return (int) seen.values().stream().flatMap(m -> m.values().stream()).filter(n -> n > 1).count();
    }

    private synchronized boolean allAcknowledged() {
        return acknowledged.values().stream().mapToLong(Long::longValue).sum() == RECORDS + PARTITIONS;
    }

    private String type() throws Exception {
        return admin.listGroups().all().get().stream().filter(g -> g.groupId().equals(group))
                .map(g -> g.type().map(Object::toString).orElse("unknown")).findFirst().orElse("none");
    }

    private Map<Integer, Long> ends() throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        for (int p = 0; p < PARTITIONS; p++) {
            ask.put(new TopicPartition(topic, p), OffsetSpec.latest());
        }
        Map<Integer, Long> ends = new TreeMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResultInfo> e : admin.listOffsets(ask).all().get().entrySet()) {
            ends.put(e.getKey().partition(), e.getValue().offset());
        }
        return ends;
    }

    private Map<Integer, Long> committed() throws Exception {
        Map<Integer, Long> committed = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((p, o) -> committed.put(p.partition(), o.offset()));
        return committed;
    }

    private void until(String what, BooleanSupplier holds) throws InterruptedException {
        long began = System.nanoTime();
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() - began > PATIENCE_MS * 1_000_000) {
                synchronized (this) {
                    throw new IllegalStateException(mode + ": not within " + PATIENCE_MS + " ms: " + what + "; owned " + owned + ", produced "
                            + produced + ", consumed " + distinct() + ", acknowledged " + acknowledged);
                }
            }
            Thread.sleep(20);
        }
        System.out.printf("  %s: %s (%d ms)%n", mode, what, (System.nanoTime() - began) / 1_000_000);
    }

    private void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(mode + ": " + otherwise);
        }
    }
}
