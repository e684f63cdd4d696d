#include "recent_frames.h"

#include <algorithm>
#include <limits>

namespace foreshock::store {

bool LacksHeads(const wire::Frame& frame) {
  return std::any_of(frame.series.begin(), frame.series.end(),
                     [](const wire::Series& s) { return !s.present.empty(); });
}

void RecentFrames::Add(const SourceId& source, int64_t step, uint64_t seq,
                       std::shared_ptr<const wire::Frame> frame, size_t bytes) {
  const Key key{{source.run, source.attempt, source.rank}, step, source.incarnation, seq};
  std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known != entries_.end()) Erase(known);
  if (bytes > max_bytes_) return;
  while (bytes_ + bytes > max_bytes_) {
    // A source's own older frames are sealed before this one.
    if (std::get<0>(ages_.front()) == std::get<0>(key)) return;
    Erase(entries_.find(ages_.front()));
  }
  entries_.emplace(key, Entry{std::move(frame), bytes, ages_.insert(ages_.end(), key)});
  bytes_ += bytes;
}

std::shared_ptr<const wire::Frame> RecentFrames::Find(const FrameKeyParts& key) const {
  const SourceId& source = key.source;
  std::lock_guard lock(mutex_);
  const auto it =
      entries_.find({{source.run, source.attempt, source.rank}, key.step, source.incarnation, key.seq});
  return it == entries_.end() ? nullptr : it->second.frame;
}

void RecentFrames::Drop(const FramesOf& source, int64_t below) {
  std::lock_guard lock(mutex_);
  auto it = entries_.lower_bound({source, std::numeric_limits<int64_t>::min(), 0, 0});
  while (it != entries_.end() && std::get<0>(it->first) == source && std::get<1>(it->first) < below)
    it = Erase(it);
}

void RecentFrames::Forget(uint32_t run) {
  std::lock_guard lock(mutex_);
  auto it = entries_.lower_bound({{run, 0, 0}, std::numeric_limits<int64_t>::min(), 0, 0});
  while (it != entries_.end() && std::get<0>(it->first).run == run) it = Erase(it);
}

size_t RecentFrames::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

RecentFrames::Entries::iterator RecentFrames::Erase(Entries::iterator it) {
  bytes_ -= it->second.bytes;
  ages_.erase(it->second.age);
  return entries_.erase(it);
}

}  // namespace foreshock::store
