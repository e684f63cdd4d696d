// Who has how much of a bounded queue: beyond half of it no run takes more than its share, so that the others
// of a busy server need not wait behind one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace foreshock::ingest {

// Not thread-safe.
class QueueShares {
 public:
  explicit QueueShares(size_t most_bytes) : most_(most_bytes) {}

  // Something larger than the queue may go in when it is empty.
  bool HasRoom(uint32_t run, size_t bytes) const {
    if (bytes_ == 0) return true;
    if (bytes_ + bytes > most_) return false;
    const auto own = of_runs_.find(run);
    if (bytes_ + bytes <= most_ / 2 || own == of_runs_.end()) return true;
    return own->second + bytes <= most_ / of_runs_.size();
  }
  // Whether the queue has room, if not for this run.
  bool FitsAtAll(size_t bytes) const { return bytes_ + bytes <= most_; }
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
