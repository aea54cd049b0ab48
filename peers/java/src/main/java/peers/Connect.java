package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.ClassicGroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.file.FileStreamSinkConnector;
import org.apache.kafka.connect.file.FileStreamSourceConnector;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.StringConverter;

/**
 * Kafka Connect 4.2.0 in distributed mode: two workers carry the lines of two files through two topics into two other
 * files, and one worker is killed in the middle. No line may be lost; what ran on the killed worker must run on the
 * other; the topics in which Connect keeps its configs, offsets and status must be compacted; and "rondo groups" must
 * show the group of the workers.
 *
 * <p>Arguments: HOST:PORT RONDO causes|plain DIR: the command under test, whether the broker keeps the causes of
 * rebalances, and where files and logs go.
 */
final class Connect {
    private static final int LINES = 3000;
    private static final int FIRST = 500;
    private static final long PATIENCE_MS = 90_000;
    private static final Pattern LINE = Pattern.compile("<(\\d{6})>");
    private static final ObjectMapper JSON = new ObjectMapper();
    /** The kinds of converter, one for each pair of a source and a sink. */
    private static final Map<String, Class<?>> KINDS = new TreeMap<>(Map.of("text", StringConverter.class, "json", JsonConverter.class));

    private final String bootstrap;
    private final String rondo;
    private final boolean shown;
    private final Path dir;
    private final String run = UUID.randomUUID().toString().substring(0, 8);
    private final String group = "workers-" + run;
    private final Admin admin;
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final Map<String, Child> workers = new TreeMap<>();
    private final Map<String, Integer> written = new HashMap<>();

    /** What could not be asked or does not hold yet; it is tried again. */
    private static final class NotYet extends Exception {
        NotYet(String message) {
            super(message, null, false, false);
        }
    }

    private interface Condition {
        void hold() throws Exception;
    }

