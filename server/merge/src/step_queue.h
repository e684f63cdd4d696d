// StepQueue: which steps of one attempt wait for which ranks. Pure bookkeeping; time comes in as nanoseconds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "foreshock/wire/types.h"

namespace foreshock::merge {

class StepQueue {
 public:
  explicit StepQueue(int64_t wait_ns) : wait_ns_(wait_ns) {}

  // A process of a rank is there. A new one may go back in steps. True when what was a world of one grows by it.
  bool AddSource(uint32_t rank, uint32_t world_size, uint32_t incarnation);
  // A rank will send no more.
  void Leave(uint32_t rank) { gone_.insert(rank); }
  // A frame, or a part of one. Parts belong together by incarnation and seq - part; where a rank sends a step
  // again (another process, the same one once more) the newest counts and is waited for.
  void AddFrame(uint32_t rank, uint32_t incarnation, const std::shared_ptr<const wire::Frame>& frame,
                int64_t now_ns);
  // A step left over by an earlier life. Nothing is taken from it on before Known() says who has sent it.
  void AddLeftOver(int64_t step, int64_t now_ns);
  // The first steps of the queue, at most `most`, as far as they wait for Known().
  std::vector<int64_t> Unknown(size_t most) const;
  void Known(int64_t step, const std::set<uint32_t>& ranks);

  struct Due {
    int64_t step = 0;
    bool amended = false;                     // was merged before
    std::shared_ptr<const wire::Frame> only;  // the whole frame, in a world of one rank
    bool as_known = false;                    // nothing came since Known()
  };
  // Takes out the next step to merge; nullopt: none is due. What comes for the step from here on amends it.
  std::optional<Due> Take(int64_t now_ns);
  // Puts a step back that could not be merged; it is due at once.
  void GiveBack(const Due& due);

  size_t size() const { return steps_.size(); }
  uint32_t world_size() const { return world_size_; }

  // In a world of one rank frames of this many waiting steps are held; those of more are read again.
  static constexpr size_t kHeldSteps = 1024;

 private:
  // What has come of one frame: who sent it, the number of its first part.
  struct Parts {
    std::pair<uint32_t, uint64_t> frame{0, 0};
    std::set<uint32_t> seen;
  };
  struct Step {
    int64_t first_seen_ns = 0;
    bool due_now = false;
    bool unknown = false, left_over = false;
    bool first_time = false;          // given back: not merged before, whatever last_done_ says
    std::set<uint32_t> ranks;         // that have sent all parts
    std::map<uint32_t, Parts> parts;  // by rank
    std::vector<std::shared_ptr<const wire::Frame>> only;  // the parts, in a world of one rank
    bool held = true;                                      // `only` has all of them
  };
  bool IsWaitedFor(const Step& step, bool amended) const;

  const int64_t wait_ns_;
  uint32_t world_size_ = 1;
  std::map<uint32_t, uint32_t> incarnations_;  // rank -> newest
  std::set<uint32_t> gone_;                    // said goodbye, or missed a step
  std::map<int64_t, Step> steps_;
  std::optional<int64_t> last_done_;
};

}  // namespace foreshock::merge
