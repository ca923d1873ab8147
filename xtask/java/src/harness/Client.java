package harness;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Real clients that do what each line of stdin says, for as long as stdin lasts. Producers live on
 * while the broker is killed and started again.
 *
 * <p>usage: Client BOOTSTRAP
 *
 * <p>Words are parted by tabs. The answer to a line is {@code ok COUNT} and so many lines, or
 * {@code error TEXT}:
 *
 * <pre>
 * create TOPIC [KEY=VALUE...]       a topic of one partition
 * delete TOPIC OFFSET               moves the log start; answers with it
 * open NAME [KEY=VALUE...]          a producer; one with a transactional.id is initialised
 * close NAME
 * begin NAME
 * end NAME commit|abort
 * send NAME TOPIC RECORD...         answers OFFSET, TIMESTAMP for each
 * read TOPIC ISOLATION END          waits until the log ends there, ten seconds at most;
 *                                   answers BEGIN, END, then OFFSET, TIMESTAMP_TYPE, RECORD for each
 * </pre>
 *
 * <p>A RECORD is {@code TIMESTAMP,KEY,VALUE[,NAME,VALUE...]}: bytes in base64 for URLs, a star
 * where there are none.
 */
public final class Client {
  private static final long PATIENCE_MS = 60_000;

  private final String bootstrap;
  private final Admin admin;
  private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
  private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

  private Client(String bootstrap) {
    this.bootstrap = bootstrap;
    this.admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap));
  }

  public static void main(String[] args) throws Exception {
    Client client = new Client(args[0]);
    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      StringBuilder answer = new StringBuilder();
      try {
        List<String> lines = client.run(line.split("\t"));
        answer.append("ok ").append(lines.size()).append('\n');
        lines.forEach(each -> answer.append(each).append('\n'));
      } catch (Exception error) {
        answer.append("error ").append(error.toString().replace('\n', ' ')).append('\n');
      }
      System.out.print(answer);
      System.out.flush();
    }
    // An open transaction stays open: no producer gets the chance to abort it.
    Runtime.getRuntime().halt(0);
  }

  private List<String> run(String[] words) throws Exception {
    switch (words[0]) {
      case "create" -> {
        NewTopic topic = new NewTopic(words[1], 1, (short) 1).configs(pairs(words, 2));
        admin.createTopics(List.of(topic)).all().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
      }
      case "delete" -> {
        return List.of(delete(words[1], Long.parseLong(words[2])));
      }
      case "open" -> producers.put(words[1], producer(pairs(words, 2)));
      case "close" -> producers.remove(words[1]).close(Duration.ofMillis(PATIENCE_MS));
      case "begin" -> producers.get(words[1]).beginTransaction();
      case "end" -> {
        if (words[2].equals("commit")) {
          producers.get(words[1]).commitTransaction();
        } else {
          producers.get(words[1]).abortTransaction();
        }
      }
      case "send" -> {
        return send(producers.get(words[1]), words[2], words);
      }
      case "read" -> {
        return read(words[1], words[2], Long.parseLong(words[3]));
      }
      default -> throw new IllegalArgumentException(words[0]);
    }
    return List.of();
  }

  private static Map<String, String> pairs(String[] words, int from) {
    Map<String, String> pairs = new HashMap<>();
    for (String word : Arrays.asList(words).subList(from, words.length)) {
      String[] pair = word.split("=", 2);
      pairs.put(pair[0], pair[1]);
    }
    return pairs;
  }

  private String delete(String topic, long offset) throws Exception {
    TopicPartition partition = new TopicPartition(topic, 0);
    var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offset)));
    return "" + deleted.lowWatermarks().get(partition)
        .get(PATIENCE_MS, TimeUnit.MILLISECONDS).lowWatermark();
  }

  private KafkaProducer<byte[], byte[]> producer(Map<String, String> config) {
    Map<String, Object> all = new HashMap<>(config);
    all.put("bootstrap.servers", bootstrap);
    all.put("max.block.ms", "" + PATIENCE_MS);
    all.put("delivery.timeout.ms", "" + PATIENCE_MS);
    all.put("key.serializer", ByteArraySerializer.class);
    all.put("value.serializer", ByteArraySerializer.class);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(all);
    if (config.containsKey("transactional.id")) {
      producer.initTransactions();
    }
    return producer;
  }

  private static List<String> send(
      KafkaProducer<byte[], byte[]> producer, String topic, String[] words) throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (int i = 3; i < words.length; i++) {
      String[] parts = words[i].split(",", -1);
      List<Header> headers = new ArrayList<>();
      for (int h = 3; h < parts.length; h += 2) {
        String name = new String(bytes(parts[h]), StandardCharsets.UTF_8);
        headers.add(new RecordHeader(name, bytes(parts[h + 1])));
      }
      long time = Long.parseLong(parts[0]);
      sent.add(producer.send(
          new ProducerRecord<>(topic, 0, time, bytes(parts[1]), bytes(parts[2]), headers)));
    }
    producer.flush();
    List<String> answers = new ArrayList<>();
    for (Future<RecordMetadata> each : sent) {
      RecordMetadata at = each.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
      answers.add(at.offset() + "\t" + at.timestamp());
    }
    return answers;
  }

  private List<String> read(String topic, String isolation, long expectedEnd) throws Exception {
    var consumer = consumers.computeIfAbsent(isolation, this::consumer);
    TopicPartition partition = new TopicPartition(topic, 0);
    consumer.assign(List.of(partition));
    long deadline = System.currentTimeMillis() + 10_000;
    long end = consumer.endOffsets(List.of(partition)).get(partition);
    // The markers of a transaction are written after its producer has its answer.
    while (end != expectedEnd && System.currentTimeMillis() < deadline) {
      Thread.sleep(20);
      end = consumer.endOffsets(List.of(partition)).get(partition);
    }
    long begin = consumer.beginningOffsets(List.of(partition)).get(partition);
    List<String> answers = new ArrayList<>(List.of(begin + "\t" + end));
    consumer.seekToBeginning(List.of(partition));
    deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (consumer.position(partition) < end) {
      if (System.currentTimeMillis() > deadline) {
        throw new TimeoutException("stopped at " + consumer.position(partition) + " of " + end);
      }
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
        answers.add(line(record));
      }
    }
    return answers;
  }

  private KafkaConsumer<byte[], byte[]> consumer(String isolation) {
    return new KafkaConsumer<>(Map.of(
        "bootstrap.servers", bootstrap,
        "isolation.level", isolation,
        "enable.auto.commit", "false",
        "auto.offset.reset", "none",
        "key.deserializer", ByteArrayDeserializer.class,
        "value.deserializer", ByteArrayDeserializer.class));
  }

  private static String line(ConsumerRecord<byte[], byte[]> record) {
    StringBuilder line = new StringBuilder();
    line.append(record.offset()).append('\t').append(record.timestampType()).append('\t');
    line.append(record.timestamp());
    line.append(',').append(text(record.key())).append(',').append(text(record.value()));
    for (Header header : record.headers()) {
      line.append(',').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
      line.append(',').append(text(header.value()));
    }
    return line.toString();
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "*" : Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
  }

  private static byte[] bytes(String text) {
    return text.equals("*") ? null : Base64.getUrlDecoder().decode(text);
  }
}
