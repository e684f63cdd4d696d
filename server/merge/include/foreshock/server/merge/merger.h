// Merger: watches the store and makes merged frames out of the ranks' frames as they become durable.
//
// A step is merged when every rank of the world has sent it, or `wait` after its first frame came. A rank
// that came too late for one step is not waited for again until it is back in time, nor are ranks that have
// said goodbye. What comes late amends the merged frame. Steps of an attempt are merged in rising order; a
// new process (incarnation) may go back. After a crash the store's marks say what is still to be merged.
//
// In a world of one rank the frame itself is passed on (Store::PutMerged tells the observers).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"

namespace foreshock::merge {

struct MergerOptions {
  std::chrono::nanoseconds wait = std::chrono::seconds(30);
  bool own_thread = true;  // false: the owner calls Tick (tests)
};

class Merger {
 public:
  // Neither store nor clock are owned; both must outlive the Merger.
  static Result<std::unique_ptr<Merger>> Start(store::Store& store, const Clock& clock,
                                               const MergerOptions& options);
  virtual ~Merger() = default;  // stops; what is not merged is merged after the next Start

  // Merges what is due. Thread-safe.
  virtual void Tick() = 0;
  // Merging ends with the step at hand, for good; returns at once. Thread-safe, observers of the store may call it.
  virtual void Stop() = 0;

  struct Stats {
    uint64_t merged = 0;      // steps
    uint64_t amended = 0;     // steps merged again for a late rank
    uint64_t incomplete = 0;  // steps merged without a rank
    uint64_t pending = 0;     // steps that wait
  };
  virtual Stats stats() const = 0;
};

}  // namespace foreshock::merge
