package harness;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.storage.log.FetchIsolation;

/**
 * Puts Kafka's own log through random operations and writes down each with its result.
 *
 * <p>usage: Traces SEED OUT
 */
public final class Traces {
  private static final int PRODUCERS = 4;
  private static final long FIRST_PRODUCER = 50;

  /** Who appends what. */
  private enum Kind { LEADER, FOLLOWER, IDEMPOTENT, TRANSACTIONAL }

  private final Kind kind;
  private final Random random;
  private final DrivenLog driven;
  private final Operations ops;
  private final boolean compacted;
  private final int[] sequences = new int[PRODUCERS];
  private final short[] epochs = new short[PRODUCERS];
  private final boolean[] open = new boolean[PRODUCERS];
  private int leaderEpoch;

  private Traces(Kind kind, long seed, Map<String, String> config, DrivenLog driven,
      Operations ops) {
    this.kind = kind;
    this.random = new Random(seed);
    this.driven = driven;
    this.ops = ops;
    this.compacted = "compact".equals(config.get("cleanup.policy"));
  }

  public static void main(String[] args) throws Exception {
    long seed = Long.parseLong(args[0]);
    Path out = Path.of(args[1]);
    scenario(out, "leader", Kind.LEADER, seed, 140);
    scenario(out, "append-time", Kind.LEADER, seed, 90, "message.timestamp.type", "LogAppendTime");
    scenario(out, "time-roll", Kind.LEADER, seed, 110,
        "segment.ms", "15000", "internal.segment.bytes", "200000");
    scenario(out, "index-full", Kind.LEADER, seed, 110, "segment.index.bytes", "120",
        "internal.segment.bytes", "1000000", "index.interval.bytes", "1");
    scenario(out, "tiny-segments", Kind.LEADER, seed, 110, "internal.segment.bytes", "400",
        "retention.bytes", "1500");
    scenario(out, "retention-size", Kind.LEADER, seed, 120, "retention.bytes", "9000");
    scenario(out, "retention-time", Kind.LEADER, seed, 120, "retention.ms", "60000");
    scenario(out, "compact", Kind.LEADER, seed, 60, "cleanup.policy", "compact");
    scenario(out, "recompress", Kind.LEADER, seed, 80, "compression.type", "lz4");
    scenario(out, "follower", Kind.FOLLOWER, seed, 140);
    scenario(out, "idempotent", Kind.IDEMPOTENT, seed, 150);
    scenario(out, "transactions", Kind.TRANSACTIONAL, seed, 200);
    scenario(out, "transactions-tiny", Kind.TRANSACTIONAL, seed, 220,
        "internal.segment.bytes", "700");
    WideTraces.all(out, seed);
    System.exit(0);
  }

  private static void scenario(
      Path out, String name, Kind kind, long seed, int operations, String... settings)
      throws Exception {
    Map<String, String> config = new LinkedHashMap<>();
    config.put("internal.segment.bytes", "3000");
    config.put("index.interval.bytes", "400");
    config.put("segment.index.bytes", "8192");
    config.put("retention.ms", "-1");
    config.put("file.delete.delay.ms", "0");
    config.put("max.message.bytes", "6000");
    for (int i = 0; i < settings.length; i += 2) {
      config.put(settings[i], settings[i + 1]);
    }
    File work = Files.createTempDirectory("traces").toFile();
    DrivenLog driven = new DrivenLog(new File(work, name + "-0"), config);
    try (var trace = new TraceWriter(out.resolve(name).resolve("trace.jsonl"), driven, config)) {
      long ownSeed = seed * 1_000_003 + name.hashCode();
      var ops = new Operations(driven, trace, out.resolve(name));
      Traces traces = new Traces(kind, ownSeed, config, driven, ops);
      for (int i = 0; i < operations; i++) {
        driven.clock.ms += traces.random.nextInt(40) == 0 ? 30_000 : traces.random.nextInt(400);
        traces.step();
      }
      ops.close();
    }
    driven.copyTo(out.resolve(name).resolve("final").resolve(name + "-0"));
    Storage.remove(work);
  }

  private boolean oneIn(int count) {
    return random.nextInt(count) == 0;
  }

