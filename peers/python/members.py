"""Members and producers of two more Python clients, for groups.py: kafka-python and aiokafka, classic protocol, range.

    members.py CLIENT HOST:PORT TOPIC GROUP SESSION_MS     prints what it is assigned and reads, leaves on SIGTERM
"""

import asyncio
import signal
import sys


def say(*words):
    print(*words, flush=True)


def settings(bootstrap, group, session_ms):
    return {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False,
            "session_timeout_ms": session_ms, "heartbeat_interval_ms": 500}


# ---- kafka-python ----

def kafka_python(bootstrap, topic, group, session_ms):
    import threading
    import kafka
    from kafka.errors import CommitFailedError, KafkaError

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            say("revoked", *[tp.partition for tp in revoked])

        def on_partitions_assigned(self, assigned):
            say("assigned", *[tp.partition for tp in assigned])

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = kafka.KafkaConsumer(**settings(bootstrap, group, session_ms))
    consumer.subscribe([topic], listener=Listener())
    while not stop.is_set():
        batch = consumer.poll(timeout_ms=200, max_records=200)
        for records in batch.values():
            for r in records:
                say("record", r.partition, r.offset, r.value.decode())
        if batch:
            try:
                consumer.commit()
            except (CommitFailedError, KafkaError) as e:
                # The commit of a member that has to rejoin is refused; the next owner reads those records again.
                say("uncommitted", type(e).__name__)
    consumer.close()
    say("closed")


def produce_kafka_python(bootstrap, topic, values, codec):
    import kafka
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, acks="all")
    sent = [producer.send(topic, key=k.encode(), value=v.encode(), partition=p) for k, v, p in values]
    for future in sent:
        future.get(60)
    producer.close()


# ---- aiokafka ----

async def aiokafka_member(bootstrap, topic, group, session_ms):
    import aiokafka
    from aiokafka.errors import KafkaError

    class Listener(aiokafka.ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            say("revoked", *[tp.partition for tp in revoked])

        async def on_partitions_assigned(self, assigned):
            say("assigned", *[tp.partition for tp in assigned])

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = aiokafka.AIOKafkaConsumer(**settings(bootstrap, group, session_ms))
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stop.is_set():
        batch = await consumer.getmany(timeout_ms=200, max_records=200)
        for records in batch.values():
            for r in records:
                say("record", r.partition, r.offset, r.value.decode())
        if batch:
            try:
                await consumer.commit()
            except KafkaError as e:
                say("uncommitted", type(e).__name__)
    await consumer.stop()
    say("closed")


async def produce_aiokafka(bootstrap, topic, values, codec):
    import aiokafka
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, enable_idempotence=True)
    await producer.start()
    try:
        sent = [await producer.send(topic, key=k.encode(), value=v.encode(), partition=p) for k, v, p in values]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def produce(client, bootstrap, topic, values, codec):
    """Sends (key, value, partition) and waits until all are acknowledged."""
    codec = None if codec == "none" else codec
    if client == "kafka-python":
        produce_kafka_python(bootstrap, topic, values, codec)
    else:
        asyncio.run(produce_aiokafka(bootstrap, topic, values, codec))


def main():
    client, bootstrap, topic, group, session_ms = sys.argv[1:]
    if client == "kafka-python":
        kafka_python(bootstrap, topic, group, int(session_ms))
    else:
        asyncio.run(aiokafka_member(bootstrap, topic, group, int(session_ms)))


if __name__ == "__main__":
    main()
