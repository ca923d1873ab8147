package harness;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;

/** Kafka's own cleaner over a log of many keys: what {@link Storage} fills, cleans and times. */
final class Compaction {
  private static final int RECORDS = 100;
  private static final int KEYS = 1_000_000;
  private static final int VALUE_BYTES = 200;
  private static final int MAP_BYTES = 128 << 20;
  private static final int BUFFER_BYTES = 1 << 20;

  private static Map<String, String> config() {
    Map<String, String> config = new HashMap<>();
    config.put("segment.bytes", "" + (128 << 20));
    config.put("retention.ms", "-1");
    config.put("cleanup.policy", "compact");
    config.put("file.delete.delay.ms", "0");
    return config;
  }

  /**
   * Makes a log of at least so many bytes, keys drawn evenly, values that compress to about half,
   * and an empty active segment. Returns its bytes.
   */
  static double fill(File dir, long bytes, String codec) throws Exception {
    Storage.remove(dir);
    Random random = new Random(5);
    try (var opened = new Storage.Opened(dir, config(), true)) {
      for (long written = 0; written < bytes; ) {
        MemoryRecords batch = batch(random, codec);
        written += batch.sizeInBytes();
        opened.log.appendAsLeader(batch, 0);
      }
      opened.log.roll();
      opened.log.flush(true);
      return opened.log.size();
    }
  }

  private static MemoryRecords batch(Random random, String codec) {
    MemoryRecordsBuilder builder = MemoryRecords.builder(
        ByteBuffer.allocate(RECORDS * (VALUE_BYTES + 40) + 200),
        Compression.of(CompressionType.forName(codec)).build(), TimestampType.CREATE_TIME, 0L);
    long now = System.currentTimeMillis();
    byte[] value = new byte[VALUE_BYTES];
    for (int i = 0; i < RECORDS; i++) {
      for (int b = 0; b < VALUE_BYTES; b++) {
        value[b] = (byte) ('a' + random.nextInt(16));
      }
      String key = String.format("key-%08d", random.nextInt(KEYS));
      builder.append(now, key.getBytes(StandardCharsets.UTF_8), value);
    }
    return builder.build();
  }

  /** Cleans a log that {@link #fill} made and returns the bytes of input a second. */
  static double clean(File dir) throws Exception {
    try (var opened = new Storage.Opened(dir, config(), true)) {
      opened.log.updateHighWatermark(opened.log.logEndOffset());
      long bytes = opened.log.size();
      Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(MAP_BYTES), BUFFER_BYTES, BUFFER_BYTES,
          0.9, new Throttler(Double.MAX_VALUE, 1_000, "cleaner", "bytes", Time.SYSTEM),
          Time.SYSTEM, partition -> { });
      long uncleanable = opened.log.activeSegment().baseOffset();
      long start = System.nanoTime();
      cleaner.clean(new LogToClean(opened.log, 0, uncleanable, false));
      return bytes / Storage.seconds(start);
    }
  }

  private Compaction() {}
}
