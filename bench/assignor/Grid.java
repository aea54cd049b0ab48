import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/** The scenes of BenchmarkAssignor (internal/group) on Kafka's own assignors: one line each, name and nanoseconds. */
public class Grid {
    record Member(String id, Set<Uuid> topics, Assignment had) {}

    record Scene(List<Member> members, Map<Uuid, Integer> partitions) {
        GroupSpec spec(SubscriptionType type) {
            Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            for (Member m : members) {
                specs.put(m.id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), m.topics, m.had));
                m.had.partitions().forEach((t, list) -> list.forEach(p -> owners.computeIfAbsent(t, k -> new HashMap<>()).put(p, m.id)));
            }
            return new GroupSpecImpl(specs, type, owners);
        }

        SubscribedTopicDescriber topics() {
            return new SubscribedTopicDescriber() {
                public int numPartitions(Uuid topic) { return partitions.getOrDefault(topic, -1); }
                public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
            };
        }
    }

    static Scene scene(ConsumerGroupPartitionAssignor a, int n, int topics, int partitions, String subscriptions, String event) {
        List<Uuid> all = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (int i = 0; i < topics; i++) {
            Uuid id = new Uuid(i + 1, i + 1);
            all.add(id);
            counts.put(id, partitions / topics);
        }
        Map<Integer, Set<Uuid>> prefixes = new HashMap<>();
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int from = 0, to = topics;
            if (subscriptions.equals("nested")) {
                for (int j = i; j % 2 == 1 && to > 1; j /= 2) to /= 2;
            } else if (subscriptions.equals("disjoint")) {
                from = i % topics;
                to = from + 1;
            }
            int begin = from, end = to;
            Set<Uuid> reads = prefixes.computeIfAbsent(from * 100_000 + to, k -> new HashSet<>(all.subList(begin, end)));
            members.add(new Member(String.format("m%05d", i), reads, Assignment.EMPTY));
        }
        if (event.equals("full")) return new Scene(members, counts);
        int many = n / 10, last = event.equals("join-one") ? n - 1 : event.equals("join-many") ? n - many : n;
        SubscriptionType type = type(subscriptions);
        Scene before = new Scene(members.subList(0, last), counts);
        Map<String, MemberAssignment> had = a.assign(before.spec(type), before.topics()).members();
        members.replaceAll(m -> had.containsKey(m.id) ? new Member(m.id, m.topics, new Assignment(had.get(m.id).partitions())) : m);
        if (event.equals("leave-one")) members.remove(n / 2);
        if (event.equals("leave-many")) members.subList(n / 2, n / 2 + many).clear();
        if (event.equals("partitions-added")) counts.replaceAll((t, p) -> p + p / 10);
        return new Scene(members, counts);
    }

    static SubscriptionType type(String subscriptions) {
        return subscriptions.equals("equal") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    record Case(String name, ConsumerGroupPartitionAssignor assignor, GroupSpec spec, SubscribedTopicDescriber topics) {
        /** Nanoseconds an assignment. */
        double measure(double seconds) {
            long began = System.nanoTime(), end = began + (long) (seconds * 1e9), now = began;
            int n = 0;
            for (; now < end || n == 0; n++, now = System.nanoTime())
                if (assignor.assign(spec, topics).members().isEmpty()) throw new IllegalStateException("nobody has anything");
            return (now - began) / (double) n;
        }
    }

    /** Arguments: seconds a scene, how the names of scenes begin, and seconds for the compiler before anything is measured. */
    public static void main(String[] args) {
        int[][] sizes = {{100, 10, 1000}, {1000, 10, 10_000}, {1000, 100, 10_000}, {5000, 100, 50_000}};
        List<Case> cases = new ArrayList<>();
        for (ConsumerGroupPartitionAssignor a : List.of(new UniformAssignor(), new RangeAssignor()))
            for (int[] size : sizes) for (String topics : List.of("equal", "nested", "disjoint"))
                for (String event : List.of("full", "stable", "join-one", "join-many", "leave-one", "leave-many", "partitions-added")) {
                    String name = String.format("%s/members=%d/topics=%d/partitions=%d/%s/%s", a.name(), size[0], size[1], size[2], topics, event);
                    if (!name.startsWith(args[1])) continue;
                    Scene scene = scene(a, size[0], size[1], size[2], topics, event);
                    cases.add(new Case(name, a, scene.spec(type(topics)), scene.topics()));
                }
        for (long end = System.nanoTime() + (long) (Double.parseDouble(args[2]) * 1e9); System.nanoTime() < end; )
            cases.forEach(c -> c.measure(0.05));
        double seconds = Double.parseDouble(args[0]);
        cases.forEach(c -> System.out.printf("%s %.0f%n", c.name, c.measure(seconds)));
    }
}
