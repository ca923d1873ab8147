package harness;

import static harness.TraceWriter.base64;
import static harness.TraceWriter.quoted;

import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/** The operations of a trace: each is done and written down with its result. */
final class Operations {
  private final DrivenLog driven;
  private final TraceWriter trace;
  /** Where copies of the directory go. */
  private final Path out;
  private int stopCount;

  Operations(DrivenLog driven, TraceWriter trace, Path out) {
    this.driven = driven;
    this.trace = trace;
    this.out = out;
  }

  /** Whether the log has grown. */
  boolean append(MemoryRecords records, String origin, int leaderEpoch) {
    return append(records, origin, leaderEpoch, 1);
  }

  /** As above, where the version of the protocol of transactions may be another than 1. */
  boolean append(MemoryRecords records, String origin, int leaderEpoch, int transactionVersion) {
    long before = driven.log.logEndOffset();
    Object[] arguments = {
        "origin", quoted(origin), "leader_epoch", leaderEpoch, "batches", base64(records.buffer())};
    if (transactionVersion != 1) {
      arguments = new Object[] {"transaction_version", transactionVersion, "origin",
          quoted(origin), "leader_epoch", leaderEpoch, "batches", base64(records.buffer())};
    }
    trace.run("append", () -> {
      var done = switch (origin) {
        case "replication" -> driven.log.appendAsFollower(records, leaderEpoch);
        case "raft" -> driven.log.appendAsLeader(records, leaderEpoch, AppendOrigin.RAFT_LEADER);
        case "coordinator" -> driven.log.appendAsLeader(records, leaderEpoch,
            AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL,
            (short) transactionVersion);
        default -> driven.log.appendAsLeader(records, leaderEpoch);
      };
      return "{\"first_offset\":" + done.firstOffset()
          + ",\"last_offset\":" + done.lastOffset()
          + ",\"max_timestamp\":" + done.maxTimestamp()
          + ",\"log_append_time\":" + done.logAppendTime() + "}";
    }, arguments);
    return driven.log.logEndOffset() > before;
  }

  void read(long offset, int maxBytes, FetchIsolation isolation, boolean atLeastOne) {
    trace.run("read", () -> {
      var fetched = driven.log.read(offset, maxBytes, isolation, atLeastOne);
      long first = -1;
      long last = -1;
      int count = 0;
      for (RecordBatch batch : fetched.records.batches()) {
        first = count == 0 ? batch.baseOffset() : first;
        last = batch.lastOffset();
        count++;
      }
      String aborted = fetched.abortedTransactions.map(list -> list.stream()
          .map(each -> "[" + each.producerId() + "," + each.firstOffset() + "]")
          .collect(Collectors.joining(",", "[", "]"))).orElse("null");
      var at = fetched.fetchOffsetMetadata;
      return "{\"offset\":" + at.messageOffset
          + ",\"segment\":" + at.segmentBaseOffset
          + ",\"position\":" + at.relativePositionInSegment
          + ",\"bytes\":" + fetched.records.sizeInBytes()
          + ",\"first_entry_incomplete\":" + fetched.firstEntryIncomplete
          + ",\"complete_batches\":" + count
          + ",\"first_batch_base\":" + first
          + ",\"last_batch_last_offset\":" + last
          + ",\"aborted\":" + aborted + "}";
    }, "offset", offset, "max_bytes", maxBytes, "isolation", quoted("" + isolation),
        "min_one_message", atLeastOne);
  }

  void byTime(long time) {
    trace.run("offset_for_timestamp", () -> {
      var found = driven.log.fetchOffsetByTimestamp(time, Optional.empty()).timestampAndOffsetOpt();
      return found.isEmpty() ? "null" : "{\"offset\":" + found.get().offset
          + ",\"timestamp\":" + found.get().timestamp
          + ",\"leader_epoch\":" + found.get().leaderEpoch.orElse(-1) + "}";
    }, "timestamp", time);
  }

  void highWatermark(long offset) {
    trace.run("update_high_watermark", () -> "" + driven.log.updateHighWatermark(offset),
        "offset", offset);
  }