  private void step() {
    long start = driven.log.logStartOffset();
    long end = driven.log.logEndOffset();
    long within = start + (long) (random.nextDouble() * Math.max(1, end - start));
    int choice = random.nextInt(100);
    if (choice < 48) {
      append();
    } else if (choice < 58) {
      ops.highWatermark(oneIn(2) ? end
          : Math.min(end, driven.log.highWatermark() + random.nextInt(30)));
    } else if (choice < 74) {
      read(oneIn(20) ? end : oneIn(25) ? end + 1 : oneIn(25) ? start - 1 : within);
    } else if (choice < 82) {
      ops.byTime(oneIn(12) ? -2 : oneIn(12) ? -3 : driven.clock.ms - random.nextInt(120_000));
    } else if (choice < 84) {
      ops.roll();
    } else if (choice < 87) {
      long most = Math.max(1, driven.log.highWatermark() - start);
      ops.logStart(start + (long) (random.nextDouble() * most) + (oneIn(10) ? 1_000 : 0));
    } else if (choice < 90) {
      ops.deleteOldSegments();
    } else if (choice < 92) {
      if (kind != Kind.LEADER) {
        ops.truncate(Math.max(start, end - random.nextInt(40)));
      }
    } else if (choice < 94) {
      ops.epochEnd(random.nextInt(leaderEpoch + 2));
    } else if (choice < 96) {
      ops.reopen();
    } else {
      ops.flush();
    }
  }

  private void read(long offset) {
    int maxBytes = oneIn(5) ? 1 : random.nextInt(5_000);
    FetchIsolation isolation = FetchIsolation.values()[random.nextInt(3)];
    ops.read(offset, maxBytes, isolation, random.nextBoolean());
  }

  private void append() {
    switch (kind) {
      case FOLLOWER -> replicate();
      case IDEMPOTENT -> idempotent();
      case TRANSACTIONAL -> {
        int roll = random.nextInt(6);
        if (roll == 0) {
          end();
        } else if (roll < 5) {
          transactional();
        } else {
          client();
        }
      }
      case LEADER -> client();
    }
  }

  /** A producer without an id: now and then something that a log must refuse. */
  private void client() {
    MemoryRecords records = MemoryRecords.withRecords(codec(), records(8));
    records = switch (random.nextInt(30)) {
      case 0 -> plain(new SimpleRecord(driven.clock.ms, utf8("k"), new byte[6_500]));
      case 1 -> changed(records, bytes -> bytes.put(bytes.limit() - 1, (byte) 0x55));
      case 2 -> joined(records, plain(records(2)));
      case 3 -> plain(new SimpleRecord(driven.clock.ms + 7_200_000, utf8("k"), utf8("future")));
      case 4 -> changed(records, bytes -> bytes.putInt(8, bytes.limit() + 20));
      case 5 -> changed(records, bytes -> bytes.limit(bytes.limit() - 5));
      case 6 -> plain(new SimpleRecord(driven.clock.ms, null, utf8("no key")));
      default -> records;
    };
    append(records, "client");
  }

  private void replicate() {
    if (oneIn(15)) {
      leaderEpoch++;
    }
    long base = driven.log.logEndOffset();
    base += oneIn(12) ? random.nextInt(500) : oneIn(60) ? 3_000_000_000L : 0;
    base = oneIn(25) ? Math.max(0, base - 1 - random.nextInt(4)) : base;
    SimpleRecord[] first = records(6);
    MemoryRecords records = MemoryRecords.withRecords(base, codec(), leaderEpoch, first);
    if (oneIn(4)) {
      records = joined(records,
          MemoryRecords.withRecords(base + first.length, codec(), leaderEpoch, records(4)));
    }
    append(records, "replication");
  }

