"""librdkafka, through confluent-kafka."""

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
    OffsetSpec, ResourceType,
)

from program import records, run


def producer(bootstrap, codec="none", **more):
    return Producer({
        "bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True,
        "linger.ms": 5, "message.timeout.ms": 30000, **more,
    })


def consumer(bootstrap, **more):
    return Consumer({
        "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
        "auto.offset.reset": "error", "check.crcs": True, **more,
    })


def send(client, topic, records, **more):
    """Sends and waits: offsets in order, or the error of each."""
    done = [None] * len(records)

    def note(at):
        def delivered(error, message):
            done[at] = error if error is not None else message.offset()
        return delivered

    for at, (key, value) in enumerate(records):
        client.produce(topic, value, key, on_delivery=note(at), partition=0, **more)
    if client.flush(30) != 0:
        raise RuntimeError("not all was delivered in 30 s")
    return done


def read(client, topic, start, count, patience=30):
    client.assign([TopicPartition(topic, 0, start)])
    found, end = [], time.time() + patience
    while len(found) < count and time.time() < end:
        for message in client.consume(count - len(found), 0.5):
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
    return found


def check_seek(bootstrap, topic):
    send(producer(bootstrap), topic, records(100))
    found = read(consumer(bootstrap), topic, 42, 3)
    assert [m.offset() for m in found] == [42, 43, 44], found
    client = consumer(bootstrap)
    client.assign([TopicPartition(topic, 0, 0)])
    client.consume(1, 5)
    client.seek(TopicPartition(topic, 0, 90))
    end = time.time() + 10
    while time.time() < end:
        got = client.consume(1, 1)
        if got and got[0].offset() >= 90:
            break
    assert got[0].offset() == 90, got[0].offset()


def check_timestamps(bootstrap, topic):
    base = int(time.time() - 3600) * 1000
    client = producer(bootstrap)
    for i in range(10):
        client.produce(topic, b"t", partition=0, timestamp=base + i * 1000)
    client.flush(30)
    asked = TopicPartition(topic, 0, base + 3500)
    low, high = consumer(bootstrap).get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    [found] = consumer(bootstrap).offsets_for_times([asked], timeout=10)
    [message] = read(consumer(bootstrap), topic, found.offset, 1)
    assert (low, found.offset, high) == (0, 4, 10) and message.timestamp()[1] == base + 4000


def check_limits_below_a_batch(bootstrap, topic):
    offsets = send(producer(bootstrap), topic, [("k", "y" * 50_000)] * 4)
    small = consumer(bootstrap, **{"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1000,
                                   "message.max.bytes": 1000})
    found = read(small, topic, offsets[0], 4)
    assert [len(m.value()) for m in found] == [50_000] * 4


def check_large_records(bootstrap, topic):
    big = producer(bootstrap, **{"message.max.bytes": 5_000_000})
    [offset] = send(big, topic, [("k", "z" * 900_000)])
    [message] = read(consumer(bootstrap), topic, offset, 1)
    assert len(message.value()) == 900_000
    [refused] = send(big, topic, [("k", "z" * 2_000_000)])
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE, refused


def check_long_poll(bootstrap, topic):
    send(producer(bootstrap), topic, records(1))
    low, high = consumer(bootstrap).get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    waiting = consumer(bootstrap, **{"fetch.wait.max.ms": 10_000, "fetch.min.bytes": 1})
    waiting.assign([TopicPartition(topic, 0, high)])
    assert waiting.consume(1, 1.0) == []
    send(producer(bootstrap), topic, [("k", "late")])
    began = time.time()
    [message] = waiting.consume(1, 8.0)
    assert message.value() == b"late" and time.time() - began < 5


def check_delete_records(bootstrap, topic):
    send(producer(bootstrap), topic, records(20))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [done] = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert done.result(30).low_watermark == 5
    low, _ = consumer(bootstrap).get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    assert low == 5
    try:
        read(consumer(bootstrap), topic, 0, 1, patience=10)
    except KafkaException as error:
        assert error.args[0].code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
    else:
        raise AssertionError("offset 0 is still there")


def check_admin(bootstrap, topic):
    send(producer(bootstrap), topic, records(1))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = topic + "-admin"
    [made] = admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "1000"})]).values()
    made.result(30)
    [grown] = admin.create_partitions([NewPartitions(name, 4)]).values()
    grown.result(30)
    assert len(admin.list_topics(name, 10).topics[name].partitions) == 4
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[
        ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(30)
    [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    assert described.result(30)["retention.ms"].value == "2000"
    [offset] = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}).values()
    assert offset.result(30).offset > 0
    cluster = admin.describe_cluster().result(30)
    assert cluster.controller.id == cluster.nodes[0].id
    [gone] = admin.delete_topics([name]).values()
    gone.result(30)


def check_idempotence(bootstrap, topic):
    """Many requests in flight: no gap, no repetition."""
    offsets = send(producer(bootstrap, **{"batch.num.messages": 10}), topic, records(2000))
    assert offsets == list(range(offsets[0], offsets[0] + 2000))


def stream(bootstrap, count, topic):
    """Writes for seconds, whatever happens to the broker; prints the values that were acknowledged."""
    client = producer(bootstrap, **{"message.timeout.ms": 60_000, "acks": "all"})
    acknowledged = []

    def delivered(error, message):
        if error is None:
            acknowledged.append(message.value().decode())

    for i in range(int(count)):
        client.produce(topic, f"s{i}", partition=0, on_delivery=delivered)
        client.poll(0)
        if i % 100 == 0:
            time.sleep(0.02)
    client.flush(60)
    print("\n".join(acknowledged))


def write_all(bootstrap, topic, codec, items):
    return send(producer(bootstrap, codec), topic, items)


def read_all(bootstrap, topic, start, count):
    return [(m.offset(), m.key(), m.value()) for m in read(consumer(bootstrap), topic, start, count)]


CHECKS = [check_seek, check_timestamps, check_limits_below_a_batch, check_large_records,
          check_long_poll, check_idempotence, check_delete_records, check_admin]

run(write_all, read_all, CHECKS, stream=stream)
