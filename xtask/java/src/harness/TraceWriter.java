package harness;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** Writes each operation on a log, its result, and the state after it: a line of JSON each. */
final class TraceWriter implements AutoCloseable {
  /** An operation; what it returns is JSON. */
  interface Operation {
    String run() throws Exception;
  }

  private final DrivenLog driven;
  private final PrintWriter lines;

  TraceWriter(Path file, DrivenLog driven, Map<String, String> config) throws IOException {
    this.driven = driven;
    Files.createDirectories(file.getParent());
    this.lines = new PrintWriter(Files.newBufferedWriter(file));
    lines.printf("{\"config\":%s,\"directory\":%s,\"producer_id_expiration_ms\":%d,"
        + "\"start_ms\":%d}%n", settings(config), quoted(driven.dir.getName()),
        DrivenLog.PRODUCER_EXPIRATION_MS, driven.clock.ms);
  }

  static String settings(Map<String, String> config) {
    return config.entrySet().stream()
        .map(entry -> quoted(entry.getKey()) + ":" + quoted(entry.getValue()))
        .collect(Collectors.joining(",", "{", "}"));
  }

  /** Runs an operation and writes it down. {@code arguments} are pairs of a name and JSON. */
  void run(String name, Operation operation, Object... arguments) {
    StringBuilder line = new StringBuilder("{\"op\":").append(quoted(name));
    for (int i = 0; i < arguments.length; i += 2) {
      line.append(',').append(quoted("" + arguments[i])).append(':').append(arguments[i + 1]);
    }
    line.append(",\"now_ms\":").append(driven.clock.ms);
    try {
      String result = operation.run();
      line.append(",\"ok\":").append(result);
    } catch (Exception error) {
      line.append(",\"error\":").append(quoted(error.getClass().getSimpleName()));
      line.append(",\"message\":").append(quoted(shown(error)));
    }
    lines.append(line).append(",\"state\":").append(state(driven.log)).append("}\n");
  }

  private static String state(UnifiedLog log) {
    String segments = log.logSegments().stream()
        .map(segment -> "[" + segment.baseOffset() + "," + segment.size() + "]")
        .collect(Collectors.joining(",", "[", "]"));
    return "{\"log_start_offset\":" + log.logStartOffset()
        + ",\"log_end_offset\":" + log.logEndOffset()
        + ",\"high_watermark\":" + log.highWatermark()
        + ",\"last_stable_offset\":" + log.lastStableOffset()
        + ",\"segments\":" + segments + "}";
  }

  /** Without the directory of this run. */
  private String shown(Exception error) {
    return ("" + error.getMessage()).replace(driven.dir.getParent() + "/", "");
  }

  static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') {
        quoted.append('\\').append(each);
      } else if (each < ' ') {
        quoted.append(' ');
      } else {
        quoted.append(each);
      }
    }
    return quoted.append('"').toString();
  }

  static String base64(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return quoted(Base64.getEncoder().encodeToString(bytes));
  }

  @Override
  public void close() {
    lines.close();
  }
}
