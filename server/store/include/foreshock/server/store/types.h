// What the store keeps and gives back, as plain data.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/wire/record.h"
#include "foreshock/wire/types.h"

namespace foreshock::store {

// Whose frames: those of one rank, or those merged over all ranks of the attempt. With a world of one rank
// the merged frames are that rank's, kept once.
inline constexpr uint32_t kMerged = 0xFFFFFFFF;

// How far ahead of this server's clock may be what another server wrote: clocks differ.
inline constexpr int64_t kMostAheadNs = 86'400 * int64_t{1'000'000'000};

// One process that sends: (run, attempt, rank, incarnation), as a small number. Ordered by age within a
// rank. Stays valid over restarts, until the run is deleted; treat it as opaque.
struct SourceId {
  uint32_t run = 0;      // 1, 2, ... in the order of creation; never used again
  uint32_t attempt = 0;  // 1, 2, ... within the run
  uint32_t rank = 0;
  uint32_t incarnation = 0;  // 1, 2, ... within the attempt (not the random number of the Hello)
  auto operator<=>(const SourceId&) const = default;
};

struct SourceInfo {
  SourceId id;
  // As stored, attempt filled in; the newest one of this incarnation. Never null.
  std::shared_ptr<const wire::Hello> hello;
  uint64_t durable_seq = 0;  // every record up to here survives a power cut
  uint64_t frames = 0;       // parts of split frames count one each
  uint64_t events = 0;
  uint64_t duplicates = 0;  // records that came again and were left out
  uint64_t dropped = 0;     // lost before they came, as the sender declared
  uint64_t gaps = 0;        // sequence numbers that are missing and were not declared
  uint64_t quarantined = 0;
  std::optional<int64_t> first_step, last_step;  // of frames in good standing
  int64_t clock_skew_ns = 0;                     // sender's clock minus the server's
  int64_t first_unix_ns = 0, last_unix_ns = 0;   // of records, by the server's clock
  int64_t last_sent_unix_ns = 0;  // the latest of its records, by the sender's clock; 0: unknown
  std::optional<wire::Goodbye> goodbye;
};

enum class RunState : uint8_t { kRunning = 1, kFinished = 2, kFailed = 3, kStopped = 4, kSilent = 5 };

struct AttemptInfo {
  std::string run;
  std::string attempt;
  uint32_t number = 0;  // 1 for the oldest
  wire::AttemptSource source = wire::AttemptSource::kUnspecified;
  uint32_t world_size = 1;  // the largest that a Hello named
  int64_t first_unix_ns = 0, last_unix_ns = 0;
  std::optional<int64_t> first_step, last_step;
  std::vector<SourceInfo> sources;  // by rank, then age

  // The newest source of the lowest rank, whose Hello speaks for the attempt; nullptr without sources.
  const SourceInfo* lead() const;
};

// When the server could hear anybody. A run is not silent because the server was away.
struct Listening {
  int64_t before_unix_ns = 0;  // the last sign of life of the server's life before this one; 0: none
  int64_t since_unix_ns = 0;   // since when this life listens
};

// Two live processes that send as the same rank: the earlier one has sent a record that is younger than the
// later one's start, by the senders' clocks (with 2 s of grace on one host, 60 s between hosts). The newest
// such pair of each rank. A restarted process makes none, whatever a spool still holds of the old one.
struct Rivals {
  uint32_t rank = 0;
  const SourceInfo* earlier = nullptr;  // into the attempt
  const SourceInfo* later = nullptr;
};
std::vector<Rivals> RivalsOf(const AttemptInfo& attempt);

// What an attempt is doing. The newest incarnation of every rank counts: failed when one said so, else
// stopped likewise, finished when all ranks of the world did; else silent when the last record came more than
// `silent_after_ns` before `now_unix_ns`, else running. An attempt that was not silent when the server went
// away has `silent_after_ns` anew from when it is back.
RunState StateOf(const AttemptInfo& attempt, int64_t now_unix_ns, int64_t silent_after_ns,
                 const Listening& listening = {});

// Meta entries of a run that say how it came here (docs/formats/store.md). `begun` is there from an import's
// first write to its end: where it is, and no import runs, one broke off.
inline constexpr char kImportKind[] = "import";
inline constexpr char kImportBegun[] = "begun";

struct RunInfo {
  std::string run;
  int64_t first_unix_ns = 0, last_unix_ns = 0;
  std::vector<AttemptInfo> attempts;  // oldest first, never empty
  const AttemptInfo& newest() const { return attempts.back(); }
};

// A record on its way into the store.
struct Append {
  SourceId source;
  wire::RecordType type = wire::RecordType::kFrame;  // kFrame, kEvent or kGoodbye
  std::string payload;                               // as it came: this is what is kept
  wire::RecordHead head;                             // of the payload
  // Decoded, one of them by type. Shared with the observers.
  std::shared_ptr<const wire::Frame> frame;
  std::shared_ptr<const wire::Event> event;
  std::shared_ptr<const wire::Goodbye> goodbye;
  size_t frame_bytes = 0;  // MemoryOf(*frame), where the caller knows it; 0: to be found out
  // Why it is put aside; empty: in good standing. The payload is kept, acknowledged and counted, and not seen
  // by readers of frames and events.
  std::string quarantine;
  int64_t received_unix_ns = 0;
  int64_t sent_unix_ns = 0;  // by the sender's clock, 0: unknown
  std::optional<int64_t> clock_skew_ns;
};

enum class AppendOutcome : uint8_t {
  kStored,
  kDuplicate,    // its sequence number was durable already
  kQuarantined,  // kept apart
  kNoSource,     // the run was deleted meanwhile
};

struct StoredFrame {
  uint32_t rank = 0;         // or kMerged
  uint32_t incarnation = 0;  // SourceId::incarnation; of merged frames 0, except in a world of one rank
  wire::Frame frame;         // whole: parts are put together
};

// Some frames of a series that follow each other.
struct RollupBucket {
  int64_t first_step = 0, last_step = 0;
  uint64_t steps = 0;                 // frames that have the series
  std::vector<uint64_t> counts;       // a head each, as the next: values that are numbers
  std::vector<float> min, mean, max;  // NaN where there are none
};
struct Rollup {
  std::optional<uint32_t> layer;
  std::vector<uint32_t> heads;  // a scalar: 0
  std::vector<RollupBucket> buckets;
};

struct StoredEvent {
  uint32_t rank = 0;
  uint32_t incarnation = 0;
  wire::Event event;
};

struct QuarantinedRecord {
  SourceId source;
  wire::RecordType type = wire::RecordType::kFrame;
  uint64_t seq = 0;
  std::string reason;
  std::string payload;
};

struct SeriesPoint {
  int64_t step = 0;
  wire::Series series;  // as stored: numerators, weights, presence
};

}  // namespace foreshock::store
