package peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One consumer in a process of its own. It prints what it is assigned and what it reads, commits after every poll,
 * and takes orders on standard input: "pause MILLISECONDS" (stay away from poll that long) and "leave".
 */
final class Member {
    static final int SESSION_MS = 6000;
    static final int POLL_MS = 5000;
    /** The session of a static member: a busy machine may take that long to start a JVM again. */
    static final int RESTART_MS = 45_000;

    private Member() {}

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String topic = args[1];
        String group = args[2];
        String assignor = args[3];
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        int session = SESSION_MS;
        if (args.length > 4) {
            p.put("group.instance.id", args[4]);
            session = RESTART_MS;
        }
        if (assignor.equals("consumer")) { // the broker assigns, and has the session time-out
            p.put("group.protocol", "consumer");
        } else {
            p.put("partition.assignment.strategy", assignor);
            p.put("session.timeout.ms", String.valueOf(session));
            p.put("heartbeat.interval.ms", "500");
        }
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("max.poll.interval.ms", String.valueOf(POLL_MS));
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        BlockingQueue<String> orders = orders();
        while (!live(p, topic, orders)) {
            say("again");
        }
        say("closed");
    }

    /**
     * One consumer's life. It is false when it died of a fault of the 4.2.0 client: with records fetched and not yet
     * polled when the poll clock of the consumer protocol runs out, the next poll may throw "No current assignment for
     * partition". An application begins anew then, and so does this one.
     */
    private static boolean live(Properties p, String topic, BlockingQueue<String> orders) throws Exception {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(topic), new Listener(consumer));
            loop(consumer, orders);
            return true;
        } catch (IllegalStateException e) {
            boolean known = "consumer".equals(p.get("group.protocol"));
            if (!known || e.getMessage() == null || !e.getMessage().startsWith("No current assignment for partition")) {
                throw e;
            }
            System.err.println("a fault of this client, a new one takes its place: " + e.getMessage());
            return false;
        }
    }

    private static void loop(KafkaConsumer<String, String> consumer, BlockingQueue<String> orders) throws Exception {
        while (true) {
            String order = orders.poll();
            if (order != null && order.startsWith("pause ")) {
                Thread.sleep(Long.parseLong(order.substring(6)));
            } else if (order != null) {
                return;
            }
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            for (ConsumerRecord<String, String> r : records) {
                say("record " + r.partition() + " " + r.offset() + " " + r.value());
            }
            if (records.isEmpty()) {
                continue;
            }
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException | RetriableCommitFailedException e) {
                say("uncommitted " + e.getClass().getSimpleName());
            }
        }
    }

    private static BlockingQueue<String> orders() {
        BlockingQueue<String> orders = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    orders.add(line);
                }
            } catch (java.io.IOException e) {
                say("error " + e);
            }
            orders.add("leave");
        });
        reader.setDaemon(true);
        reader.start();
        return orders;
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private record Listener(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> parts) {
            say("assigned" + text(parts));
            say("generation " + consumer.groupMetadata().generationId());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> parts) {
            say("revoked" + text(parts));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> parts) {
            say("lost" + text(parts));
        }

        private static String text(Collection<TopicPartition> parts) {
            StringBuilder b = new StringBuilder();
            parts.stream().mapToInt(TopicPartition::partition).sorted().forEach(n -> b.append(' ').append(n));
            return b.toString();
        }
    }
}
