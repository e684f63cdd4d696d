// The agent's spool: what trainers sent and the server has not yet acknowledged, on disk, bounded.
//
// Records of a source (one trainer process: run, attempt, rank, incarnation) are kept in order of their seq,
// in segments that all sources share. A segment is deleted when every record in it is acknowledged. The
// promise, and the recovery contract behind it (docs/formats/spool.md): a record whose Append returned ok is
// delivered by a reader until it is acknowledged, through kill -9, power cuts and full disks, once and in
// order.
//
// At the limit, and when the disk is full, Append returns kResourceExhausted and nothing of the batch is
// kept: the caller stops acknowledging, waits (WaitForSpace) and appends again. Both pass by themselves. Beyond half of
// the limit each of several runs takes its share at most, and the last sixteenth is for runs that hold little.
//
// Thread-safe, made for many threads that append (each for its own source) and many that read.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/file.h"
#include "foreshock/base/result.h"

namespace foreshock::agent {

// One trainer process.
struct SourceKey {
  std::string run;
  std::string attempt;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  auto operator<=>(const SourceKey&) const = default;
  // "run/attempt rank 0 incarnation 00c0ffee00c0ffee", for messages.
  std::string ToString() const;
};

struct SpoolOptions {
  // Bytes of all segments. More: a longer outage of the server is bridged.
  uint64_t limit_bytes = uint64_t{16} << 30;
  // A segment is closed at this size; at most an eighth of the limit. Larger: fewer files, but a slow source
  // pins more.
  uint64_t segment_bytes = uint64_t{64} << 20;
  // How often acknowledged positions are written down. A loss of them only makes records go out again.
  int64_t ack_persist_interval_ms = 5000;
  Clock* clock = &SystemClock::Instance();
};

struct SpoolItem {
  uint64_t seq = 0;  // rising within a source; what is not above the last one is ignored (a repetition)
  uint8_t type = 0;  // below 0xF0, as on the wire link
  std::string_view payload;
};

struct SpoolRecord {
  uint64_t seq = 0;
  uint8_t type = 0;
  std::string payload;
  uint64_t lost_before = 0;  // seqs directly before this one that the disk has lost (corruption)
};

struct SourceInfo {
  SourceKey key;
  std::string hello;  // as given to OpenSource
  uint64_t durable_seq = 0;
  uint64_t acked_seq = 0;
  bool attached = false;
};

struct SpoolStats {
  uint64_t bytes = 0;  // of all segments
  uint64_t limit_bytes = 0;
  uint64_t segments = 0;
  uint64_t sources = 0;
  uint64_t pending = 0;        // seqs not yet acknowledged
  uint64_t appended = 0;       // records since the start
  uint64_t repeated = 0;       // records ignored because they were there already
  uint64_t refused_limit = 0;  // batches refused because of the limit
  uint64_t refused_share = 0;  // batches refused because their run has its share while others wait
  uint64_t refused_disk = 0;   // batches refused because of a full or failing disk
  uint64_t syncs = 0;          // group commits
  uint64_t lost = 0;           // seqs lost to corruption, as found by readers
  int64_t oldest_unix_ns = 0;  // when the oldest segment with pending records was begun; 0: none
};

// What opening found.
struct SpoolRecovery {
  uint64_t segments = 0;
  uint64_t records = 0;     // not acknowledged
  uint64_t torn_bytes = 0;  // ends of segments that nobody was promised
  uint64_t corrupt_regions = 0;
  uint64_t corrupt_bytes = 0;
  std::vector<std::string> warnings;  // one line each, for the log
};

class SpoolReader;

class Spool {
 public:
  // Opens or creates a spool in a directory (its parents too) and locks it. kFailedPrecondition when another
  // process holds it; kInvalidArgument for options that make no sense; file errors. Damage is no failure: see
  // *recovery.
  static Result<std::unique_ptr<Spool>> Open(FileSystem& fs, const std::string& dir,
                                             const SpoolOptions& options, SpoolRecovery* recovery);
  // Writes acknowledged positions down. All readers must be gone and all calls returned.
  ~Spool();

  // Makes a source known, or replaces its hello, and marks it attached (a connection is there). Returns the
  // highest seq of it that is durable here. A source stays known while it is attached or has pending records.
  Result<uint64_t> OpenSource(const SourceKey& key, std::string_view hello);
  // One connection less; none of its calls may be under way.
  void CloseSource(const SourceKey& key);

  // Appends items in order and returns when they are durable. Waits for the disk; one sync serves all that
  // wait. kResourceExhausted: limit or disk full, nothing kept. kIo: the disk failed, nothing promised; may
  // be tried again, in a new segment. kNotFound: the source is not attached. kInvalidArgument: type or size
  // out of range.
  Status Append(const SourceKey& key, std::span<const SpoolItem> items);

  // Every record of the source up to seq has arrived for good and may go, or need not be kept when it comes
  // (a source may have been forgotten here while the server knows it). Positions only rise.
  void Acknowledge(const SourceKey& key, uint64_t seq);

  // Reads the durable records of a source with seq > after, in order, for ever. The reader must not outlive
  // the spool.
  std::unique_ptr<SpoolReader> Read(const SourceKey& key, uint64_t after);

  std::vector<SourceInfo> Sources() const;
  // One of them; nothing when it is not known (any more).
  std::optional<SourceInfo> Find(const SourceKey& key) const;
  // A number that changes whenever a source is added. Returns at once when it differs from `seen`, else after
  // a change, Wake, or the timeout.
  uint64_t WaitForSources(uint64_t seen, std::chrono::nanoseconds timeout) const;
  // Returns when space may have become free, after Wake, or after the timeout.
  void WaitForSpace(std::chrono::nanoseconds timeout) const;
  // Makes every present waiter return: for stopping.
  void Wake();

  SpoolStats Stats() const;

  struct Impl;  // private to the implementation

 private:
  friend class SpoolReader;
  explicit Spool(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// One thread at a time.
class SpoolReader {
 public:
  ~SpoolReader();
  // True and the next record; false when none came within the timeout or Spool::Wake was called. kNotFound
  // when the source is gone (everything acknowledged and nobody attached); kIo and others when the disk
  // cannot be read, after which Next tries the same record again.
  Result<bool> Next(SpoolRecord* record, std::chrono::nanoseconds timeout);

 private:
  friend class Spool;
  struct Impl;
  explicit SpoolReader(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// What a spool directory holds, read without locking or changing it; it may be in use.
struct SegmentSummary {
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint64_t records = 0;
  int64_t created_unix_ns = 0;
};
struct SpoolSummary {
  std::vector<SegmentSummary> segments;
  std::vector<SourceInfo> sources;
  SpoolRecovery recovery;
};
Result<SpoolSummary> InspectSpool(FileSystem& fs, const std::string& dir);

}  // namespace foreshock::agent
