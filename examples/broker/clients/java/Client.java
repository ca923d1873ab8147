import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** kafka-clients. */
class Client {
    interface Check {
        void run(String topic) throws Exception;
    }

    static String bootstrap;

    static Properties settings(String codec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("max.request.size", "5000000");
        settings.put("linger.ms", "5");
        return settings;
    }

    static KafkaProducer<String, String> producer(String codec) {
        return new KafkaProducer<>(settings(codec), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static List<Long> write(String topic, String codec, int count, String value) throws Exception {
        try (KafkaProducer<String, String> producer = producer(codec)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                String text = value == null ? "v" + i + "-" + "x".repeat(50) : value;
                sent.add(producer.send(new ProducerRecord<>(topic, 0, "k" + i, text)));
            }
            List<Long> offsets = new ArrayList<>();
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
            return offsets;
        }
    }

    static List<ConsumerRecord<String, String>> read(
            KafkaConsumer<String, String> consumer, String topic, long start, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(List.of(partition));
        consumer.seek(partition, start);
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + 20_000;
        while (found.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(500)).forEach(found::add);
        }
        return found.subList(0, Math.min(count, found.size()));
    }

    static void require(boolean condition, Object what) {
        if (!condition) {
            throw new IllegalStateException(String.valueOf(what));
        }
    }

    static void seek(String topic) throws Exception {
        write(topic, "none", 100, null);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            require(read(consumer, topic, 42, 2).get(0).offset() == 42, "seek to 42");
            require(read(consumer, topic, 7, 2).get(0).offset() == 7, "seek back to 7");
        }
    }

    static void timestamps(String topic) throws Exception {
        long base = System.currentTimeMillis() - 3_600_000;
        try (KafkaProducer<String, String> producer = producer("none")) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, 0, base + i * 1000L, "k", "t")).get();
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            long found = consumer.offsetsForTimes(Map.of(partition, base + 3500)).get(partition).offset();
            require(found == 4, found);
        }
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            for (var spec : Map.of(OffsetSpec.earliest(), 0L, OffsetSpec.latest(), 10L,
                    OffsetSpec.maxTimestamp(), 9L, OffsetSpec.earliestLocal(), 0L).entrySet()) {
                long found = admin.listOffsets(Map.of(partition, spec.getKey())).all().get().get(partition).offset();
                require(found == spec.getValue(), spec.getKey() + " " + found);
            }
        }
    }

    static void limitsBelowABatch(String topic) throws Exception {
        write(topic, "none", 3, "y".repeat(50_000));
        try (KafkaConsumer<String, String> consumer =
                consumer("fetch.max.bytes", "1000", "max.partition.fetch.bytes", "1000")) {
            require(read(consumer, topic, 0, 3).size() == 3, "three records");
        }
    }

    static void largeRecords(String topic) throws Exception {
        write(topic, "none", 1, "z".repeat(900_000));
        try {
            write(topic, "none", 1, "z".repeat(2_000_000));
            throw new IllegalStateException("2 MB were taken");
        } catch (ExecutionException error) {
            require(error.getCause() instanceof RecordTooLargeException, error.getCause());
        }
    }

    static void longPoll(String topic) throws Exception {
        write(topic, "none", 1, null);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("fetch.max.wait.ms", "10000")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1);
            require(consumer.poll(Duration.ofMillis(700)).isEmpty(), "nothing yet");
            write(topic, "none", 1, "late");
            long began = System.currentTimeMillis();
            require(consumer.poll(Duration.ofSeconds(8)).count() == 1, "the late one");
            require(System.currentTimeMillis() - began < 5000, "in time");
        }
    }

    /** Many batches in flight: no gap, no repetition. */
    static void idempotence(String topic) throws Exception {
        Properties settings = settings("none");
        settings.put("batch.size", "500");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 2000; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, "k" + i, "v" + i)));
            }
        }
        for (int i = 0; i < 2000; i++) {
            require(sent.get(i).get().offset() == i, "record " + i + " at " + sent.get(i).get().offset());
        }
    }

    static void deleteRecords(String topic) throws Exception {
        write(topic, "none", 20, null);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
                KafkaConsumer<String, String> consumer = consumer()) {
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(7))).all().get();
            require(consumer.beginningOffsets(Set.of(partition)).get(partition) == 7, "begins at 7");
            try {
                read(consumer, topic, 0, 1);
                throw new IllegalStateException("offset 0 is still there");
            } catch (OffsetOutOfRangeException expected) {
                return;
            }
        }
    }

    static void admin(String topic) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            int count = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            require(count == 5, count);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var op = new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
            String value = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
            require(value.equals("5000"), value);
            int node = admin.describeCluster().controller().get().id();
            admin.describeLogDirs(List.of(node)).allDescriptions().get();
            admin.deleteTopics(List.of(topic)).all().get();
            require(!admin.listTopics().names().get().contains(topic), "still there");
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        switch (args[1]) {
            case "write" -> {
                int count = Integer.parseInt(args[2]);
                for (int i = 3; i + 1 < args.length; i += 2) {
                    require(write(args[i], args[i + 1], count, null).get(count - 1) == count - 1, args[i]);
                }
            }
            case "read" -> {
                try (KafkaConsumer<String, String> consumer = consumer()) {
                    for (int i = 3; i < args.length; i++) {
                        for (var r : read(consumer, args[i], 0, Integer.parseInt(args[2]))) {
                            System.out.println(String.join("\t", r.topic(), "" + r.offset(), r.key(), r.value()));
                        }
                    }
                }
            }
            default -> {
                Map<String, Check> checks = new java.util.LinkedHashMap<>();
                checks.put("seek", Client::seek);
                checks.put("timestamps", Client::timestamps);
                checks.put("limits_below_a_batch", Client::limitsBelowABatch);
                checks.put("large_records", Client::largeRecords);
                checks.put("long_poll", Client::longPoll);
                checks.put("idempotence", Client::idempotence);
                checks.put("delete_records", Client::deleteRecords);
                checks.put("admin", Client::admin);
                for (var check : checks.entrySet()) {
                    try {
                        check.getValue().run(args[2] + "-" + check.getKey());
                        System.out.println("ok " + check.getKey());
                    } catch (Exception error) {
                        System.out.println("failed " + check.getKey() + ": " + error);
                    }
                }
            }
        }
    }
}
