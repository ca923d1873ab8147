package harness;

import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Traces of wider logs: any settings, every origin and kind of producer in one log, elections,
 * kills and damage.
 *
 * <p>usage: WideTraces FROM TO OUT, for a trace of each seed
 */
public final class WideTraces {
  private static final int PRODUCERS = 5;
  private static final long FIRST_PRODUCER = 50;
  private static final long DAY_MS = 86_400_000;

  private final Random random;
  private final DrivenLog driven;
  private final Operations ops;
  private final Batches batches;
  private final Map<String, String> config;
  /** Which appends are frequent. */
  private final int mode;
  private final int[] sequences = new int[PRODUCERS];
  private final short[] epochs = new short[PRODUCERS];
  private final boolean[] open = new boolean[PRODUCERS];
  private final List<byte[]> sent = new ArrayList<>();
  private int leaderEpoch;

  private WideTraces(Random random, Map<String, String> config, DrivenLog driven, Operations ops) {
    this.random = random;
    this.config = config;
    this.driven = driven;
    this.ops = ops;
    this.batches = new Batches(random, driven.clock);
    this.mode = random.nextInt(4);
  }

  public static void main(String[] args) throws Exception {
    for (long seed = Long.parseLong(args[0]); seed <= Long.parseLong(args[1]); seed++) {
      try {
        scenario(Path.of(args[2]), "wide-" + seed, seed, 300);
      } catch (Exception error) {
        System.out.println("no trace of seed " + seed + ": " + error);
        Storage.remove(Path.of(args[2], "wide-" + seed).toFile());
      }
    }
    System.exit(0);
  }

  /** The traces of the golden set. */
  static void all(Path out, long seed) throws Exception {
    for (int i = 1; i <= 6; i++) {
      scenario(out, "wide-" + i, seed * 1_000_003 + i, 100);
    }
  }

  private static void scenario(Path out, String name, long seed, int operations)
      throws Exception {
    Random random = new Random(seed);
    Map<String, String> config = settings(random);
    File work = Files.createTempDirectory("traces").toFile();
    DrivenLog driven = new DrivenLog(new File(work, name + "-0"), config);
    Path folder = out.resolve(name);
    try (var trace = new TraceWriter(folder.resolve("trace.jsonl"), driven, config)) {
      var ops = new Operations(driven, trace, folder);
      var traces = new WideTraces(random, config, driven, ops);
      // As a broker does before it takes the first append.
      ops.assignEpoch(0, 0);
      for (int i = 0; i < operations && !traces.isStuck(); i++) {
        driven.clock.ms += random.nextInt(400);
        traces.step();
      }
      ops.close();
    }
    driven.copyTo(folder.resolve("final").resolve(name + "-0"));
    Storage.remove(work);
  }

  /** A refused append may leave an active segment beyond the log end: Kafka then refuses to roll,
   * or writes into that segment what lies below its base. */
  private boolean isStuck() {
    return driven.log.activeSegment().baseOffset() > driven.log.logEndOffset();
  }

  private static Map<String, String> settings(Random random) {
    Map<String, String> config = new LinkedHashMap<>();
    config.put("internal.segment.bytes", any(random, "700", "1500", "3000", "12000"));
    config.put("index.interval.bytes", any(random, "0", "1", "100", "400", "4096", "1000000"));
    config.put("segment.index.bytes", any(random, "1000", "8192"));
    config.put("file.delete.delay.ms", "0");
    config.put("retention.ms", any(random, "-1", "-1", "-1", "0", "1000", "60000"));
    config.put("retention.bytes", any(random, "-1", "-1", "0", "1", "3000", "30000"));
    config.put("max.message.bytes", any(random, "700", "6000", "6000", "1048588"));
    maybe(random, config, "segment.ms", "1", "1000", "15000");
    maybe(random, config, "message.timestamp.type", "LogAppendTime", "CreateTime");
    maybe(random, config, "message.timestamp.before.max.ms", "0", "1000", "30000");
    maybe(random, config, "message.timestamp.after.max.ms", "0", "1000", "" + Long.MAX_VALUE);
    maybe(random, config, "cleanup.policy", "compact", "delete", "compact,delete");
    maybe(random, config, "flush.messages", "1", "7", "50");
    maybe(random, config, "flush.ms", "0", "500");
    maybe(random, config, "preallocate", "true");
    return config;
  }

