package harness;

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Kafka's own dump tool, many runs in one JVM.
 *
 * <p>Each line of stdin is one run: the file for its stdout, the file for its stderr, then its
 * arguments, separated by tabs. Answers each with a line that holds the exit code.
 */
public final class Dump {
  private static final class Exited extends RuntimeException {
    final int code;

    Exited(int code) {
      super(null, null, false, false);
      this.code = code;
    }
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    PrintStream err = System.err;
    Exit.setExitProcedure((code, message) -> { throw new Exited(code); });
    BufferedReader runs =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = runs.readLine(); line != null; line = runs.readLine()) {
      String[] words = line.split("\t");
      int code;
      try (PrintStream toOut = new PrintStream(new FileOutputStream(words[0]), false, "UTF-8");
          PrintStream toErr = new PrintStream(new FileOutputStream(words[1]), false, "UTF-8")) {
        System.setOut(toOut);
        System.setErr(toErr);
        code = dump(Arrays.copyOfRange(words, 2, words.length), toErr);
      } finally {
        System.setOut(out);
        System.setErr(err);
      }
      out.println(code);
      out.flush();
    }
  }

  private static int dump(String[] args, PrintStream err) {
    try {
      DumpLogSegments.main(args);
      return 0;
    } catch (Exited exited) {
      return exited.code;
    } catch (Throwable thrown) {
      thrown.printStackTrace(err);
      return 1;
    }
  }

  private Dump() {}
}