  /** Sequences in order, with gaps, repetitions, epochs old and new, and one at the largest. */
  private void idempotent() {
    int producer = random.nextInt(PRODUCERS);
    SimpleRecord[] batch = records(5);
    int flaw = random.nextInt(14);
    if (flaw == 0) {
      epochs[producer]++;
      sequences[producer] = 0;
    }
    int sequence = flaw == 1 ? sequences[producer] + 1
        : flaw == 2 ? Integer.MAX_VALUE - 1 : sequences[producer];
    short epoch = (short) (epochs[producer] - (flaw == 3 && epochs[producer] > 0 ? 1 : 0));
    MemoryRecords records = MemoryRecords.withIdempotentRecords(
        codec(), FIRST_PRODUCER + producer, epoch, sequence, batch);
    MemoryRecords again = changed(records, bytes -> { });
    if (append(records, "client")) {
      long next = (long) sequence + batch.length;
      sequences[producer] = (int) (next > Integer.MAX_VALUE ? next - Integer.MAX_VALUE - 1 : next);
    } else {
      epochs[producer]++;
      sequences[producer] = 0;
    }
    if (flaw == 4 || flaw == 5) {
      append(again, "client");
    }
  }

  private void transactional() {
    int producer = random.nextInt(PRODUCERS);
    SimpleRecord[] batch = records(5);
    int flaw = random.nextInt(20);
    int sequence = sequences[producer] + (flaw == 0 ? 2 : 0);
    short epoch = (short) (epochs[producer] - (flaw == 1 && epochs[producer] > 0 ? 1 : 0));
    boolean done = append(MemoryRecords.withTransactionalRecords(
        codec(), FIRST_PRODUCER + producer, epoch, sequence, batch), "client");
    if (done) {
      sequences[producer] = sequence + batch.length;
      open[producer] = true;
    } else if (flaw > 1 && !open[producer]) {
      epochs[producer]++;
      sequences[producer] = 0;
    }
  }

  /** Ends a transaction, or one that is not there. */
  private void end() {
    int producer = random.nextInt(PRODUCERS);
    for (int i = 0; i < PRODUCERS && !open[producer] && !oneIn(10); i++) {
      producer = (producer + 1) % PRODUCERS;
    }
    ControlRecordType type = oneIn(3) ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
    var marker = new EndTransactionMarker(type, oneIn(40) ? 1 : 2);
    boolean done = append(MemoryRecords.withEndTransactionMarker(
        driven.clock.ms, FIRST_PRODUCER + producer, epochs[producer], marker), "coordinator");
    if (done) {
      open[producer] = false;
    }
    if (oneIn(6)) {
      epochs[producer]++;
      sequences[producer] = 0;
    }
  }

  /** Whether the log has grown. */
  private boolean append(MemoryRecords records, String origin) {
    return ops.append(records, origin, leaderEpoch);
  }

  private Compression codec() {
    int roll = random.nextInt(8);
    return Compression.of(CompressionType.forId(roll < 5 ? roll : 0)).build();
  }

  private SimpleRecord[] records(int most) {
    SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(most)];
    for (int i = 0; i < records.length; i++) {
      byte[] key = !compacted && oneIn(3) ? null : utf8("k" + random.nextInt(50));
      byte[] value = oneIn(9) ? null : new byte[random.nextInt(120)];
      if (value != null) {
        random.nextBytes(value);
      }
      Header[] headers = oneIn(6)
          ? new Header[] {new RecordHeader("h", null), new RecordHeader("h", new byte[] {7})}
          : new Header[0];
      long time = driven.clock.ms - (oneIn(12) ? 20_000 : random.nextInt(50));
      records[i] = new SimpleRecord(time, key, value, headers);
    }
    return records;
  }

  private static MemoryRecords plain(SimpleRecord... records) {
    return MemoryRecords.withRecords(Compression.NONE, records);
  }

  private interface Change {
    void to(ByteBuffer bytes);
  }

  /** A changed copy. */
  private static MemoryRecords changed(MemoryRecords records, Change change) {
    ByteBuffer copy = ByteBuffer.allocate(records.sizeInBytes());
    copy.put(records.buffer().duplicate());
    copy.flip();
    change.to(copy);
    return MemoryRecords.readableRecords(copy);
  }

  private static MemoryRecords joined(MemoryRecords first, MemoryRecords second) {
    ByteBuffer both = ByteBuffer.allocate(first.sizeInBytes() + second.sizeInBytes());
    both.put(first.buffer().duplicate()).put(second.buffer().duplicate());
    both.flip();
    return MemoryRecords.readableRecords(both);
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
