"""aiokafka."""

import asyncio
import contextlib
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from program import records, run


async def send(bootstrap, topic, items, codec=None, timestamps=None, **more):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5,
                                **more) as producer:
        sent = [await producer.send(topic, value, key, partition=0,
                                    timestamp_ms=timestamps[at] if timestamps else None)
                for at, (key, value) in enumerate(items)]
        return [(await one).offset for one in sent]


async def read(bootstrap, topic, start, count, patience=20, **more):
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none",
                                **more) as consumer:
        at = TopicPartition(topic, 0)
        consumer.assign([at])
        consumer.seek(at, start)
        return [await asyncio.wait_for(consumer.getone(), patience) for _ in range(count)]


@contextlib.asynccontextmanager
async def admin_client(bootstrap):
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def check_seek(bootstrap, topic):
    await send(bootstrap, topic, records(100))
    assert [m.offset for m in await read(bootstrap, topic, 42, 2)] == [42, 43]


async def check_timestamps(bootstrap, topic):
    base = int(time.time() - 3600) * 1000
    await send(bootstrap, topic, records(10), timestamps=[base + i * 1000 for i in range(10)])
    at = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as asking:
        assert (await asking.offsets_for_times({at: base + 3500}))[at].offset == 4
        assert (await asking.beginning_offsets([at]))[at] == 0
        assert (await asking.end_offsets([at]))[at] == 10


async def check_limits_below_a_batch(bootstrap, topic):
    await send(bootstrap, topic, [(b"k", b"y" * 50_000)] * 3, max_batch_size=60_000)
    found = await read(bootstrap, topic, 0, 3, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    assert [len(m.value) for m in found] == [50_000] * 3


async def check_large_records(bootstrap, topic):
    await send(bootstrap, topic, [(b"k", b"z" * 900_000)], max_request_size=5_000_000)
    assert len((await read(bootstrap, topic, 0, 1))[0].value) == 900_000
    try:
        await send(bootstrap, topic, [(b"k", b"z" * 2_000_000)], max_request_size=5_000_000)
    except MessageSizeTooLargeError:
        return
    raise AssertionError("2 MB were taken")


async def check_long_poll(bootstrap, topic):
    await send(bootstrap, topic, records(1))
    at = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=8000) as waiting:
        waiting.assign([at])
        waiting.seek(at, 1)
        assert await waiting.getmany(timeout_ms=500) == {}
        await send(bootstrap, topic, [(b"k", b"late")])
        began = time.time()
        message = await asyncio.wait_for(waiting.getone(), 7)
        assert message.value == b"late" and time.time() - began < 5


async def check_idempotence(bootstrap, topic):
    """Many batches: no gap, no repetition."""
    items = records(2000)
    offsets = await send(bootstrap, topic, items, enable_idempotence=True, max_batch_size=500)
    assert offsets == list(range(2000))


async def check_delete_records(bootstrap, topic):
    await send(bootstrap, topic, records(20))
    at = TopicPartition(topic, 0)
    async with admin_client(bootstrap) as admin:
        await admin.delete_records({at: RecordsToDelete(before_offset=7)})
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as asking:
        assert (await asking.beginning_offsets([at]))[at] == 7
    try:
        await read(bootstrap, topic, 0, 1)
    except OffsetOutOfRangeError:
        return
    raise AssertionError("offset 0 is still there")


async def check_admin(bootstrap, topic):
    async with admin_client(bootstrap) as admin:
        for code in (0, TopicAlreadyExistsError.errno):
            made = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert made.topic_errors[0][1] == code, made
        await admin.create_partitions({topic: NewPartitions(3)})
        [described] = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 3, described
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()


def blocking(check):
    def checked(bootstrap, topic):
        asyncio.run(check(bootstrap, topic))
    checked.__name__ = check.__name__
    return checked


def write_all(bootstrap, topic, codec, items):
    return asyncio.run(send(bootstrap, topic, items, None if codec == "none" else codec))


def read_all(bootstrap, topic, start, count):
    found = asyncio.run(read(bootstrap, topic, start, count))
    return [(m.offset, m.key, m.value) for m in found]


CHECKS = [check_seek, check_timestamps, check_limits_below_a_batch, check_large_records,
          check_long_poll, check_idempotence, check_delete_records, check_admin]

run(write_all, read_all, [blocking(check) for check in CHECKS])
