package harness;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.server.KafkaConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Asks Kafka anew about each text of a table of settings, and writes the table with its answers:
 * the default of the key, the texts that are taken, those that are refused. A text that is to be
 * asked about is put on either side of the table before.
 *
 * <p>usage: Settings TABLE OUT
 */
public final class Settings {
  private static final Map<String, String> BROKER = Map.of(
      "process.roles", "broker",
      "node.id", "1",
      "controller.quorum.voters", "2@localhost:9093",
      "controller.listener.names", "CONTROLLER",
      "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
      "listeners", "PLAINTEXT://localhost:9092");

  public static void main(String[] args) throws Exception {
    List<String> out = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      String[] fields = line.split("\t", -1);
      boolean ofTopic = fields[0].equals("topic");
      List<String> taken = new ArrayList<>();
      List<String> refused = new ArrayList<>();
      for (int side = 3; side <= 4; side++) {
        for (String text : fields[side].split("\\|", -1)) {
          (takes(ofTopic, fields[1], text) ? taken : refused).add(text);
        }
      }
      out.add(String.join("\t", fields[0], fields[1], defaultOf(ofTopic, fields[1]),
          String.join("|", taken), String.join("|", refused)));
    }
    Files.write(Path.of(args[1]), out);
  }

  private static String defaultOf(boolean ofTopic, String key) {
    var keys = ofTopic ? LogConfig.configDefCopy() : AbstractKafkaConfig.CONFIG_DEF;
    Object value = keys.configKeys().get(key).defaultValue;
    return value instanceof List<?> list
        ? String.join(",", list.stream().map(String::valueOf).toList()) : String.valueOf(value);
  }

  private static boolean takes(boolean ofTopic, String key, String text) {
    try {
      if (ofTopic) {
        LogConfig.validate(Map.of(key, text));
        return true;
      }
      Map<String, Object> all = new HashMap<>(BROKER);
      all.put(key, text);
      KafkaConfig config = new KafkaConfig(all, false);
      boolean hasRemote = config.remoteLogManagerConfig().isRemoteStorageSystemEnabled();
      Map<String, Object> ofLogs = config.extractLogConfigMap();
      LogConfig.validateBrokerLogConfigValues(ofLogs, hasRemote);
      new LogConfig(ofLogs);
      return true;
    } catch (RuntimeException refused) {
      return false;
    }
  }

  private Settings() {}
}
