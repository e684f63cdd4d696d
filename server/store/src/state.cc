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

RunState StateOf(const AttemptInfo& attempt, int64_t now_unix_ns, int64_t silent_after_ns) {
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
  return now_unix_ns - attempt.last_unix_ns > silent_after_ns ? RunState::kSilent : RunState::kRunning;
}

}  // namespace foreshock::store
