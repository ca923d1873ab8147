package harness;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own log, timed on demand in one warm JVM.
 *
 * <p>Each line of stdin is a command; the answer is one line with a number:
 *
 * <pre>
 * append DIR MIB RECORDS   bytes a second of a leader, batches of so many 100-byte records
 * read DIR COUNT           random reads a second
 * times DIR COUNT FROM TO  look-ups of timestamps between these a second
 * recover DIR              bytes a second of a start without the clean marker
 * many DIR SEGMENTS        makes so many small segments; answers their number
 * open DIR                 segments a second of a start with the clean marker
 * fill DIR MIB CODEC       makes a log for the cleaner, a million keys; answers its bytes
 * clean DIR                bytes of input a second of the cleaner, map of 128 MiB, one thread
 * </pre>
 */
public final class Storage {
  private static final int BATCHES = 64;

  private final Random random = new Random(1);

  public static void main(String[] args) throws Exception {
    Storage storage = new Storage();
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      System.out.println(storage.run(line.split(" ")));
      System.out.flush();
    }
    System.exit(0);
  }

  private double run(String[] words) throws Exception {
    File dir = new File(words[1]);
    return switch (words[0]) {
      case "append" -> append(dir, Long.parseLong(words[2]) << 20, Integer.parseInt(words[3]));
      case "read" -> read(dir, Integer.parseInt(words[2]));
      case "times" -> times(dir, Integer.parseInt(words[2]), Long.parseLong(words[3]),
          Long.parseLong(words[4]));
      case "recover" -> recover(dir);
      case "many" -> many(dir, Integer.parseInt(words[2]));
      case "open" -> open(dir);
      case "fill" -> Compaction.fill(dir, Long.parseLong(words[2]) << 20, words[3]);
      case "clean" -> Compaction.clean(dir);
      default -> throw new IllegalArgumentException(words[0]);
    };
  }

  /** A log with its scheduler; closing waits for what runs in the background. */
  static final class Opened implements AutoCloseable {
    final KafkaScheduler scheduler = new KafkaScheduler(1);
    final UnifiedLog log;

    Opened(File dir, Map<String, String> config, boolean clean) throws IOException {
      scheduler.startup();
      Files.createDirectories(dir.toPath());
      log = UnifiedLog.create(dir, new LogConfig(config), 0L, 0L, scheduler,
          new BrokerTopicStats(), Time.SYSTEM, 300_000,
          new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(4),
          clean, Optional.empty());
    }

    @Override
    public void close() {
      try {
        scheduler.shutdown();
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
      log.close();
    }
  }

  private static Map<String, String> config() {
    Map<String, String> config = new HashMap<>();
    config.put("segment.bytes", "1073741824");
    config.put("retention.ms", "-1");
    return config;
  }

  private MemoryRecords batch(int records) {
    MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(records * 150 + 200),
        Compression.NONE, TimestampType.CREATE_TIME, 0L);
    long now = System.currentTimeMillis();
    for (int i = 0; i < records; i++) {
      byte[] value = new byte[100];
      random.nextBytes(value);
      builder.append(now, null, value);
    }
    return builder.build();
  }

  private double append(File dir, long bytes, int records) throws Exception {
    remove(dir);
    MemoryRecords[] batches = new MemoryRecords[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
      batches[i] = batch(records);
    }
    try (Opened opened = new Opened(dir, config(), true)) {
      long written = 0;
      long start = System.nanoTime();
      for (int i = 0; written < bytes; i++) {
        MemoryRecords next = batches[i % BATCHES];
        next.buffer().putLong(0, 0L);
        written += next.sizeInBytes();
        opened.log.appendAsLeader(next, 0);
      }
      double rate = written / seconds(start);
      // A bare close leaves the indexes of the active segment at full length.
      opened.log.roll();
      return rate;
    }
  }

  private double read(File dir, int count) throws Exception {
    try (Opened opened = new Opened(dir, config(), true)) {
      long end = opened.log.logEndOffset();
      long start = System.nanoTime();
      for (int i = 0; i < count; i++) {
        long offset = (long) (random.nextDouble() * end);
        var fetched = opened.log.read(offset, 4096, FetchIsolation.LOG_END, true);
        if (fetched.records.sizeInBytes() == 0) {
          throw new IllegalStateException("nothing at " + offset);
        }
      }
      return count / seconds(start);
    }
  }

  private double times(File dir, int count, long from, long to) throws Exception {
    try (Opened opened = new Opened(dir, config(), true)) {
      long start = System.nanoTime();
      for (int i = 0; i < count; i++) {
        long time = from + (long) (random.nextDouble() * (to - from));
        var found = opened.log.fetchOffsetByTimestamp(time, Optional.empty());
        if (found.timestampAndOffsetOpt().isEmpty()) {
          throw new IllegalStateException("nothing at " + time);
        }
      }
      return count / seconds(start);
    }
  }

  private double recover(File dir) throws Exception {
    for (File file : dir.listFiles((folder, name) -> name.endsWith(".snapshot"))) {
      Files.delete(file.toPath());
    }
    long start = System.nanoTime();
    try (Opened opened = new Opened(dir, config(), false)) {
      double rate = opened.log.size() / seconds(start);
      opened.log.roll();
      return rate;
    }
  }

  private double many(File dir, int segments) throws Exception {
    remove(dir);
    Map<String, String> config = config();
    config.put("segment.index.bytes", "4096");
    MemoryRecords batch = batch(10);
    try (Opened opened = new Opened(dir, config, true)) {
      for (int i = 0; i < segments; i++) {
        batch.buffer().putLong(0, 0L);
        opened.log.appendAsLeader(batch, 0);
        opened.log.roll();
      }
      return opened.log.numberOfSegments();
    }
  }

  private double open(File dir) throws Exception {
    Map<String, String> config = config();
    config.put("segment.index.bytes", "4096");
    long start = System.nanoTime();
    try (Opened opened = new Opened(dir, config, true)) {
      double seconds = seconds(start);
      return opened.log.numberOfSegments() / seconds;
    }
  }

  static double seconds(long start) {
    return (System.nanoTime() - start) / 1e9;
  }

  static void remove(File dir) throws IOException {
    if (!dir.exists()) {
      return;
    }
    try (Stream<Path> paths = Files.walk(dir.toPath())) {
      paths.sorted(Comparator.reverseOrder()).forEach(path -> {
        try {
          Files.delete(path);
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      });
    }
  }

  private Storage() {}
}
