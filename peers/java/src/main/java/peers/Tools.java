package peers;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Kafka's command-line tools against a broker, as a script tells. A tool is run in this process by its main method,
 * because fifty virtual machines take minutes to start.
 *
 * <p>The script, line by line:
 * <pre>
 * $ NAME ARG ...    run a tool (see TOOLS); --bootstrap-server is added unless @broker is said. What is behind &lt; is its
 *                   input, | between lines
 * ! STATUS          the exit status of the tool above, when it is not 0
 * REGEXP            some line of the output must match it as a whole, runs of white space being one space
 * $= NAME ARG ...   run a tool whose whole output was recorded from Apache Kafka, each line behind "| "; what differs from
 *                   run to run is masked (see MASKS). With $* instead of $= the order of the lines is free.
 * > NAME TEXT       write a file into the scratch directory, | between lines
 * ? rondo|kafka|both    what follows is for that broker alone, or for both again
 * + classic|consumer|streams GROUP TOPIC    a member joins, and stays until
 * - GROUP           it leaves
 * # ...             says something
 * </pre>
 * A tool and what is expected of it is tried again until it holds, for a while, when the line begins with $$: of a group
 * that changes. Variables: @dir is a scratch directory.
 *
 * <p>Arguments: HOST:PORT SCRIPT DIR rondo|kafka [RECORDING]. With a RECORDING the script is written there with what the
 * tools have said.
 */
