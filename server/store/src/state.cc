#include <algorithm>
#include <map>

#include "foreshock/server/store/types.h"

namespace foreshock::store {

const SourceInfo* AttemptInfo::lead() const {
  const SourceInfo* newest = nullptr;
  for (const SourceInfo& candidate : sources) {
    if (newest != nullptr && candidate.id.rank != newest->id.rank) break;
    newest = &candidate;
  }
  return newest;
}

std::vector<Rivals> RivalsOf(const AttemptInfo& attempt) {
  constexpr int64_t kSameHostNs = 2'000'000'000, kOtherHostNs = 60'000'000'000;
  std::map<uint32_t, Rivals> by_rank;
  for (const SourceInfo& earlier : attempt.sources) {
    for (const SourceInfo& later : attempt.sources) {
      if (earlier.id.rank != later.id.rank || earlier.last_sent_unix_ns == 0) continue;
      if (earlier.hello->started_unix_ns == 0 ||
          earlier.hello->started_unix_ns >= later.hello->started_unix_ns) {
        continue;
      }
      const auto started = static_cast<int64_t>(later.hello->started_unix_ns);
      const int64_t grace = earlier.hello->host == later.hello->host ? kSameHostNs : kOtherHostNs;
      if (earlier.last_sent_unix_ns - grace <= started) continue;
      Rivals& rivals = by_rank[later.id.rank];
      const bool newer = rivals.later == nullptr || rivals.later->id.incarnation < later.id.incarnation ||
                         (rivals.later == &later && rivals.earlier->id.incarnation < earlier.id.incarnation);
      if (newer) rivals = {later.id.rank, &earlier, &later};
    }
  }
  std::vector<Rivals> all;
  for (const auto& [rank, rivals] : by_rank) all.push_back(rivals);
  return all;
}

RunState StateOf(const AttemptInfo& attempt, int64_t now_unix_ns, int64_t silent_after_ns,
                 const Listening& listening) {
  std::map<uint32_t, const SourceInfo*> newest;  // by rank
  for (const SourceInfo& source : attempt.sources) newest[source.id.rank] = &source;
  size_t finished = 0;
  bool stopped = false;
  for (const auto& [rank, source] : newest) {
    if (!source->goodbye) continue;
    switch (source->goodbye->status) {
      case wire::GoodbyeStatus::kFailed:
        return RunState::kFailed;
      case wire::GoodbyeStatus::kStopped:
        stopped = true;
        break;
      default:
        ++finished;
    }
  }
  if (stopped) return RunState::kStopped;
  if (finished >= attempt.world_size) return RunState::kFinished;
  int64_t heard = attempt.last_unix_ns;
  const bool was_live = listening.before_unix_ns - heard <= silent_after_ns;
  if (listening.before_unix_ns != 0 && was_live) heard = std::max(heard, listening.since_unix_ns);
  return now_unix_ns - heard > silent_after_ns ? RunState::kSilent : RunState::kRunning;
}

}  // namespace foreshock::store