  private static void maybe(
      Random random, Map<String, String> config, String key, String... values) {
    if (random.nextInt(4) == 0) {
      config.put(key, any(random, values));
    }
  }

  private static String any(Random random, String... values) {
    return values[random.nextInt(values.length)];
  }

  private long any(long... values) {
    return values[random.nextInt(values.length)];
  }

  private boolean oneIn(int count) {
    return random.nextInt(count) == 0;
  }

  private void step() throws Exception {
    long start = driven.log.logStartOffset();
    long end = driven.log.logEndOffset();
    long mark = driven.log.highWatermark();
    long base = driven.log.activeSegment().baseOffset();
    long within = start + (long) (random.nextDouble() * Math.max(1, end - start));
    int choice = random.nextInt(100);
    if (choice < 48) {
      append();
    } else if (choice < 52) {
      ops.highWatermark(any(end, end, mark + random.nextInt(30), mark - 5, start, within));
    } else if (choice < 54) {
      ops.raiseHighWatermark(any(end, end + 1, start, within));
    } else if (choice < 65) {
      int most = (int) any(0, 1, 60, 61, random.nextInt(400), random.nextInt(5_000));
      long offset = any(within, within, within, within, within, end, end + 1, start - 1, mark);
      FetchIsolation isolation = FetchIsolation.values()[random.nextInt(3)];
      ops.read(offset, most, isolation, random.nextBoolean());
    } else if (choice < 71) {
      long now = driven.clock.ms;
      ops.byTime(oneIn(2) ? now - random.nextInt(120_000)
          : any(-1, -2, -3, -4, -5, -6, 0, Long.MAX_VALUE, now, now + 3_600_000));
    } else if (choice < 73) {
      ops.roll();
    } else if (choice < 76) {
      ops.logStart(any(within, mark, end, end + 1, start, mark + 1, base));
    } else if (choice < 79) {
      ops.deleteOldSegments();
    } else if (choice < 81) {
      ops.truncate(any(end - random.nextInt(40), within, end, end + 1, start, start - 1, base));
    } else if (choice < 84) {
      ops.epochEnd(random.nextInt(leaderEpoch + 3) - 1);
    } else if (choice < 86) {
      leaderEpoch += random.nextInt(2);
      ops.assignEpoch(Math.max(0, leaderEpoch - random.nextInt(2)), any(end, end, end - 3, end + 2));
    } else if (choice < 87) {
      ops.expireProducers();
    } else if (choice < 89) {
      ops.producers();
    } else if (choice < 90) {
      change();
    } else if (choice < 92) {
      ops.flush();
    } else if (choice < 97) {
      restart();
    } else if (choice < 99) {
      driven.clock.ms += any(1_000, 30_000, DAY_MS + 1);
    } else if (oneIn(3)) {
      long to = any(0, within, end + 1_000, 5_000_000_000L);
      ops.truncateFully(to, oneIn(2) ? Optional.empty() : Optional.of(Math.max(0, to - 3)));
    }
  }

  /** New settings, but for those that an open log may take over at different times. */
  private void change() {
    Map<String, String> next = settings(random);
    for (String key : List.of("index.interval.bytes", "segment.index.bytes")) {
      next.put(key, config.get(key));
    }
    next.put("preallocate", config.getOrDefault("preallocate", "false"));
    config.clear();
    config.putAll(next);
    ops.settings(next);
  }

  private void append() {
    int roll = random.nextInt(10);
    switch (mode) {
      case 0 -> choose(roll < 7 ? 0 : roll < 9 ? 1 : 4);
      case 1 -> choose(roll < 6 ? 2 : roll < 9 ? 3 : 0);
      case 2 -> choose(roll < 9 ? 4 : 3);
      default -> choose(roll / 2);
    }
  }

  private void choose(int kind) {
    switch (kind) {
      case 0 -> client();
      case 1, 2 -> sequenced(kind == 2);
      case 3 -> marker();
      default -> given(oneIn(4) ? "raft" : "replication");
    }
  }

