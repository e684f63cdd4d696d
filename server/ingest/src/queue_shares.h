// Who has how much of a bounded queue, and who may have more: by run, by the rule of base/shares.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "foreshock/base/shares.h"

namespace foreshock::ingest {

// Not thread-safe.
class QueueShares {
 public:
  explicit QueueShares(size_t most_bytes) : most_(most_bytes) {}

  // Something larger than the queue may go in when it is empty.
  Room RoomOf(uint32_t run, size_t bytes) const {
    if (bytes_ == 0) return Room::kFree;
    const auto own = of_runs_.find(run);
    return RoomFor(bytes, own == of_runs_.end() ? 0 : own->second, bytes_, most_, of_runs_.size());
  }
  void Add(uint32_t run, size_t bytes) {
    bytes_ += bytes;
    of_runs_[run] += bytes;
  }
  // What was added.
  void Remove(uint32_t run, size_t bytes) {
    bytes_ -= bytes;
    const auto own = of_runs_.find(run);
    if ((own->second -= bytes) == 0) of_runs_.erase(own);
  }
  size_t bytes() const { return bytes_; }

 private:
  const size_t most_;
  size_t bytes_ = 0;
  std::unordered_map<uint32_t, size_t> of_runs_;
};

}  // namespace foreshock::ingest
