package harness;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Loads partitions as a start of Kafka does, in one warm JVM.
 *
 * <p>Each line of stdin is {@code DIR CLEAN RECOVERY_POINT LOG_START}; the answer is one line, {@code
 * START END} of the log, or {@code failed} and why.
 */
public final class Loader {
  private static final Map<String, String> CONFIG = Map.of(
      "internal.segment.bytes", "2500",
      "segment.index.bytes", "1024",
      "index.interval.bytes", "300",
      "retention.ms", "-1");

  public static void main(String[] args) throws Exception {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      System.out.println(load(line.split(" ")).replace('\n', ' '));
      System.out.flush();
    }
    System.exit(0);
  }

  private static String load(String[] words) {
    try {
      UnifiedLog log = UnifiedLog.create(new File(words[0]), new LogConfig(CONFIG),
          Long.parseLong(words[3]), Long.parseLong(words[2]), new DrivenLog.Inline(),
          new BrokerTopicStats(), new DrivenLog.Clock(), 300_000,
          new ProducerStateManagerConfig(DrivenLog.PRODUCER_EXPIRATION_MS, false), 600_000,
          new LogDirFailureChannel(4), Boolean.parseBoolean(words[1]), Optional.empty());
      String range = log.logStartOffset() + " " + log.logEndOffset();
      log.close();
      return range;
    } catch (Exception error) {
      return "failed " + error;
    }
  }

  private Loader() {}
}