    private Connect(String bootstrap, String rondo, boolean shown, Path dir, Admin admin) {
        this.bootstrap = bootstrap;
        this.rondo = rondo;
        this.shown = shown;
        this.dir = dir;
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            throw new IllegalArgumentException("arguments: HOST:PORT RONDO causes|plain DIR");
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            new Connect(args[0], args[1], args[2].equals("causes"), Files.createDirectories(Path.of(args[3])), admin).go();
        } finally {
            Child.killAll();
        }
    }

    private void go() throws Exception {
        String a = work("a");
        String b = work("b");
        until("two workers are a group of the protocol type connect", () -> members(2));
        for (String kind : KINDS.keySet()) {
            append(kind, FIRST);
            create(a, "source-" + kind, FileStreamSourceConnector.class, kind, "topic", topic(kind), "file", file("in", kind).toString());
            create(b, "sink-" + kind, FileStreamSinkConnector.class, kind, "topics", topic(kind), "file", file("out", kind).toString());
        }
        until("four connectors and their tasks run, on both workers", () -> running(a, Set.of(a, b)));
        until(FIRST + " lines of each file carried", this::carried);
        show(2, "join/leave +worker-");

        Thread writer = new Thread(this::writeRest);
        writer.start();
        until("lines flow", () -> require(lines(file("out", "text")).size() > LINES / 3, "not yet"));
        workers.remove(a).kill();
        until("a worker is killed, everything runs on the other", () -> running(b, Set.of(b)));
        writer.join();
        until("all " + LINES + " lines of each file carried, none lost", this::carried);
        until("one member is left", () -> members(1));
        show(1, "session clock +worker-a");

        String c = work("c");
        until("a third worker joins and takes its share", () -> running(c, Set.of(b, c)));
        compacted(c);
        for (String kind : KINDS.keySet()) {
            call("DELETE", c, "/connectors/source-" + kind, null);
            call("DELETE", c, "/connectors/sink-" + kind, null);
        }
        until("the connectors are deleted", () -> require(call("GET", b, "/connectors", null).isEmpty(), "still there"));
        for (Child worker : workers.values()) {
            worker.terminate();
        }
        until("the workers leave", () -> members(0));
        admin.deleteConsumerGroups(List.of(group)).all().get();
        System.out.println("  the group is deleted");
    }

    // ---- workers and connectors ----

    /** Starts a worker and returns its address, which is its id in Connect. */
    private String work(String name) throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        List<String> settings = new ArrayList<>(List.of(
                "bootstrap.servers=" + bootstrap, "group.id=" + group, "client.id=worker-" + name,
                "listeners=http://127.0.0.1:" + port, "rest.advertised.host.name=127.0.0.1",
                "session.timeout.ms=6000", "heartbeat.interval.ms=1000", "scheduled.rebalance.max.delay.ms=2000",
                "offset.flush.interval.ms=500", "plugin.discovery=service_load", "offset.storage.partitions=3", "status.storage.partitions=3",
                "key.converter=" + StringConverter.class.getName(), "value.converter=" + StringConverter.class.getName(),
                // New connectors read their topics from the beginning, as is the default of Connect.
                "consumer.heartbeat.interval.ms=1000", "consumer.session.timeout.ms=6000"));
        for (String store : List.of("config", "offset", "status")) {
            settings.addAll(List.of(store + ".storage.topic=" + store(store), store + ".storage.replication.factor=1",
                    // Soon to be compacted, so that one can wait for it.
                    store + ".storage.segment.ms=500", store + ".storage.min.cleanable.dirty.ratio=0.01"));
        }
        Path properties = Files.write(dir.resolve("worker-" + name + ".properties"), settings);
        Path logging = Files.write(dir.resolve("worker-" + name + ".log4j2.properties"), List.of("status = error",
                "appender.file.type = File", "appender.file.name = FILE", "appender.file.fileName = " + dir.resolve("worker-" + name + ".log"),
                "appender.file.layout.type = PatternLayout", "appender.file.layout.pattern = %d{ISO8601} %p [%t] %m (%c)%n",
                "rootLogger.level = INFO", "rootLogger.appenderRef.file.ref = FILE"));
        String address = "127.0.0.1:" + port;
        workers.put(address, new Child(address, line -> System.out.println("  worker " + name + ": " + line),
                List.of("-Xmx256m", "-Dlog4j2.configurationFile=" + logging), ConnectDistributed.class, properties.toString()));
        return address;
    }

    private void create(String worker, String name, Class<?> connector, String kind, String... settings) throws Exception {
        ObjectNode config = JSON.createObjectNode().put("connector.class", connector.getName()).put("tasks.max", "1")
                .put("value.converter", KINDS.get(kind).getName());
        for (int i = 0; i < settings.length; i += 2) {
            config.put(settings[i], settings[i + 1]);
        }
        until(name + " created", () -> call("PUT", worker, "/connectors/" + name + "/config", config.toString()));
    }

    /** One request to the interface of a worker. Connect refuses some while its group rebalances. */
    private JsonNode call(String method, String worker, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + worker + path)).timeout(Duration.ofSeconds(30))
                .header("Content-Type", "application/json")
                .method(method, body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer;
        try {
            answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new NotYet(method + " " + path + ": " + e);
        }
        if (answer.statusCode() / 100 != 2) {
            throw new NotYet(method + " " + path + ": status " + answer.statusCode() + ": " + answer.body());
        }
        return answer.body().isEmpty() ? JSON.createObjectNode() : JSON.readTree(answer.body());
    }

    /** Whether all connectors and their tasks run, on exactly these workers. */
    private void running(String asked, Set<String> expected) throws Exception {
        JsonNode all = call("GET", asked, "/connectors?expand=status", null);
        Set<String> on = new TreeSet<>();
        int units = 0;
        for (JsonNode connector : all) {
            List<JsonNode> states = new ArrayList<>(List.of(connector.path("status").path("connector")));
            connector.path("status").path("tasks").forEach(states::add);
            for (JsonNode state : states) {
                require(state.path("state").asText().equals("RUNNING"), all.toString());
                on.add(state.path("worker_id").asText());
                units++;
            }
        }
        require(units == 4 * KINDS.size() && on.equals(expected), all.toString());
    }

    // ---- lines ----

    private String topic(String kind) {
        return "lines-" + kind + "-" + run;
    }

    private String store(String what) {
        return "connect-" + what + "-" + run;
    }

    private Path file(String side, String kind) {
        return dir.resolve(side + "-" + kind + ".txt");
    }

    private synchronized int written(String kind) {
        return written.getOrDefault(kind, 0);
    }

    private synchronized void append(String kind, int n) throws IOException {
        StringBuilder text = new StringBuilder();
        int from = written(kind);
        for (int i = from; i < from + n; i++) {
            text.append(String.format("a line <%06d>%n", i));
        }
        Files.writeString(file("in", kind), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        written.put(kind, from + n);
    }

    private void writeRest() {
        try {
            while (written("text") < LINES) {
                for (String kind : KINDS.keySet()) {
                    append(kind, 10);
                }
                Thread.sleep(50);
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The numbers of the lines in a file. A worker that is killed may leave a line without its end. */
    private static Set<Integer> lines(Path file) throws IOException {
        return Files.exists(file) ? lines(Files.readString(file, StandardCharsets.UTF_8)) : Set.of();
    }

    private static Set<Integer> lines(String text) {
        Set<Integer> lines = new TreeSet<>();
        for (Matcher m = LINE.matcher(text); m.find(); ) {
            lines.add(Integer.parseInt(m.group(1)));
        }
        return lines;
    }

    /** Whether every line that was written is in the topic of its kind and in the file of the sink. */
    private void carried() throws Exception {
        for (String kind : KINDS.keySet()) {
            int n = written(kind);
            int there = lines(file("out", kind)).size();
            require(there == n, kind + ": " + there + " of " + n + " lines are in the file of the sink");
            StringBuilder text = new StringBuilder();
            read(topic(kind)).forEach(r -> text.append(r.value()));
            there = lines(text.toString()).size();
            require(there == n, kind + ": " + there + " of " + n + " lines are in the topic");
        }
    }

    // ---- the broker ----

    private List<TopicPartition> partitions(KafkaConsumer<String, String> consumer, String topic) {
        return consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(p.topic(), p.partition())).toList();
    }

    private KafkaConsumer<String, String> consumer() {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap), new StringDeserializer(), new StringDeserializer());
    }

    private List<ConsumerRecord<String, String>> read(String topic) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer()) {
            List<TopicPartition> all = partitions(consumer, topic);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(200)).forEach(records::add);
            }
        }
        return records;
    }

    private void members(int n) throws Exception {
        require(admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)), "there is no group " + group);
        ClassicGroupDescription d = admin.describeClassicGroups(List.of(group)).all().get().get(group);
        require(d.protocol().equals("connect") && d.members().size() == n, d.toString());
        require(d.state() == (n == 0 ? ClassicGroupState.EMPTY : ClassicGroupState.STABLE), d.toString());
    }

    /** Whether the three topics of Connect are compacted topics, and the one of the offsets has been compacted. */
    private void compacted(String worker) throws Exception {
        for (String what : List.of("config", "offset", "status")) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, store(what));
            String policy = admin.describeConfigs(List.of(topic)).all().get().get(topic).get("cleanup.policy").value();
            require(policy.equals("compact"), store(what) + " has the cleanup policy " + policy);
        }
        until("the topic of the offsets is compacted", () -> {
            append("text", 10); // a segment is closed by the record that comes too late for it
            append("json", 10);
            Thread.sleep(700);
            int there = read(store("offset")).size();
            try (KafkaConsumer<String, String> consumer = consumer()) {
                List<TopicPartition> all = partitions(consumer, store("offset"));
                long ever = consumer.endOffsets(all).values().stream().mapToLong(Long::longValue).sum();
                require(there < ever / 2, there + " records are there, of " + ever);
            }
        });
        until("every line carried", this::carried);
        until("the offsets that Connect tells are the ends of the files, and the last of their topic", () -> {
            Map<String, String> last = new HashMap<>();
            read(store("offset")).forEach(r -> last.put(r.key(), r.value()));
            for (String kind : KINDS.keySet()) {
                JsonNode told = call("GET", worker, "/connectors/source-" + kind + "/offsets", null).path("offsets").path(0).path("offset");
                String kept = last.entrySet().stream().filter(e -> e.getKey().contains("source-" + kind)).map(Map.Entry::getValue).findFirst().orElse("none");
                long size = Files.size(file("in", kind));
                require(told.path("position").asLong() == size && JSON.readTree(kept).equals(told), told + " told, " + kept + " kept, the file has " + size);
            }
        });
    }

    // ---- rondo groups ----

    /** "rondo groups" shows the group with its members, and on a broker of Rondo the cause of each generation. */
    private void show(int members, String... causes) throws Exception {
        until("rondo groups shows them", () -> {
            String list = rondo("--list", "--type", "--state");
            require(list.matches("(?s).*" + group + "\\s+Classic\\s+Stable\\b.*"), list);
            String state = rondo("--describe", "--state", "--group", group);
            require(state.matches("(?s).*" + group + ".*Stable\\s+" + members + "\\b.*"), state);
            String each = rondo("--describe", "--members", "--group", group);
            require(each.lines().filter(l -> l.startsWith(group) && l.contains("worker-")).count() == members, each);
        });
        print(rondo("--list", "--type", "--state"));
        print(rondo("--describe", "--state", "--group", group));
        print(rondo("--describe", "--members", "--group", group));
        if (shown) {
            String history = rondo("--history", "--group", group);
            print(history);
            for (String cause : causes) {
                if (!history.matches("(?s).*" + cause + ".*")) {
                    throw new IllegalStateException("rondo groups --history does not tell of " + cause);
                }
            }
        }
    }

    private static void print(String said) {
        System.out.print(said.strip().indent(4));
    }

    private String rondo(String... args) throws Exception {
        List<String> command = new ArrayList<>(List.of(rondo, "groups", "-b", bootstrap));
        command.addAll(List.of(args));
        Process p = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(p.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        require(p.waitFor() == 0, command + " ended with " + p.exitValue() + ": " + said);
        return said;
    }

    // ---- waiting ----

    private static void require(boolean holds, String otherwise) throws NotYet {
        if (!holds) {
            throw new NotYet(otherwise);
        }
    }

    private void until(String what, Condition condition) throws Exception {
        long began = System.nanoTime();
        while (true) {
            try {
                condition.hold();
                System.out.printf("  %s (%d ms)%n", what, (System.nanoTime() - began) / 1_000_000);
                return;
            } catch (Exception e) {
                boolean early = e instanceof NotYet || e instanceof ExecutionException;
                if (!early || System.nanoTime() - began > PATIENCE_MS * 1_000_000) {
                    throw new IllegalStateException("not within " + PATIENCE_MS + " ms: " + what + ": " + e.getMessage(), e);
                }
            }
            Thread.sleep(100);
        }
    }
}
