package peers;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * A Kafka Streams application, at-least-once, its defaults otherwise but for short clocks. The stateless one filters
 * and splits; the stateful one counts behind a repartition topic, with one standby replica. In the streams protocol the
 * clocks are the broker's.
 *
 * <p>Arguments: HOST:PORT APPLICATION-ID SOURCE SINK STATE-DIR classic|streams stateless|stateful
 */
final class Advice {
    private Advice() {}

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "500");
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, args[5]);
        if (args[5].equals("classic")) {
            p.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
            p.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "500");
            p.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, args[6].equals("stateful") ? "1" : "0");
        }
        p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(args[2]);
        if (args[6].equals("stateful")) {
            records.selectKey((k, v) -> "x" + k)
                    .groupByKey()
                    .count(Materialized.as("counts"))
                    .toStream()
                    .mapValues(n -> Long.toString(n))
                    .to(args[3]);
        } else {
            records.filter((k, v) -> Integer.parseInt(v.substring(1)) % 3 != 0)
                    .flatMapValues(v -> List.of("x" + v, "y" + v))
                    .selectKey((k, v) -> v.substring(0, 1) + k)
                    .to(args[3]);
        }

        try (KafkaStreams streams = new KafkaStreams(builder.build(), p)) {
            streams.setStateListener((now, before) -> Member.say("state " + now));
            streams.start();
            System.in.read(); // the order to leave, whatever it says
            if (!streams.close(Duration.ofSeconds(30))) {
                throw new IllegalStateException("the application did not close");
            }
        }
    }
}
