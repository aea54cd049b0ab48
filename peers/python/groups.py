"""librdkafka (confluent-kafka) against a broker: produce, consume, commit and rebalance.

    groups.py HOST:PORT [ASSIGNOR]     ASSIGNOR: range (default), roundrobin, cooperative-sticky,
                                       or consumer: the consumer protocol, in which the broker assigns and has the
                                       session time-out (group.consumer.session.timeout.ms);
                                       or kafka-python, aiokafka: members and producers of those clients (members.py)

Three members, each a process of its own, share six partitions; one leaves, one joins, one is killed. Every record
must be seen, none twice except after the kill, and at the end the committed offsets must be the ends of the log.
"""

import collections
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid

import members
from confluent_kafka import (
    Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

PARTITIONS = 6
SESSION_MS = 6000
PATIENCE = 60.0
INCREMENTAL = ("cooperative-sticky", "consumer")  # what moves is told, not what there is
OTHERS = ("kafka-python", "aiokafka")  # clients of their own


def fail(text):
    raise SystemExit(f"groups.py: {text}")


def member(bootstrap, topic, group, assignor):
    """One member: prints what it is assigned and what it reads, commits as it goes, leaves on SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    }
    if assignor == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, "partition.assignment.strategy": assignor}
    consumer = Consumer(settings)

    def say(*words):
        print(*words, flush=True)

    def assigned(c, parts):
        say("assigned", *[p.partition for p in parts])
        if assignor in INCREMENTAL:
            c.incremental_assign(parts)
        else:
            c.assign(parts)

    def revoked(c, parts):
        say("revoked", *[p.partition for p in parts])
        if assignor in INCREMENTAL:
            c.incremental_unassign(parts)
        else:
            c.unassign()

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    while not stop.is_set():
        batch = consumer.consume(200, timeout=0.2)
        for m in batch:
            if m.error():
                say("error", m.error())
            else:
                say("record", m.partition(), m.offset(), m.value().decode())
        if batch:
            ends = {}
            for m in batch:
                if not m.error():
                    ends[m.partition()] = m.offset() + 1
            try:
                consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
            except KafkaException as e:
                # The commit of a member that has to rejoin is refused; the next owner reads those records again.
                say("uncommitted", e.args[0].name())
    consumer.close()
    say("closed")


class Member:
    def __init__(self, name, command):
        self.name, self.owned, self.lines = name, set(), queue.Queue()
        self.process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, bufsize=1)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())

    def end(self, sig):
        self.process.send_signal(sig)
        code = self.process.wait(30)
        self.thread.join(30)
        if sig == signal.SIGTERM and code != 0:
            fail(f"member {self.name} ended with {code}")


class Run:
    def __init__(self, bootstrap, assignor):
        self.bootstrap, self.assignor = bootstrap, assignor
        run = uuid.uuid4().hex[:8]
        self.topic, self.group = f"py-{assignor}-{run}", f"py-group-{assignor}-{run}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        self.seen, self.next, self.members = collections.Counter(), 0, []
        self.uncommitted = 0

    def produce(self, n, codec):
        if self.assignor in OTHERS:
            rows = [(str(i), f"v{i}", i % PARTITIONS) for i in range(self.next, self.next + n)]
            members.produce(self.assignor, self.bootstrap, self.topic, rows, codec)
            self.next += n
            return
        errors = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 5,
                             "enable.idempotence": True})
        for i in range(self.next, self.next + n):
            producer.produce(self.topic, key=str(i), value=f"v{i}", partition=i % PARTITIONS,
                             on_delivery=lambda e, m: e and errors.append(e))
        left = producer.flush(PATIENCE)
        if errors or left:
            fail(f"produce with {codec}: {left} not delivered, {errors[:3]}")
        self.next += n

    def join(self, name):
        command = [__file__, "member", self.bootstrap, self.topic, self.group, self.assignor]
        if self.assignor in OTHERS:
            command = [members.__file__, self.assignor, self.bootstrap, self.topic, self.group, str(SESSION_MS)]
        m = Member(name, command)
        self.members.append(m)
        return m

    def drain(self):
        for m in self.members:
            while True:
                try:
                    words = m.lines.get_nowait()
                except queue.Empty:
                    break
                kind, rest = words[0], words[1:]
                if kind == "record":
                    self.seen[rest[2]] += 1
                elif kind == "assigned":
                    self.owned(m, rest, True)
                elif kind == "revoked":
                    self.owned(m, rest, False)
                elif kind == "uncommitted":
                    self.uncommitted += 1
                elif kind == "error" and "UNKNOWN_TOPIC" not in " ".join(rest):
                    print(f"{m.name}:", *words)

    def owned(self, m, parts, gained):
        parts = {int(p) for p in parts}
        if self.assignor not in INCREMENTAL:
            m.owned = parts if gained else set()
        else:
            m.owned = m.owned | parts if gained else m.owned - parts

    def until(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.drain()
            if condition():
                print(f"  {what}", flush=True)
                return
            time.sleep(0.05)
        state = {m.name: sorted(m.owned) for m in self.members}
        fail(f"not within {PATIENCE:.0f} s: {what}; owned {state}, {len(self.seen)} of {self.next} records seen")

    def shared(self, *members):
        """Whether these members own all partitions, each at least one, none twice."""
        owned = [p for m in members for p in m.owned]
        return sorted(owned) == list(range(PARTITIONS)) and all(m.owned for m in members)

    def all_seen(self):
        return len(self.seen) == self.next

    def ends(self):
        parts = {TopicPartition(self.topic, p): OffsetSpec.latest() for p in range(PARTITIONS)}
        return {tp.partition: f.result(30).offset for tp, f in self.admin.list_offsets(parts).items()}

    def committed(self):
        answer = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
        return {tp.partition: tp.offset for tp in answer[self.group].result(30).topic_partitions}

    def go(self):
        for codec in ("none", "gzip", "none", "gzip", "gzip") if self.assignor in OTHERS else ("none", "gzip", "snappy", "lz4", "zstd"):
            self.produce(600, codec)
        a, b, c = self.join("a"), self.join("b"), self.join("c")
        self.until("three members share six partitions", lambda: self.shared(a, b, c))
        self.until("3,000 records of all codecs seen", self.all_seen)
        c.end(signal.SIGTERM)
        self.until("one leaves, two share", lambda: self.shared(a, b))
        self.produce(1200, "none")
        self.until("4,200 records seen", self.all_seen)
        twice = sum(1 for n in self.seen.values() if n > 1)
        if twice and not self.uncommitted:
            fail(f"{twice} records seen twice although every commit was acknowledged")
        d = self.join("d")
        self.until("one joins, three share", lambda: self.shared(a, b, d))
        a.end(signal.SIGKILL)
        self.produce(1200, "gzip" if self.assignor in OTHERS else "lz4")
        a.owned = set()
        self.until("one is killed, two share after its session", lambda: self.shared(b, d))
        self.until("5,400 records seen", self.all_seen)
        described = self.admin.describe_consumer_groups([self.group])[self.group].result(30)
        if len(described.members) != 2 or described.state.name != "STABLE":
            fail(f"the group has {len(described.members)} members and is {described.state.name}")
        for m in (b, d):
            m.end(signal.SIGTERM)
        ends, committed = self.ends(), self.committed()
        if ends != committed:
            fail(f"committed {committed}, but the log ends at {ends}")
        print("  committed offsets are the ends of the log")
        self.admin.delete_consumer_groups([self.group])[self.group].result(30)
        self.admin.delete_topics([self.topic])[self.topic].result(30)
        print("  group and topic deleted")

    def stop(self):
        for m in self.members:
            if m.process.poll() is None:
                m.process.kill()


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "member":
        return member(*sys.argv[2:])
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    run = Run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "range")
    try:
        run.go()
    finally:
        run.stop()


if __name__ == "__main__":
    main()
