package peers;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * One member of a scenario of the lab on Kafka Streams: a topic, a blocking GET of SERVICE/PARTITION/OFFSET for each
 * record, a topic; one stream thread. It is Kafka Streams with its defaults but for what is given.
 *
 * <p>It says "ready", begins at the order "start" and closes at "close" on standard input, and says which partitions it
 * has whenever that changes: "MILLISECONDS owns 0 2". What else is to be known of it is in its log, which the lab reads.
 *
 * <p>Arguments: SERVICE SOURCE SINK CALL-TIMEOUT-MS KEY=VALUE ...
 */
final class LabStreams {
    private LabStreams() {}

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        for (int i = 4; i < args.length; i++) {
            String[] kv = args[i].split("=", 2);
            p.put(kv[0], kv[1]);
        }
        int timeout = Integer.parseInt(args[3]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[1]).processValues(() -> new Ask(args[0], timeout)).to(args[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        System.out.println("ready");
        if (!order().equals("start")) {
            return;
        }
        Thread watch = new Thread(() -> watch(streams));
        watch.setDaemon(true);
        streams.start();
        watch.start();
        if (order().equals("close")) {
            streams.close(Duration.ofSeconds(60));
        }
        Runtime.getRuntime().halt(0); // the lab is gone or has seen enough: nobody waits for calls
    }

    private static String order() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = System.in.read(); c >= 0 && c != '\n'; c = System.in.read()) {
            line.append((char) c);
        }
        return line.toString();
    }

    private static void watch(KafkaStreams streams) {
        for (String before = ""; ; ) {
            TreeSet<Integer> has = new TreeSet<>();
            streams.metadataForLocalThreads().forEach(t ->
                    t.activeTasks().forEach(a -> a.topicPartitions().forEach(tp -> has.add(tp.partition()))));
            StringBuilder now = new StringBuilder("owns");
            has.forEach(n -> now.append(' ').append(n));
            if (!now.toString().equals(before)) {
                before = now.toString();
                System.out.println(System.currentTimeMillis() + " " + before);
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** The call: it blocks the stream thread, as the articles' do. */
    private static final class Ask extends ContextualFixedKeyProcessor<String, String, String> {
        private final String service;
        private final int timeout;

        Ask(String service, int timeout) {
            this.service = service;
            this.timeout = timeout;
        }

        @Override
        public void process(FixedKeyRecord<String, String> record) {
            RecordMetadata at = context().recordMetadata().orElseThrow();
            try {
                HttpURLConnection call = (HttpURLConnection)
                        URI.create(service + "/" + at.partition() + "/" + at.offset()).toURL().openConnection();
                call.setReadTimeout(timeout);
                try (InputStream body = call.getInputStream()) {
                    String answer = new String(body.readAllBytes(), StandardCharsets.UTF_8);
                    context().forward(record.withValue(answer));
                }
            } catch (IOException e) {
                return; // a failed call is a record without a result
            }
        }
    }
}
