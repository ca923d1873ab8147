package harness;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * Has Kafka's own cleaner clean logs in several passes, and keeps the directory before and after
 * each, with what the cleaner was given and what it reported.
 *
 * <p>usage: Cleanings SEED OUT
 */
public final class Cleanings {
  private static final int BUFFER_BYTES = 64 << 10;
  private static final int MAX_BUFFER_BYTES = 1 << 20;
  private static final double LOAD_FACTOR = 0.9;

  /** When each pass runs, in milliseconds after the first: `delete.retention.ms` is 60,000. */
  private static final long[] PASSES = {0, 30_000, 61_000, 200_000};

  /** What the records of a log are like. */
  private record Kind(String name, int keys, int valueBytes, int tombstonePercent, int mapBytes) {}

  private static final List<Kind> KINDS = List.of(
      new Kind("plain", 60, 200, 12, 1 << 20),
      new Kind("tombstones", 60, 200, 45, 1 << 20),
      new Kind("codecs", 60, 200, 12, 1 << 20),
      new Kind("idempotent", 60, 200, 12, 1 << 20),
      new Kind("transactions", 60, 200, 12, 1 << 20),
      new Kind("small-map", 5_000, 60, 12, 24 * 700));

  private final Kind kind;
  private final Random random;
  private final DrivenLog driven;
  private final int[] sequences = new int[8];
  private final boolean[] open = new boolean[8];

  private Cleanings(Kind kind, long seed, DrivenLog driven) {
    this.kind = kind;
    this.random = new Random(seed * 31 + kind.name.hashCode());
    this.driven = driven;
  }

  public static void main(String[] args) throws Exception {
    for (Kind kind : KINDS) {
      File work = Files.createTempDirectory("cleanings").toFile();
      Map<String, String> config = config();
      DrivenLog driven = new DrivenLog(new File(work, kind.name + "-0"), config);
      Path out = Path.of(args[1]).resolve(kind.name);
      List<String> passes = new Cleanings(kind, Long.parseLong(args[0]), driven).passes(out);
      String settings = config.entrySet().stream()
          .map(entry -> "\"" + entry.getKey() + "\":\"" + entry.getValue() + "\"")
          .collect(Collectors.joining(",", "{", "}"));
      Files.writeString(out.resolve("params.json"),
          "{\"config\":" + settings + ",\n\"passes\":[\n" + String.join(",\n", passes) + "\n]}\n");
      driven.close();
      Storage.remove(work);
    }
    System.exit(0);
  }

  private static Map<String, String> config() {
    Map<String, String> config = new LinkedHashMap<>();
    config.put("cleanup.policy", "compact");
    config.put("internal.segment.bytes", "16384");
    config.put("index.interval.bytes", "512");
    config.put("segment.index.bytes", "8192");
    config.put("delete.retention.ms", "60000");
    config.put("file.delete.delay.ms", "0");
    config.put("retention.ms", "-1");
    config.put("message.timestamp.after.max.ms", "" + Long.MAX_VALUE);
    return config;
  }

