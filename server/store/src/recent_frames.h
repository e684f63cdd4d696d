// Frames as they were decoded when they came, until they are sealed: so that sealing decodes nothing.
//
// A cache: what is not here any more (too many bytes, a restart) is read from the database and decoded.
// Whoever seals a frame compares what it encodes to with what is stored. What the places of missing heads
// hold is not told by that: such frames are to be decoded (LacksHeads). Thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "keys.h"
#include "layout.h"

namespace foreshock::store {

bool LacksHeads(const wire::Frame& frame);

class RecentFrames {
 public:
  // More bytes: more frames of sources that wait for being sealed need no second decoding.
  explicit RecentFrames(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Takes the place of an earlier frame of the same key. Beyond the limit the oldest of other sources go, or
  // else this one. `bytes`: MemoryOf(*frame).
  void Add(const SourceId& source, int64_t step, uint64_t seq, std::shared_ptr<const wire::Frame> frame,
           size_t bytes);
  // nullptr: not here.
  std::shared_ptr<const wire::Frame> Find(const FrameKeyParts& key) const;
  // All of a source below a step.
  void Drop(const FramesOf& source, int64_t below);
  void Forget(uint32_t run);
  size_t bytes() const;

 private:
  using Key = std::tuple<FramesOf, int64_t, uint32_t, uint64_t>;  // step, incarnation, seq
  struct Entry {
    std::shared_ptr<const wire::Frame> frame;
    size_t bytes = 0;
    std::list<Key>::iterator age;
  };
  using Entries = std::map<Key, Entry>;
  Entries::iterator Erase(Entries::iterator it);

  const size_t max_bytes_;
  mutable std::mutex mutex_;  // guards everything below
  Entries entries_;
  std::list<Key> ages_;  // oldest first
  size_t bytes_ = 0;
};

}  // namespace foreshock::store
