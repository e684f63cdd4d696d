// What an archive of one run holds, entry by entry (docs/formats/archive.md), as plain data.
//
// Attempts, ranks and processes are named by the numbers that the server which wrote the archive gave them;
// they mean something within the archive only. A process is an incarnation of a rank, by its number within
// the attempt.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

namespace foreshock::archive {

inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMergedRank = 0xFFFFFFFF;  // frames merged over all ranks; their process is 0

// Whose a record is.
struct Place {
  uint32_t attempt = 0, rank = 0, process = 0;
  auto operator<=>(const Place&) const = default;
};

// The first entry, once.
struct Begin {
  std::string run;
  int64_t first_unix_ns = 0;  // when the run was first heard of
  int64_t made_unix_ns = 0;
  std::string made_by;  // the server's version
};
struct Attempt {
  uint32_t number = 0;
  std::string name;
  uint32_t source = 0;  // AttemptSource of ingest.proto: where the name comes from
  int64_t first_unix_ns = 0;
};
// A process. Comes before what it sent.
struct Process {
  Place place;
  std::string hello;  // an encoded Hello, the newest one
  int64_t first_unix_ns = 0;
  std::string counters;  // as in `Counters`
};
enum class RecordKind : uint8_t { kFrame = 1, kEvent = 2, kQuarantined = 3 };
struct Record {
  RecordKind kind = RecordKind::kFrame;
  Place place;
  std::string payload;  // as it came; merged frames: as the server encoded them
  // Of a quarantined one alone:
  uint32_t type = 0;  // docs/formats/link.md
  uint64_t seq = 0;
  std::string reason;
};
// A step whose frames were not merged yet.
struct Unmerged {
  uint32_t attempt = 0;
  int64_t step = 0;
};
// What another part of the server keeps: alerts, their engines' states, actions, silences, the audit trail.
struct Note {
  std::string kind, key, value;
  bool of_run = true;  // false: of the server, about this run
};
// What the server had counted of a process in the moment that the archive is of: the fields of a `C` value in
// docs/formats/store.md. Comes behind all frames of its rank. An archive has no record above its durable_seq.
struct Counters {
  Place place;
  std::string counters;
};

using Entry = std::variant<Begin, Attempt, Process, Record, Unmerged, Note, Counters>;

// How many of each an archive holds, Begin and end left out.
struct Counts {
  uint64_t attempts = 0, processes = 0, frames = 0, merged_frames = 0, events = 0, quarantined = 0,
           unmerged = 0, notes = 0, counters = 0;
  bool operator==(const Counts&) const = default;
};

}  // namespace foreshock::archive