  private List<String> passes(Path out) throws Exception {
    List<String> lines = new ArrayList<>();
    long firstDirty = 0;
    for (int pass = 1; pass <= PASSES.length; pass++) {
      fill(pass == 1 ? 80 : 28);
      driven.log.roll();
      driven.log.updateHighWatermark(driven.log.logEndOffset());
      driven.log.flush(false);
      if (firstUncleanable() <= firstDirty) {
        endAll();
      }
      Path dir = out.resolve("pass-" + pass);
      driven.copyTo(dir.resolve("before").resolve(driven.dir.getName()));
      long now = DrivenLog.START_MS + 10_000_000 + PASSES[pass - 1];
      long firstUncleanable = firstUncleanable();
      Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(kind.mapBytes), BUFFER_BYTES,
          MAX_BUFFER_BYTES, LOAD_FACTOR,
          new Throttler(Double.MAX_VALUE, 1_000, "cleaner", "bytes", Time.SYSTEM), Time.SYSTEM,
          partition -> { });
      var toClean = new LogToClean(driven.log, firstDirty, firstUncleanable, false);
      var done = cleaner.doClean(toClean, now);
      driven.copyTo(dir.resolve("after").resolve(driven.dir.getName()));
      var stats = done.getValue();
      lines.add(String.format("{\"pass\":%d,\"first_dirty_offset\":%d,"
          + "\"first_uncleanable_offset\":%d,\"now_ms\":%d,\"offset_map_bytes\":%d,"
          + "\"io_buffer_bytes\":%d,\"max_io_buffer_bytes\":%d,\"dup_buffer_load_factor\":%s,"
          + "\"next_dirty_offset\":%d,\"messages_read\":%d,\"messages_written\":%d,"
          + "\"bytes_read\":%d,\"bytes_written\":%d,\"last_stable_offset\":%d,"
          + "\"log_end_offset\":%d}",
          pass, firstDirty, firstUncleanable, now, kind.mapBytes, BUFFER_BYTES, MAX_BUFFER_BYTES,
          LOAD_FACTOR, done.getKey(), stats.messagesRead(), stats.messagesWritten(),
          stats.bytesRead(), stats.bytesWritten(), driven.log.lastStableOffset(),
          driven.log.logEndOffset()));
      firstDirty = done.getKey();
    }
    return lines;
  }

  /** The base of the first segment that is active or holds an open transaction. */
  private long firstUncleanable() {
    long bound =
        Math.min(driven.log.activeSegment().baseOffset(), driven.log.lastStableOffset());
    return driven.log.logSegments().stream().mapToLong(LogSegment::baseOffset)
        .filter(base -> base <= bound).max().orElse(0);
  }

  private void fill(int batches) throws Exception {
    for (int i = 0; i < batches; i++) {
      switch (kind.name) {
        case "transactions" -> transactional(random.nextInt(3));
        case "idempotent" -> {
          int producer = random.nextInt(4);
          SimpleRecord[] records = records();
          append(MemoryRecords.withIdempotentRecords(
              Compression.NONE, 200 + producer, (short) 0, sequences[producer], records));
          sequences[producer] += records.length;
        }
        case "codecs" -> append(MemoryRecords.withRecords(
            Compression.of(CompressionType.forId(random.nextInt(5))).build(), records()));
        default -> append(MemoryRecords.withRecords(Compression.NONE, records()));
      }
    }
  }

  private void transactional(int producer) throws Exception {
    if (open[producer] && random.nextInt(3) == 0) {
      end(producer, random.nextInt(3) == 0 ? ControlRecordType.ABORT : ControlRecordType.COMMIT);
      return;
    }
    Compression codec =
        random.nextInt(3) == 0 ? Compression.lz4().build() : Compression.NONE;
    SimpleRecord[] records = records();
    append(MemoryRecords.withTransactionalRecords(
        codec, 100 + producer, (short) 0, sequences[producer], records));
    sequences[producer] += records.length;
    open[producer] = true;
  }

  /** Ends what is open: a broker would not clean where nothing may be cleaned. */
  private void endAll() throws Exception {
    for (int producer = 0; producer < open.length; producer++) {
      if (open[producer]) {
        end(producer, ControlRecordType.COMMIT);
      }
    }
    driven.log.roll();
    driven.log.updateHighWatermark(driven.log.logEndOffset());
    driven.log.flush(false);
  }

  private void end(int producer, ControlRecordType type) throws Exception {
    driven.log.appendAsLeader(MemoryRecords.withEndTransactionMarker(driven.clock.ms,
        100 + producer, (short) 0, new EndTransactionMarker(type, 0)), 0,
        AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
    open[producer] = false;
  }

  private void append(MemoryRecords records) throws Exception {
    driven.log.appendAsLeader(records, 0);
  }

  private SimpleRecord[] records() {
    SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(15)];
    for (int i = 0; i < records.length; i++) {
      driven.clock.ms += random.nextInt(200);
      byte[] value = null;
      if (random.nextInt(100) >= kind.tombstonePercent) {
        value = new byte[random.nextInt(kind.valueBytes)];
        for (int b = 0; b < value.length; b++) {
          value[b] = (byte) ('a' + random.nextInt(8));
        }
      }
      Header[] headers = random.nextInt(8) == 0
          ? new Header[] {new RecordHeader("h", new byte[] {1, 2, 3})}
          : new Header[0];
      byte[] key = ("key-" + random.nextInt(kind.keys)).getBytes(StandardCharsets.UTF_8);
      long time = driven.clock.ms - (random.nextInt(20) == 0 ? 3_000 : 0);
      records[i] = new SimpleRecord(time, key, value, headers);
    }
    return records;
  }
}
