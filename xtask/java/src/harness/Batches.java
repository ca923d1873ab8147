package harness;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import java.util.zip.CRC32C;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Random batches, and what breaks one. */
final class Batches {
  private static final int TRANSACTIONAL = 0x10;
  private static final int CONTROL = 0x20;

  private final Random random;
  private final DrivenLog.Clock clock;

  Batches(Random random, DrivenLog.Clock clock) {
    this.random = random;
    this.clock = clock;
  }

  /** What a batch says of its producer; -1 for none. */
  record Producer(long id, short epoch, int sequence, boolean transactional) {
    static final Producer NONE = new Producer(-1, (short) -1, -1, false);
  }

  private boolean oneIn(int count) {
    return random.nextInt(count) == 0;
  }

  /** Mostly a little below the clock; now and then at an edge of what a topic accepts. */
  long time() {
    long now = clock.ms;
    return switch (random.nextInt(24)) {
      case 0 -> -1;
      case 1 -> 0;
      case 2 -> Long.MAX_VALUE;
      case 3 -> now + 3_600_000;
      case 4 -> now + 3_600_001;
      case 5 -> now - 1_000;
      case 6 -> now - 1_001;
      case 7, 8 -> now - random.nextInt(200_000);
      default -> now - random.nextInt(50);
    };
  }

  SimpleRecord[] records(int most, boolean keyed) {
    SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(most)];
    boolean calm = !oneIn(6);
    for (int i = 0; i < records.length; i++) {
      byte[] key = !keyed && oneIn(3) ? null : utf8(oneIn(30) ? "" : "k" + random.nextInt(50));
      byte[] value = oneIn(9) ? null : new byte[random.nextInt(oneIn(12) ? 900 : 120)];
      if (value != null) {
        random.nextBytes(value);
      }
      Header[] headers = oneIn(6)
          ? new Header[] {new RecordHeader("h", null), new RecordHeader("", new byte[0])}
          : new Header[0];
      long time = calm ? clock.ms - random.nextInt(50) : time();
      records[i] = new SimpleRecord(time, key, value, headers);
    }
    return records;
  }

  /** None half of the time. */
  Compression codec() {
    int roll = random.nextInt(8);
    return Compression.of(CompressionType.forId(roll < 5 ? roll : 0)).build();
  }

  byte[] batch(long base, Producer producer, int leaderEpoch, SimpleRecord... records) {
    return batch(base, producer, leaderEpoch, TimestampType.CREATE_TIME, 1, records);
  }

  /** A batch in which the next offset is up to {@code step} above the one before. */
  byte[] batch(long base, Producer producer, int leaderEpoch, TimestampType type, int step,
      SimpleRecord... records) {
    ByteBuffer room = ByteBuffer.allocate(100_000);
    long appendTime = type == TimestampType.LOG_APPEND_TIME ? clock.ms : -1;
    try (var builder = new MemoryRecordsBuilder(room, RecordBatch.MAGIC_VALUE_V2, codec(), type,
        base, appendTime, producer.id, producer.epoch, producer.sequence, producer.transactional,
        false, leaderEpoch, room.capacity())) {
      long offset = base;
      for (SimpleRecord record : records) {
        builder.appendWithOffset(offset, record);
        offset += 1 + random.nextInt(step);
      }
      if (step > 1 && oneIn(2)) {
        builder.overrideLastOffset(offset + random.nextInt(step));
      }
      return bytes(builder.build());
    }
  }

  /** A batch of a client with something that a log may refuse. */
  byte[] flawed(byte[] batch) {
    ByteBuffer header = ByteBuffer.wrap(batch);
    switch (random.nextInt(12)) {
      case 0 -> {
        batch[batch.length - 1] ^= 0x40;
        return batch;
      }
      case 1 -> header.putInt(8, batch.length + random.nextInt(30));
      case 2 -> {
        return Arrays.copyOf(batch, batch.length - 1 - random.nextInt(batch.length));
      }
      case 3 -> header.putLong(0, 1 + random.nextInt(4));
      case 4 -> header.putInt(57, random.nextInt(5) - 1);
      case 5 -> header.putInt(23, random.nextInt(6) - 2);
      case 6 -> header.putShort(21, (short) (batch[22] ^ 8 << random.nextInt(4)));
      case 7 -> header.putLong(35, new long[] {-1, 0, Long.MAX_VALUE, -5}[random.nextInt(4)]);
      case 8 -> header.putLong(43, 90);
      case 9 -> batch[16] = (byte) (random.nextInt(5) - 1);
      case 10 -> header.putInt(12, random.nextInt(9) - 2);
      default -> {
        header.putLong(43, 95).putShort((short) random.nextInt(2));
        header.putInt(53, random.nextInt(2) * Integer.MAX_VALUE);
      }
    }
    return oneIn(4) ? batch : summed(batch);
  }

  /** As a control batch. */
  static byte[] control(byte[] batch, boolean transactional) {
    batch[22] |= (byte) (CONTROL | (transactional ? TRANSACTIONAL : 0));
    return summed(batch);
  }

  /** With the right checksum. */
  private static byte[] summed(byte[] batch) {
    CRC32C crc = new CRC32C();
    crc.update(batch, 21, batch.length - 21);
    ByteBuffer.wrap(batch).putInt(17, (int) crc.getValue());
    return batch;
  }

  static byte[] bytes(MemoryRecords records) {
    byte[] bytes = new byte[records.sizeInBytes()];
    records.buffer().duplicate().get(bytes);
    return bytes;
  }

  static byte[] joined(byte[] first, byte[] second) {
    return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
