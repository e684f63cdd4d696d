// How much an archive may name: what readers hold in memory while they read it, and what costs the server
// that takes it in. Writers keep to it too, so that no archive is written that nobody takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "foreshock/archive/entry.h"
#include "foreshock/base/result.h"

namespace foreshock::archive {

inline constexpr size_t kMostAttempts = 1u << 14;         // a restart an hour for 22 months
inline constexpr size_t kMostProcesses = 1u << 19;        // 4,096 ranks and 128 restarts of all
inline constexpr size_t kMostProcessesOfRank = 1u << 10;  // restarts of one rank within an attempt
inline constexpr size_t kMostUnmerged = 1u << 20;         // a step a second for twelve days that wait
// Of the run's notes together: keys, values, and kBytesOfNote for each. Whoever gives or takes them holds
// them.
inline constexpr size_t kMostBytesOfNotes = 256u << 20;
inline constexpr size_t kBytesOfNote = 256;

// Not thread-safe.
class Bounds {
 public:
  // Counts the entry; kResourceExhausted naming what there is too much of, and the limit.
  Status Take(const Entry& entry);

 private:
  size_t attempts_ = 0, processes_ = 0, unmerged_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, size_t> of_rank_;  // processes, by attempt and rank
};

}  // namespace foreshock::archive
