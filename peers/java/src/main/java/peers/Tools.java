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
 * + classic|consumer|streams GROUP TOPIC    a member joins, and stays until
 * - GROUP           it leaves
 * # ...             says something
 * </pre>
 * A tool and what is expected of it is tried again until it holds, for a while, when the line begins with $$: of a group
 * that changes. Variables: @dir is a scratch directory.
 *
 * <p>Arguments: HOST:PORT SCRIPT DIR.
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
            Map.entry("console-producer", "org.apache.kafka.tools.ConsoleProducer"),
            Map.entry("console-consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"));

    private final String bootstrap;
    private final Path dir;
    private final PrintStream out = System.out;
    private final InputStream in = System.in;
    private final Map<String, AutoCloseable> members = new HashMap<>();
    private int held;
    private int failed;
    private Integer exited;

    /** Thrown in place of the end of the process. */
    private static final class Exited extends Error {
        Exited(int status) {
            super("exit status " + status, null, false, false);
        }
    }

    private record Said(int status, List<String> lines) { }

    private Tools(String bootstrap, Path dir) {
        this.bootstrap = bootstrap;
        this.dir = dir;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            throw new IllegalArgumentException("arguments: HOST:PORT SCRIPT DIR");
        }
        Tools tools = new Tools(args[0], Path.of(args[2]));
        Exit.setExitProcedure(tools::exit);
        Exit.setHaltProcedure(tools::exit);
        int status = 0;
        try {
            tools.play(Files.readAllLines(Path.of(args[1])));
        } catch (Exception | Error e) {
            System.setOut(tools.out);
            System.out.println(e);
            status = 1;
        }
        // Not a return: tools leave threads behind that would keep the process.
        Runtime.getRuntime().halt(status);
    }

    private void play(List<String> script) throws Exception {
        for (int i = 0; i < script.size(); ) {
            String line = script.get(i++).strip().replace("@dir", dir.toString());
            if (line.isEmpty() || line.startsWith("# ")) {
                continue;
            }
            if (line.startsWith("+ ")) {
                String[] words = line.split(" ");
                members.put(words[2], words[1].equals("streams") ? streams(words[2], words[3]) : consumer(words[1], words[2], words[3]));
                continue;
            }
            if (line.startsWith("- ")) {
                members.remove(line.substring(2)).close();
                continue;
            }
            if (!line.startsWith("$")) {
                throw new IllegalArgumentException("line " + i + " of the script belongs to no tool: " + line);
            }
            int status = 0;
            List<String> expected = new ArrayList<>();
            for (; i < script.size() && !script.get(i).matches("|\\$.*|[+#-] .*"); i++) {
                String next = script.get(i).strip().replace("@dir", dir.toString());
                if (next.startsWith("! ")) {
                    status = Integer.parseInt(next.substring(2));
                } else {
                    expected.add(next);
                }
            }
            run(line, status, expected);
        }
        out.println("  " + held + " runs of Kafka's tools said what was expected, " + failed + " did not");
        if (failed > 0) {
            throw new IllegalStateException(failed + " of " + (held + failed) + " runs failed");
        }
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
            // exit has noted the status.
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
            throw new IllegalStateException(program, e.getCause());
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