  /** As a leader does. */
  void raiseHighWatermark(long offset) {
    var log = driven.log;
    var to = offset == log.logEndOffset()
        ? log.logEndOffsetMetadata() : new LogOffsetMetadata(offset);
    trace.run("increment_high_watermark", () -> log.maybeIncrementHighWatermark(to)
        .map(old -> "" + old.messageOffset).orElse("null"), "offset", offset);
  }

  void logStart(long offset) {
    trace.run("increment_log_start_offset", () -> "" + driven.log.maybeIncrementLogStartOffset(
        offset, LogStartOffsetIncrementReason.ClientRecordDeletion), "offset", offset);
  }

  void truncate(long offset) {
    trace.run("truncate_to", () -> "" + driven.log.truncateTo(offset), "offset", offset);
  }

  void truncateFully(long offset, Optional<Long> logStart) {
    trace.run("truncate_fully_and_start_at", () -> {
      driven.log.truncateFullyAndStartAt(offset, logStart);
      return "true";
    }, "offset", offset, "log_start_offset", logStart.map(Object::toString).orElse("null"));
  }

  void epochEnd(int epoch) {
    trace.run("end_offset_for_epoch", () -> {
      var found = driven.log.endOffsetForEpoch(epoch);
      return found.isEmpty() ? "null" : "{\"offset\":" + found.get().offset()
          + ",\"leader_epoch\":" + found.get().epoch() + "}";
    }, "leader_epoch", epoch);
  }

  void assignEpoch(int epoch, long offset) {
    trace.run("assign_epoch", () -> {
      driven.log.assignEpochStartOffset(epoch, offset);
      return "true";
    }, "leader_epoch", epoch, "offset", offset);
  }

  void producers() {
    trace.run("producers", () -> driven.log.activeProducers().stream()
        .sorted(Comparator.comparingLong(each -> each.producerId()))
        .map(each -> "[" + each.producerId() + "," + each.producerEpoch()
            + "," + each.lastSequence() + "," + each.lastTimestamp()
            + "," + each.coordinatorEpoch() + "," + each.currentTxnStartOffset() + "]")
        .collect(Collectors.joining(",", "[", "]")));
  }

  void expireProducers() {
    trace.run("remove_expired_producers", () -> {
      driven.log.removeExpiredProducers(driven.clock.ms);
      return "true";
    });
  }

  void settings(Map<String, String> config) {
    trace.run("set_config", () -> {
      driven.settings(config);
      return "true";
    }, "config", TraceWriter.settings(config));
  }

  void roll() {
    trace.run("roll", () -> "" + driven.log.roll().baseOffset());
  }

  void deleteOldSegments() {
    trace.run("delete_old_segments", () -> "" + driven.log.deleteOldSegments());
  }

  void flush() {
    trace.run("flush", () -> {
      driven.log.flush(false);
      return "true";
    });
  }

  void reopen() {
    trace.run("close_and_reopen_clean", () -> {
      driven.reopen();
      return "true";
    });
  }

  /** A controlled shutdown, whose files are kept, and a start by these checkpoints. */
  void stopAndStart(long recoveryPoint, long logStart) {
    String left = "stop-" + stopCount++;
    trace.run("stop_and_start", () -> {
      driven.close();
      driven.copyTo(out.resolve(left));
      driven.start(true, recoveryPoint, logStart);
      return "true";
    }, "clean", true, "left", quoted(left), "recovery_point", recoveryPoint,
        "log_start_offset", logStart);
  }

  /** What may happen to the files of a log that was killed. */
  interface Accident {
    void to(Path dir) throws Exception;
  }

  /** A kill, an accident, and a start by these checkpoints with what is left, which is kept.
   * Throws where Kafka does not start: there is nothing to compare then. */
  void killAndStart(long recoveryPoint, long logStart, Accident accident) throws Exception {
    String found = "found-" + stopCount++;
    driven.kill();
    accident.to(driven.dir.toPath());
    driven.copyTo(out.resolve(found));
    driven.start(false, recoveryPoint, logStart);
    trace.run("stop_and_start", () -> "true", "clean", false,
        "found", quoted(found), "recovery_point", recoveryPoint, "log_start_offset", logStart);
  }

  void close() {
    trace.run("close", () -> {
      driven.close();
      return "true";
    });
  }
}