final class Tools {
    private static final long PATIENCE_MS = 40_000;
    private static final Map<String, String> TOOLS = Map.ofEntries(
            Map.entry("topics", "org.apache.kafka.tools.TopicCommand"),
            Map.entry("configs", "kafka.admin.ConfigCommand"),
            Map.entry("groups", "org.apache.kafka.tools.GroupsCommand"),
            Map.entry("consumer-groups", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
            Map.entry("streams-groups", "org.apache.kafka.tools.streams.StreamsGroupCommand"),
            Map.entry("offsets", "org.apache.kafka.tools.GetOffsetShell"),
            Map.entry("log-dirs", "org.apache.kafka.tools.LogDirsCommand"),
            Map.entry("delete-records", "org.apache.kafka.tools.DeleteRecordsCommand"),
            Map.entry("features", "org.apache.kafka.tools.FeatureCommand"),
            Map.entry("metadata-quorum", "org.apache.kafka.tools.MetadataQuorumCommand"),
            Map.entry("cluster", "org.apache.kafka.tools.ClusterTool"),
            Map.entry("leader-election", "org.apache.kafka.tools.LeaderElectionCommand"),
            Map.entry("broker-api-versions", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
            Map.entry("reassign-partitions", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"),
            Map.entry("transactions", "org.apache.kafka.tools.TransactionsCommand"),
            Map.entry("acls", "org.apache.kafka.tools.AclCommand"),
            Map.entry("client-metrics", "org.apache.kafka.tools.ClientMetricsCommand"),
            Map.entry("delegation-tokens", "org.apache.kafka.tools.DelegationTokenCommand"),
            Map.entry("streams-application-reset", "org.apache.kafka.tools.StreamsResetter"),
            Map.entry("producer-perf-test", "org.apache.kafka.tools.ProducerPerformance"),
            Map.entry("consumer-perf-test", "org.apache.kafka.tools.ConsumerPerformance"),
            Map.entry("e2e-latency", "org.apache.kafka.tools.EndToEndLatency"),
            Map.entry("verifiable-producer", "org.apache.kafka.tools.VerifiableProducer"),
            Map.entry("verifiable-consumer", "org.apache.kafka.tools.VerifiableConsumer"),
            Map.entry("console-producer", "org.apache.kafka.tools.ConsoleProducer"),
            Map.entry("console-consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"));

    /** What is not the same in two runs, and what stands for it. */
    private static final Map<Pattern, String> MASKS = masks(
            "127\\.0\\.0\\.1:\\d+", "<broker>",
            "127\\.0\\.0\\.1 \\d+", "<host> <port>",
            "\\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\\b", "<uuid>",
            "(?<![\\w.-])[\\w-]{22}(?![\\w.-])", "<id>",
            "\\b1[6-9]\\d{11}\\b", "<ms>",
            "<id> \\d+ 0 \\d+ ms ago \\d+ ms ago", "<id> <n> 0 <ms> ago <ms> ago",
            "\"(log_dirs\":\\[|logDir\":)\"[^\"]*\"", "\"$1\"<dir>\"",
            // Kafka writes this default down when it makes a cluster, so it is an override there.
            "DYNAMIC_DEFAULT_BROKER_CONFIG:min\\.insync\\.replicas=1, ", "",
            "Configs: min\\.insync\\.replicas=1(,|$)", "Configs: ");

    private final String bootstrap;
    private final Path dir;
    private final String broker;
    private final boolean recorded;
    private final List<String> recording = new ArrayList<>();
    private final PrintStream out = System.out;
    private final InputStream in = System.in;
    private final Map<String, AutoCloseable> members = new HashMap<>();
    private int held;
    private int failed;
    private Integer exited;

    /** Thrown in place of the end of the process. */
    private static final class Exited extends Error {
        private final int status;

        Exited(int status) {
            super("exit status " + status, null, false, false);
            this.status = status;
        }
    }

    private record Said(int status, List<String> lines) { }

    private Tools(String bootstrap, Path dir, String broker, boolean recorded) {
        this.bootstrap = bootstrap;
        this.dir = dir;
        this.broker = broker;
        this.recorded = recorded;
    }

    private static Map<Pattern, String> masks(String... pairs) {
        Map<Pattern, String> masks = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            masks.put(Pattern.compile(pairs[i]), pairs[i + 1]);
        }
        return masks;
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 4 || args.length > 5) {
            throw new IllegalArgumentException("arguments: HOST:PORT SCRIPT DIR rondo|kafka [RECORDING]");
        }
        Tools tools = new Tools(args[0], Path.of(args[2]), args[3], args.length == 5);
        Exit.setExitProcedure(tools::exit);
        Exit.setHaltProcedure(tools::exit);
        int status = 0;
        try {
            tools.play(Files.readAllLines(Path.of(args[1])));
            if (tools.recorded) {
                Files.write(Path.of(args[4]), tools.recording);
            }
            tools.judge();
        } catch (Exception | Error e) {
            System.setOut(tools.out);
            System.out.println(e);
            status = 1;
        }
        // Not a return: tools leave threads behind that would keep the process.
        Runtime.getRuntime().halt(status);
    }

    private void play(List<String> script) throws Exception {
        boolean mine = true;
        for (int i = 0; i < script.size(); ) {
            int from = i;
            String line = script.get(i++).strip().replace("@dir", dir.toString());
            if (line.startsWith("? ")) {
                mine = line.endsWith(" both") || line.endsWith(" " + broker);
            }
            if (line.isEmpty() || line.startsWith("# ") || line.startsWith("? ")) {
                recording.add(script.get(from));
                continue;
            }
            if (line.startsWith("> ")) {
                recording.add(script.get(from));
                String[] words = line.split(" ", 3);
                Files.writeString(dir.resolve(words[1]), words[2].replace('|', '\n') + "\n");
                continue;
            }
            if (line.startsWith("+ ") || line.startsWith("- ")) {
                recording.add(script.get(from));
                if (mine) {
                    member(line.split(" "));
                }
                continue;
            }
            if (!line.startsWith("$")) {
                throw new IllegalArgumentException("line " + i + " of the script belongs to no tool: " + line);
            }
            int status = 0;
            List<String> expected = new ArrayList<>();
            for (; i < script.size() && !script.get(i).matches("|\\$.*|[+#?>-] .*"); i++) {
                String next = script.get(i).strip().replace("@dir", dir.toString());
                if (next.startsWith("! ")) {
                    status = Integer.parseInt(next.substring(2));
                } else {
                    expected.add(next);
                }
            }
            if (!mine) {
                recording.addAll(script.subList(from, i));
            } else if (line.startsWith("$=") || line.startsWith("$*")) {
                compare(line, status, expected, script.get(from));
            } else {
                recording.addAll(script.subList(from, i));
                run(line, status, expected);
            }
        }
    }

    private void judge() {
        out.println("  " + held + " runs of Kafka's tools said what was expected, " + failed + " did not");
        if (failed > 0 && !recorded) {
            throw new IllegalStateException(failed + " of " + (held + failed) + " runs failed");
        }
    }

    private void member(String[] words) throws Exception {
        if (words[0].equals("-")) {
            members.remove(words[1]).close();
            return;
        }
        members.put(words[2], words[1].equals("streams") ? streams(words[2], words[3]) : consumer(words[1], words[2], words[3]));
    }

    /** Runs a tool whose whole output is known. What only reads is tried again: a change takes a moment to be seen. */
    private void compare(String line, int status, List<String> expected, String written) throws Exception {
        String command = line.substring(3);
        boolean reads = command.matches("offsets .*|.*(--| )(list|describe)( .*)?");
        boolean ordered = line.startsWith("$=");
        if (reads && recorded) {
            Thread.sleep(1000);
        }
        long began = System.nanoTime();
        while (true) {
            Said said = tool(command);
            List<String> lines = new ArrayList<>();
            for (String l : said.lines) {
                if (!l.matches("|at .*|\\.\\.\\. \\d+ more|(.*Exited: )?exit status \\d+")) { // of traces the heads
                    lines.add("| " + masked(l));
                }
            }
            if (recorded) {
                recording.add(written);
                if (said.status != 0) {
                    recording.add("! " + said.status);
                }
                recording.addAll(lines);
            }
            if (said.status == status && (ordered ? lines : sorted(lines)).equals(ordered ? expected : sorted(expected))) {
                out.printf("  %s (%d ms)%n", command, (System.nanoTime() - began) / 1_000_000);
                held++;
                return;
            }
            if (recorded || !reads || System.nanoTime() - began > 5_000_000_000L) {
                failed++;
                out.println("FAIL " + command + "\nexit status " + said.status + ", recorded " + status + "\nrecorded and not said:\n  "
                        + String.join("\n  ", without(expected, lines)) + "\nsaid and not recorded:\n  "
                        + String.join("\n  ", without(lines, expected)));
                return;
            }
            Thread.sleep(200);
        }
    }

    private static List<String> sorted(List<String> lines) {
        return lines.stream().sorted().toList();
    }

    private static List<String> without(List<String> lines, List<String> others) {
        List<String> rest = new ArrayList<>(lines);
        others.forEach(rest::remove);
        return rest;
    }

    private String masked(String line) {
        line = line.replace(dir.toString(), "@dir");
        for (Map.Entry<Pattern, String> mask : MASKS.entrySet()) {
            line = mask.getKey().matcher(line).replaceAll(mask.getValue());
        }
        return line.strip();
    }

    private void run(String line, int status, List<String> expected) throws Exception {
        boolean patient = line.startsWith("$$ ");
        String command = line.substring(line.indexOf(' ') + 1);
        long began = System.nanoTime();
        while (true) {
            Said said = tool(command);
            List<String> missing = new ArrayList<>();
            for (String want : expected) {
                Pattern p = Pattern.compile(want);
                if (said.lines.stream().noneMatch(l -> p.matcher(l).matches())) {
                    missing.add(want);
                }
            }
            if (said.status == status && missing.isEmpty()) {
                out.printf("  %s (%d ms)%n", command, (System.nanoTime() - began) / 1_000_000);
                held++;
                return;
            }
            if (!patient || System.nanoTime() - began > PATIENCE_MS * 1_000_000) {
                failed++;
                out.println("FAIL " + command + "\nexit status " + said.status + ", expected " + status + "; not said:\n  "
                        + String.join("\n  ", missing) + "\nsaid:\n  " + String.join("\n  ", said.lines));
                return;
            }
            Thread.sleep(200);
        }
    }

    /** Some tools catch whatever is thrown and end again: the first end counts. */
    private void exit(int status, String message) {
        if (exited == null) {
            exited = status;
        }
        throw new Exited(status);
    }

    /** Runs the main method of a tool; its words are separated by single spaces. */
    private Said tool(String command) throws Exception {
        String input = "";
        int at = command.indexOf(" < ");
        if (at >= 0) {
            input = command.substring(at + 3).replace('|', '\n') + "\n";
            command = command.substring(0, at);
        }
        List<String> words = new ArrayList<>(Arrays.asList(command.split(" ")));
        String program = TOOLS.get(words.remove(0));
        if (program == null) {
            throw new IllegalArgumentException("no such tool: " + command);
        }
        if (words.contains("@broker")) {
            words.replaceAll(w -> w.equals("@broker") ? bootstrap : w);
        } else {
            words.addAll(0, List.of("--bootstrap-server", bootstrap));
        }
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream err = System.err;
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        exited = null;
        try (PrintStream capture = new PrintStream(said, true, StandardCharsets.UTF_8)) {
            System.setOut(capture);
            System.setErr(capture);
            // Console.withOut is what tools written in Scala print to.
            scala.Console.withOut(capture, () -> call(program, words));
        } catch (Exited e) {
            exited = exited == null ? e.status : exited;
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        // Formatters of __consumer_offsets end no line.
        return new Said(exited == null ? 0 : exited, said.toString(StandardCharsets.UTF_8).replace("}{\"key\":", "}\n{\"key\":").lines().map(l -> l.strip().replaceAll("\\s+", " ")).toList());
    }

    private static int call(String program, List<String> args) {
        try {
            Class.forName(program).getMethod("main", String[].class).invoke(null, (Object) args.toArray(String[]::new));
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exited exited) {
                throw exited;
            }
            System.err.println("Exception in thread \"main\" " + e.getCause());
            throw new Exited(1);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(program, e);
        }
    }

    private AutoCloseable consumer(String protocol, String group, String topic) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("group.protocol", protocol);
        p.put("client.id", group + "-client");
        p.put("auto.offset.reset", "earliest");
        p.put("auto.commit.interval.ms", "200");
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        AtomicBoolean leave = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
                consumer.subscribe(List.of(topic));
                while (!leave.get()) {
                    consumer.poll(Duration.ofMillis(100));
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        return () -> {
            leave.set(true);
            thread.join(30_000);
        };
    }

    private AutoCloseable streams(String group, String topic) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic).groupByKey().count();
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("application.id", group);
        p.put("group.protocol", "streams");
        p.put("state.dir", dir.resolve("state").toString());
        p.put("commit.interval.ms", "200");
        p.put("auto.offset.reset", "earliest");
        p.put("default.key.serde", Serdes.StringSerde.class.getName());
        p.put("default.value.serde", Serdes.StringSerde.class.getName());
        KafkaStreams app = new KafkaStreams(builder.build(), p);
        app.start();
        return () -> app.close(CloseOptions.timeout(Duration.ofSeconds(30))
                .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
    }
}
