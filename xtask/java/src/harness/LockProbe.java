package harness;

import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Tries to lock a file as a broker locks `.lock`: prints `locked` and holds it until stdin ends,
 * or prints `refused`.
 *
 * <p>usage: LockProbe FILE
 */
public final class LockProbe {
  public static void main(String[] args) throws Exception {
    try (FileChannel file = FileChannel.open(
            Path.of(args[0]), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        FileLock lock = file.tryLock()) {
      System.out.println(lock == null ? "refused" : "locked");
      System.out.flush();
      while (lock != null && System.in.read() >= 0) {
        // Until our parent lets go.
      }
    }
  }

  private LockProbe() {}
}
