"""kafka-python."""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from program import records, run


def producer(bootstrap, codec=None, **more):
    return KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, **more)


def send(client, topic, items):
    futures = [client.send(topic, value, key, partition=0) for key, value in items]
    client.flush(30)
    return [future.get(30).offset for future in futures]


def read(bootstrap, topic, start, count, **more):
    client = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=20000, **more)
    client.assign([TopicPartition(topic, 0)])
    client.seek(TopicPartition(topic, 0), start)
    found = []
    for message in client:
        found.append(message)
        if len(found) == count:
            break
    client.close()
    return found


def check_seek(bootstrap, topic):
    send(producer(bootstrap), topic, records(100))
    assert [m.offset for m in read(bootstrap, topic, 42, 2)] == [42, 43]


def check_timestamps(bootstrap, topic):
    client = producer(bootstrap)
    base = int(time.time() - 3600) * 1000
    for i in range(10):
        client.send(topic, b"t", partition=0, timestamp_ms=base + i * 1000)
    client.flush(30)
    at = TopicPartition(topic, 0)
    asking = KafkaConsumer(bootstrap_servers=bootstrap)
    assert asking.offsets_for_times({at: base + 3500})[at].offset == 4
    assert asking.beginning_offsets([at])[at] == 0 and asking.end_offsets([at])[at] == 10


def check_limits_below_a_batch(bootstrap, topic):
    send(producer(bootstrap), topic, [(b"k", b"y" * 50_000)] * 3)
    found = read(bootstrap, topic, 0, 3, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    assert [len(m.value) for m in found] == [50_000] * 3


def check_large_records(bootstrap, topic):
    client = producer(bootstrap, max_request_size=5_000_000)
    send(client, topic, [(b"k", b"z" * 900_000)])
    assert len(read(bootstrap, topic, 0, 1)[0].value) == 900_000
    try:
        client.send(topic, b"z" * 2_000_000, partition=0).get(30)
    except MessageSizeTooLargeError:
        return
    raise AssertionError("2 MB were taken")


def check_long_poll(bootstrap, topic):
    send(producer(bootstrap), topic, records(1))
    waiting = KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=8000)
    waiting.assign([TopicPartition(topic, 0)])
    waiting.seek(TopicPartition(topic, 0), 1)
    assert waiting.poll(500) == {}
    send(producer(bootstrap), topic, [(b"k", b"late")])
    began = time.time()
    [[message]] = waiting.poll(7000).values()
    assert message.value == b"late" and time.time() - began < 5


def check_admin(bootstrap, topic):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 2, 1)])
    try:
        admin.create_topics([NewTopic(topic, 2, 1)])
        raise AssertionError("a topic was created twice")
    except TopicAlreadyExistsError:
        pass
    admin.create_partitions({topic: NewPartitions(3)})
    [described] = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3, described
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def check_idempotence(bootstrap, topic):
    """Many requests in flight: no gap, no repetition."""
    client = producer(bootstrap, enable_idempotence=True, batch_size=500)
    assert send(client, topic, records(2000)) == list(range(2000))


def check_delete_records(bootstrap, topic):
    send(producer(bootstrap), topic, records(20))
    at = TopicPartition(topic, 0)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_records({at: 7})
    assert KafkaConsumer(bootstrap_servers=bootstrap).beginning_offsets([at])[at] == 7
    try:
        read(bootstrap, topic, 0, 1, auto_offset_reset="none")
    except OffsetOutOfRangeError:
        return
    raise AssertionError("offset 0 is still there")


def write_all(bootstrap, topic, codec, items):
    return send(producer(bootstrap, None if codec == "none" else codec), topic, items)


def read_all(bootstrap, topic, start, count):
    return [(m.offset, m.key, m.value) for m in read(bootstrap, topic, start, count)]


CHECKS = [check_seek, check_timestamps, check_limits_below_a_batch, check_large_records,
          check_long_poll, check_idempotence, check_delete_records, check_admin]

run(write_all, read_all, CHECKS)
