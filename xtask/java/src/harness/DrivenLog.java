package harness;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own log on a clock that stands still, with background work run at once: the same
 * operations give the same files, whenever they are run. */
final class DrivenLog {
  static final long START_MS = 1_760_000_000_000L;
  static final int PRODUCER_EXPIRATION_MS = 86_400_000;

  final Clock clock = new Clock();
  final File dir;
  private Map<String, String> config;
  UnifiedLog log;

  DrivenLog(File dir, Map<String, String> config) throws IOException {
    this.dir = dir;
    this.config = config;
    Files.createDirectories(dir.toPath());
    start(true, 0, 0);
  }

  /** A controlled shutdown and the start after it. */
  void reopen() throws IOException {
    close();
    start(true, 0, 0);
  }

  /** Settings that change while the log is open. */
  void settings(Map<String, String> settings) {
    log.updateConfig(new LogConfig(settings));
    config = settings;
  }

  /** Leaves the files as they are, as a kill does: a log that is let go changes no more of them,
   * so what it would still do is done to copies that are thrown away. */
  void kill() throws IOException {
    Path aside = dir.toPath().resolveSibling("killed");
    copyTo(aside);
    log.closeQuietly();
    Storage.remove(dir);
    Files.move(aside, dir.toPath());
  }

  /** Closes as a controlled shutdown does. */
  void close() {
    log.prepareActiveSegmentForClose();
    log.close();
  }

  /** A start by what the checkpoints say. */
  void start(boolean clean, long recoveryPoint, long logStart) throws IOException {
    log = UnifiedLog.create(dir, new LogConfig(config), logStart, recoveryPoint, new Inline(),
        new BrokerTopicStats(), clock, 300_000,
        new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), 600_000,
        new LogDirFailureChannel(4), clean, Optional.empty());
  }

  /** Copies the files as they are, without those that are to be deleted. */
  void copyTo(Path to) throws IOException {
    Files.createDirectories(to);
    for (File file : dir.listFiles()) {
      if (!file.getName().endsWith(".deleted")) {
        Files.copy(file.toPath(), to.resolve(file.getName()));
      }
    }
  }

  static final class Clock implements Time {
    long ms = START_MS;

    @Override
    public long milliseconds() {
      return ms;
    }

    @Override
    public long nanoseconds() {
      return ms * 1_000_000;
    }

    @Override
    public void sleep(long forMs) {
      ms += forMs;
    }
  }

  /** Runs what is to be run once; what comes again and again is left to the operations. */
  static final class Inline implements Scheduler {
    @Override
    public void startup() {}

    @Override
    public void shutdown() {}

    @Override
    public void resizeThreadPool(int size) {}

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
      if (periodMs < 0) {
        task.run();
      }
      return new Done();
    }
  }

  private static final class Done implements ScheduledFuture<Object> {
    @Override
    public long getDelay(TimeUnit unit) {
      return 0;
    }

    @Override
    public int compareTo(Delayed other) {
      return 0;
    }

    @Override
    public boolean cancel(boolean mayInterrupt) {
      return true;
    }

    @Override
    public boolean isCancelled() {
      return false;
    }

    @Override
    public boolean isDone() {
      return true;
    }

    @Override
    public Object get() {
      return null;
    }

    @Override
    public Object get(long timeout, TimeUnit unit) {
      return null;
    }
  }
}
