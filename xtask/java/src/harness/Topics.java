package harness;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes the topics of a golden disk and fills them through real clients.
 *
 * <p>usage: Topics BOOTSTRAP SEED first|second
 */
public final class Topics implements AutoCloseable {
  /** A fixed day in 2025: record times do not depend on when the disk is made. */
  private static final long DAY_ONE = 1_750_000_000_000L;

  private final String bootstrap;
  private final Admin admin;
  private final Random random;

  private Topics(String bootstrap, long seed) {
    this.bootstrap = bootstrap;
    this.admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap));
    this.random = new Random(seed);
  }

  public static void main(String[] args) throws Exception {
    try (Topics topics = new Topics(args[0], Long.parseLong(args[1]))) {
      if (args[2].equals("first")) {
        topics.first();
      } else {
        topics.second();
      }
    }
    // An open transaction must stay open: no producer gets the chance to abort it.
    Runtime.getRuntime().halt(0);
  }

  @Override
  public void close() {
    admin.close();
  }

  private void first() throws Exception {
    plain();
    for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
      create("codec-" + codec);
      fill("codec-" + codec, 120, 10, Map.of("compression.type", codec, "linger.ms", "20"));
    }
    create("recompressed", "compression.type", "zstd");
    fill("recompressed", 80, 10, Map.of("compression.type", "lz4", "linger.ms", "20"));
    create("append-time", "message.timestamp.type", "LogAppendTime", "index.interval.bytes", "128");
    fill("append-time", 80, 10, Map.of("compression.type", "lz4", "batch.size", "400"));
    create("by-time", "segment.ms", "20000", "index.interval.bytes", "256");
    fill("by-time", 160, 500, Map.of("batch.size", "300"));
    create("trimmed", "index.interval.bytes", "512");
    fill("trimmed", 90, 10, Map.of("batch.size", "1000"));
    var before = RecordsToDelete.beforeOffset(37);
    admin.deleteRecords(Map.of(new TopicPartition("trimmed", 0), before)).all().get();
    transactions();
    compacted();
  }

  private void second() throws Exception {
    fill("plain", 40, 20, Map.of("batch.size", "900"));
    fill("codec-zstd", 40, 20, Map.of("compression.type", "zstd", "linger.ms", "20"));
    fill("append-time", 40, 20, Map.of("batch.size", "400"));
    fill("by-time", 80, 500, Map.of("batch.size", "300"));
    var producer = transactional("tx-0");
    for (int round = 0; round < 5; round++) {
      transaction(producer, "late-" + round, 6, round % 3 == 1 ? Ending.ABORT : Ending.COMMIT);
    }
    transaction(producer, "open", 4, Ending.NONE);
  }

  /** Every shape of key, value and headers, times that go back, two segments. */
  private void plain() throws Exception {
    create("plain", "internal.segment.bytes", "24576", "index.interval.bytes", "1024");
    try (var producer = producer(Map.of("batch.size", "1500", "linger.ms", "5"))) {
      for (int i = 0; i < 240; i++) {
        String key = i % 5 == 0 ? null : i % 7 == 0 ? "" : "key-" + i % 17;
        byte[] value = i % 11 == 0 ? null : i % 13 == 0 ? new byte[0] : bytes(random.nextInt(200));
        long time = DAY_ONE + i * 37L - (i % 10 == 9 ? 5_000 : 0);
        send(producer, "plain", time, key, value, headers(i));
      }
    }
  }

  private static Header[] headers(int i) {
    List<Header> headers = new ArrayList<>();
    for (int h = 0; h < i % 4; h++) {
      headers.add(new RecordHeader("h" + h, h == 2 ? null : utf8("v" + i)));
    }
    if (i % 40 == 0) {
      headers.add(new RecordHeader("twice", utf8("1")));
      headers.add(new RecordHeader("twice", utf8("2")));
      headers.add(new RecordHeader("größe-✓", new byte[0]));
    }
    return headers.toArray(new Header[0]);
  }

  /** Two producers that interleave; commits, aborts, one left open, plain records after it. */
  private void transactions() throws Exception {
    create("transactions", "index.interval.bytes", "300", "internal.segment.bytes", "9000");
    var left = transactional("tx-0");
    var right = transactional("tx-1");
    for (int round = 0; round < 14; round++) {
      left.beginTransaction();
      right.beginTransaction();
      for (int i = 0; i < 4; i++) {
        var producer = i % 2 == 0 ? left : right;
        send(producer, "transactions", DAY_ONE + round * 1_000L + i, "r" + round, bytes(60));
        producer.flush();
      }
      end(left, round % 4 == 1 ? Ending.ABORT : Ending.COMMIT);
      end(right, round == 13 ? Ending.NONE : round % 5 == 2 ? Ending.ABORT : Ending.COMMIT);
    }
    fill("transactions", 8, 10, Map.of());
  }

  /** The cleaner has to run over this one: gaps, tombstones, empty batches, control records. */
  private void compacted() throws Exception {
    create("compacted", "cleanup.policy", "compact", "internal.segment.bytes", "12000",
        "min.cleanable.dirty.ratio", "0.01", "index.interval.bytes", "512");
    try (var producer = producer(Map.of("batch.size", "700", "linger.ms", "5"))) {
      for (int i = 0; i < 500; i++) {
        byte[] value = i % 9 == 0 ? null : bytes(40);
        send(producer, "compacted", DAY_ONE + i * 100L, "key-" + random.nextInt(30), value);
      }
    }
    var producer = transactional("tx-compacted");
    for (int round = 0; round < 6; round++) {
      producer.beginTransaction();
      for (int i = 0; i < 10; i++) {
        String key = "key-" + random.nextInt(30);
        send(producer, "compacted", DAY_ONE + 60_000 + i, key, bytes(40));
      }
      end(producer, round % 3 == 1 ? Ending.ABORT : Ending.COMMIT);
    }
    producer.close();
  }

  private enum Ending { COMMIT, ABORT, NONE }

  private void transaction(
      KafkaProducer<byte[], byte[]> producer, String key, int count, Ending ending)
      throws Exception {
    producer.beginTransaction();
    for (int i = 0; i < count; i++) {
      send(producer, "transactions", DAY_ONE + 90_000 + i, key, bytes(random.nextInt(90)));
    }
    end(producer, ending);
  }

  private static void end(KafkaProducer<byte[], byte[]> producer, Ending ending) {
    producer.flush();
    switch (ending) {
      case COMMIT -> producer.commitTransaction();
      case ABORT -> producer.abortTransaction();
      case NONE -> { }
    }
  }

  private void fill(String topic, int count, long stepMs, Map<String, String> config)
      throws Exception {
    try (var producer = producer(config)) {
      for (int i = 0; i < count; i++) {
        long time = DAY_ONE + 30_000 + i * stepMs - (i % 17 == 0 ? 900 : 0);
        send(producer, topic, time, "k" + i % 20, bytes(20 + random.nextInt(100)),
            new RecordHeader("topic", utf8(topic)));
        if (i % 20 == 19) {
          producer.flush();
        }
      }
    }
  }

  private void create(String topic, String... config) throws Exception {
    Map<String, String> keys = new HashMap<>();
    for (int i = 0; i < config.length; i += 2) {
      keys.put(config[i], config[i + 1]);
    }
    admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(keys))).all().get();
  }

  private KafkaProducer<byte[], byte[]> transactional(String id) {
    // Long enough that no broker ends an open transaction while the disk is made.
    var producer = producer(Map.of(
        "transactional.id", id, "linger.ms", "1", "transaction.timeout.ms", "900000"));
    producer.initTransactions();
    return producer;
  }

  private KafkaProducer<byte[], byte[]> producer(Map<String, String> config) {
    Map<String, Object> all = new HashMap<>(config);
    all.put("bootstrap.servers", bootstrap);
    all.put("key.serializer", ByteArraySerializer.class);
    all.put("value.serializer", ByteArraySerializer.class);
    return new KafkaProducer<>(all);
  }

  private static void send(
      KafkaProducer<byte[], byte[]> producer, String topic, long time, String key, byte[] value,
      Header... headers) {
    var record = new ProducerRecord<>(topic, 0, time, utf8(key), value, List.of(headers));
    producer.send(record, (at, error) -> {
      if (error != null) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
      }
    });
  }

  /** Text that compresses, with noise in it. */
  private byte[] bytes(int count) {
    byte[] bytes = new byte[count];
    for (int i = 0; i < count; i++) {
      bytes[i] = (byte) ("silt and sand ".charAt(i % 14) + (random.nextInt(8) == 0 ? 1 : 0));
    }
    return bytes;
  }

  private static byte[] utf8(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }
}
