package harness;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Writes one log of magic 0 and one of magic 1: plain, and in gzip, snappy and lz4 wrappers, with
 * gaps, null keys and values, and for magic 1 both kinds of time. The same bytes every time.
 *
 * <p>usage: LegacyLogs OUT
 */
public final class LegacyLogs {
  private static final long DAY_ONE = 1_420_000_000_000L;
  private static final int SETS = 32;

  public static void main(String[] args) throws Exception {
    for (byte magic = 0; magic <= 1; magic++) {
      Path folder = Path.of(args[0]).resolve("magic" + magic + "-0");
      Files.createDirectories(folder);
      Path log = folder.resolve("00000000000000000000.log");
      try (FileChannel file =
          FileChannel.open(log, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
        long offset = 0;
        for (int set = 0; set < SETS; set++) {
          offset = write(file, magic, set, offset);
        }
      }
    }
  }

  private static long write(FileChannel file, byte magic, int set, long offset) throws Exception {
    long time = DAY_ONE + set * 1_000L;
    boolean appendTime = magic == 1 && set % 5 == 3;
    TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
        : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
    MemoryRecordsBuilder builder = MemoryRecords.builder(
        ByteBuffer.allocate(1 << 14), magic, compression(set), type, offset, time);
    int count = 1 + set * 5 % 7;
    for (int i = 0; i < count; i++) {
      long at = magic == 0 ? RecordBatch.NO_TIMESTAMP : appendTime ? time : time + i;
      byte[] key = (set + i) % 6 == 0 ? null : utf8("k" + (set * i) % 11);
      byte[] value = (set + i) % 8 == 1 ? null : utf8("clay ".repeat((set + 3 * i) % 15));
      builder.appendWithOffset(offset + i, at, key, value);
    }
    file.write(builder.build().buffer());
    return offset + count + (set % 9 == 4 ? 2 : 0);
  }

  private static Compression compression(int set) {
    List<Compression> codecs = List.of(Compression.NONE, Compression.gzip().build(),
        Compression.snappy().build(), Compression.lz4().build());
    return codecs.get(set % codecs.size());
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private LegacyLogs() {}
}
