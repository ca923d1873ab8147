package harness;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Writes down what a consumer sees of partition 0 of every topic, in both isolation levels, and
 * what the broker answers to look-ups by time.
 *
 * <p>usage: View BOOTSTRAP OUT
 */
public final class View {
  private static final int LOOKUPS = 24;

  private final String bootstrap;
  private final Path out;

  private View(String bootstrap, Path out) {
    this.bootstrap = bootstrap;
    this.out = out;
  }

  public static void main(String[] args) throws Exception {
    View view = new View(args[0], Path.of(args[1]));
    Files.createDirectories(view.out);
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) view.bootstrap))) {
      for (String topic : new TreeSet<>(admin.listTopics().names().get())) {
        view.topic(new TopicPartition(topic, 0));
      }
    }
  }

  private void topic(TopicPartition partition) throws Exception {
    for (String isolation : List.of("read_uncommitted", "read_committed")) {
      Map<String, Object> config = Map.of(
          "bootstrap.servers", bootstrap,
          "isolation.level", isolation,
          "enable.auto.commit", "false",
          "key.deserializer", ByteArrayDeserializer.class,
          "value.deserializer", ByteArrayDeserializer.class);
      try (var consumer = new KafkaConsumer<byte[], byte[]>(config)) {
        consumer.assign(List.of(partition));
        long[] range = records(consumer, partition, isolation);
        if (isolation.equals("read_uncommitted") && range[0] <= range[1]) {
          times(consumer, partition, range);
        }
      }
    }
  }

  /** Writes every record and returns the smallest and the largest timestamp. */
  private long[] records(
      KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, String isolation)
      throws Exception {
    long begin = consumer.beginningOffsets(List.of(partition)).get(partition);
    long end = consumer.endOffsets(List.of(partition)).get(partition);
    long[] range = {Long.MAX_VALUE, Long.MIN_VALUE};
    consumer.seekToBeginning(List.of(partition));
    try (PrintWriter lines = lines(partition, isolation)) {
      lines.printf("{\"begin\":%d,\"end\":%d}%n", begin, end);
      while (consumer.position(partition) < end) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          if (record.offset() < end) {
            range[0] = Math.min(range[0], record.timestamp());
            range[1] = Math.max(range[1], record.timestamp());
            lines.println(line(record));
          }
        }
      }
    }
    return range;
  }

  /** Asks for times before, across and after the range. */
  private void times(
      KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long[] range)
      throws Exception {
    try (PrintWriter lines = lines(partition, "offsets-for-times")) {
      for (int step = -1; step <= LOOKUPS + 1; step++) {
        long time = range[0] + (range[1] - range[0]) * step / LOOKUPS;
        time = step < 0 ? range[0] - 1 : step > LOOKUPS ? range[1] + 1 : time;
        OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
        lines.printf("{\"timestamp\":%d,\"offset\":%s,\"found_timestamp\":%s}%n", time,
            found == null ? "null" : found.offset(), found == null ? "null" : found.timestamp());
      }
    }
  }

  private PrintWriter lines(TopicPartition partition, String kind) throws Exception {
    Path file = out.resolve(partition + "." + kind + ".jsonl");
    return new PrintWriter(Files.newBufferedWriter(file, StandardCharsets.UTF_8));
  }

  private static String line(ConsumerRecord<byte[], byte[]> record) {
    StringBuilder headers = new StringBuilder();
    for (Header header : record.headers()) {
      headers.append(headers.isEmpty() ? "" : ",");
      byte[] key = header.key().getBytes(StandardCharsets.UTF_8);
      headers.append('[').append(base64(key)).append(',').append(base64(header.value())).append(']');
    }
    return "{\"offset\":" + record.offset()
        + ",\"timestamp\":" + record.timestamp()
        + ",\"timestamp_type\":\"" + record.timestampType() + "\""
        + ",\"epoch\":" + record.leaderEpoch().orElse(-1)
        + ",\"key\":" + base64(record.key())
        + ",\"value\":" + checksum(record.value())
        + ",\"headers\":[" + headers + "]}";
  }

  private static String base64(byte[] bytes) {
    return bytes == null ? "null" : '"' + Base64.getEncoder().encodeToString(bytes) + '"';
  }

  private static String checksum(byte[] bytes) {
    if (bytes == null) {
      return "null";
    }
    CRC32C crc = new CRC32C();
    crc.update(bytes);
    return "{\"len\":" + bytes.length + ",\"crc32c\":" + crc.getValue() + "}";
  }
}