  private boolean append(byte[] bytes, String origin, int epoch, int transactionVersion) {
    sent.add(bytes.clone());
    return ops.append(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)), origin, epoch,
        transactionVersion);
  }

  private boolean keyed() {
    return config.getOrDefault("cleanup.policy", "").contains("compact") && !oneIn(12);
  }

  private void client() {
    var type = oneIn(25) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
    byte[] batch = batches.batch(0, Batches.Producer.NONE, -1, type, oneIn(30) ? 3 : 1,
        batches.records(8, keyed()));
    batch = oneIn(3) ? batches.flawed(batch) : batch;
    append(oneIn(30) ? Batches.joined(batch, batch) : batch, "client", leaderEpoch, 1);
  }

  /** Batches in order, with gaps, of old and new epochs, at the largest sequence, and again. */
  private void sequenced(boolean transactional) {
    int producer = random.nextInt(PRODUCERS);
    var records = batches.records(5, keyed());
    int flaw = random.nextInt(24);
    if (flaw == 0) {
      epochs[producer] = (short) (oneIn(8) ? Short.MAX_VALUE : epochs[producer] + 1);
      sequences[producer] = 0;
    }
    int sequence = switch (flaw) {
      case 1 -> sequences[producer] + 1 + random.nextInt(3);
      case 2 -> Math.max(0, sequences[producer] - 1 - random.nextInt(6));
      case 3 -> Integer.MAX_VALUE - random.nextInt(4);
      default -> sequences[producer];
    };
    short epoch = (short) Math.max(0, epochs[producer] - (flaw == 4 ? 1 : 0));
    var from = new Batches.Producer(
        FIRST_PRODUCER + producer, epoch, sequence, transactional != (flaw == 5));
    if (append(batches.batch(0, from, -1, records), "client", leaderEpoch, 1)) {
      sequences[producer] = (sequence + records.length) & Integer.MAX_VALUE;
      open[producer] |= from.transactional();
    } else if (flaw > 5 && oneIn(3)) {
      epochs[producer] = (short) Math.min(Short.MAX_VALUE, epochs[producer] + 1);
      sequences[producer] = 0;
    }
    if (oneIn(7)) {
      int back = 1 + random.nextInt(Math.min(7, sent.size()));
      append(sent.get(sent.size() - back), "client", leaderEpoch, 1);
    }
  }

  /** The end of a transaction, or of one that is not there, by any version of the protocol. */
  private void marker() {
    int producer = random.nextInt(PRODUCERS);
    for (int i = 0; i < PRODUCERS && !open[producer] && !oneIn(6); i++) {
      producer = (producer + 1) % PRODUCERS;
    }
    int version = random.nextInt(3);
    int bump = (version == 2 && !oneIn(5) ? 1 : 0) + (oneIn(15) ? 1 : 0) - (oneIn(15) ? 1 : 0);
    short epoch = (short) Math.max(0, Math.min(Short.MAX_VALUE, epochs[producer] + bump));
    long id = oneIn(20) ? 77 : FIRST_PRODUCER + producer;
    long time = oneIn(8) ? batches.time() : driven.clock.ms;
    var marker = MemoryRecords.withEndTransactionMarker(time, id, epoch, outcome());
    if (append(Batches.bytes(marker), "coordinator", leaderEpoch, version) && id != 77) {
      open[producer] = false;
      sequences[producer] = epoch > epochs[producer] ? 0 : sequences[producer];
      epochs[producer] = (short) Math.max(epoch, epochs[producer]);
    }
  }

  private EndTransactionMarker outcome() {
    var type = oneIn(3) ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
    return new EndTransactionMarker(type, oneIn(12) ? random.nextInt(4) : 1);
  }

  /** Batches that bring their offsets: with gaps, across epochs, now and then broken. */
  private void given(String origin) {
    leaderEpoch += oneIn(12) ? 1 : 0;
    long base = driven.log.logEndOffset();
    base += oneIn(10) ? random.nextInt(500) : oneIn(70) ? any(1L << 31, 1L << 32, 3L << 30) : 0;
    base -= oneIn(25) && base > 4 ? 1 + random.nextInt(4) : 0;
    int epoch = leaderEpoch + (oneIn(12) ? 1 : 0);
    byte[] all = new byte[0];
    for (int i = random.nextInt(3); i >= 0; i--) {
      byte[] batch = given(base, epoch);
      all = Batches.joined(all, batch);
      base += ByteBuffer.wrap(batch).getInt(23) + 1 + (oneIn(6) ? random.nextInt(30) : 0);
    }
    if (oneIn(25)) {
      all[20] ^= 1;
    } else if (oneIn(25)) {
      all = Arrays.copyOf(all, all.length - 1 - random.nextInt(60));
    }
    append(all, origin, oneIn(8) ? Math.max(0, leaderEpoch - 1) : leaderEpoch, 1);
  }

  private byte[] given(long base, int epoch) {
    int producer = random.nextInt(PRODUCERS);
    long id = FIRST_PRODUCER + producer;
    switch (random.nextInt(8)) {
      case 0 -> {
        open[producer] = false;
        return Batches.bytes(MemoryRecords.withEndTransactionMarker(
            base, driven.clock.ms, epoch, id, epochs[producer], outcome()));
      }
      case 1, 2, 3 -> {
        var records = batches.records(5, false);
        int sequence = oneIn(20) ? random.nextInt(9) : sequences[producer];
        sequences[producer] = (sequence + records.length) & Integer.MAX_VALUE;
        open[producer] |= !oneIn(4);
        return batches.batch(base,
            new Batches.Producer(id, epochs[producer], sequence, open[producer]), epoch, records);
      }
      case 4 -> {
        return Batches.bytes(MemoryRecords.withLeaderChangeMessage(base, driven.clock.ms, epoch,
            ByteBuffer.allocate(300), new LeaderChangeMessage().setLeaderId(1)));
      }
      default -> {
        return batches.batch(base, Batches.Producer.NONE, epoch, TimestampType.CREATE_TIME,
            oneIn(4) ? 40 : 1, batches.records(6, false));
      }
    }
  }

  private void restart() throws Exception {
    long start = oneIn(3) ? 0 : driven.log.logStartOffset();
    if (oneIn(2)) {
      ops.stopAndStart(oneIn(2) ? 0 : driven.log.logEndOffset(), start);
    } else {
      long point = any(0, driven.log.recoveryPoint(), driven.log.recoveryPoint(), start);
      ops.killAndStart(point, start, dir -> {
        for (int i = random.nextInt(3); i > 0; i--) {
          damage(dir, point);
        }
      });
    }
    for (LogSegment segment : driven.log.logSegments()) {
      // What Kafka has not read before a truncation it does not read after it either: then it
      // finds no time in that segment any more.
      segment.largestTimestamp();
    }
    ops.producers();
  }

  /** Damages a file of a segment that the next start recovers. */
  private void damage(Path dir, long recoveryPoint) throws Exception {
    long[] bases = driven.log.logSegments().stream().mapToLong(LogSegment::baseOffset).toArray();
    int first = 0;
    while (first + 1 < bases.length && bases[first + 1] <= recoveryPoint) {
      first++;
    }
    int index = oneIn(2) ? bases.length - 1 : first + random.nextInt(bases.length - first);
    String[] kinds = {"log", "log", "log", "index", "timeindex", "txnindex", "snapshot"};
    String kind = kinds[random.nextInt(kinds.length)];
    Path file = dir.resolve(String.format("%020d.%s", bases[index], kind));
    if (!Files.exists(file)) {
      return;
    }
    int length = (int) Files.size(file);
    int choice = random.nextInt(4);
    if (choice == 3 && !kind.equals("log")) {
      Files.delete(file);
      return;
    }
    try (var bytes = new RandomAccessFile(file.toFile(), "rw")) {
      if (choice == 0) {
        bytes.setLength(length + 1 + random.nextInt(100));
      } else if (choice == 1 && length > 0) {
        // Not in a base offset: no checksum covers it.
        int at = kind.equals("log") ? length - 1 - random.nextInt(Math.min(length, 40))
            : random.nextInt(length);
        bytes.seek(at);
        int old = bytes.read();
        bytes.seek(at);
        bytes.write(old ^ 1);
      } else {
        bytes.setLength(Math.max(0, length - 1 - random.nextInt(oneIn(2) ? 20 : 400)));
      }
    }
  }
}
