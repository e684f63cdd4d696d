#include "due.h"

#include <algorithm>

namespace foreshock::upkeep {
namespace {

constexpr char kKeepLabel[] = "keep";
constexpr int64_t kYear2020Ns = 1'577'836'800'000'000'000;

bool IsKept(const store::RunInfo& run) {
  for (const store::AttemptInfo& attempt : run.attempts) {
    for (const store::SourceInfo& source : attempt.sources) {
      if (source.hello->labels.contains(kKeepLabel)) return true;
    }
  }
  return false;
}

std::vector<store::SourceId> SourcesOf(const store::RunInfo& run) {
  std::vector<store::SourceId> ids;
  for (const store::AttemptInfo& attempt : run.attempts) {
    for (const store::SourceInfo& source : attempt.sources) ids.push_back(source.id);
  }
  return ids;
}

}  // namespace

bool IsGoingOn(const store::RunInfo& run, int64_t silent_after_ns, const Now& now) {
  return std::any_of(run.attempts.begin(), run.attempts.end(), [&](const store::AttemptInfo& attempt) {
    return store::StateOf(attempt, now.unix_ns, silent_after_ns, now.listening) == store::RunState::kRunning;
  });
}

bool MayGo(const store::RunInfo& run, const KeepRules& rules, const Now& now) {
  return now.unix_ns - run.last_unix_ns >= rules.quiet_ns && !IsKept(run) &&
         !IsGoingOn(run, rules.silent_after_ns, now);
}

std::vector<store::RunInfo> TooOld(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                   const Now& now) {
  std::vector<store::RunInfo> old;
  if (rules.keep_ns == 0) return old;
  for (const store::RunInfo& run : runs) {
    const bool over = run.last_unix_ns >= kYear2020Ns && now.unix_ns - run.last_unix_ns >= rules.keep_ns;
    if (over && MayGo(run, rules, now)) old.push_back(run);
  }
  return old;
}

std::optional<store::RunInfo> Quietest(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                       const Now& now) {
  const store::RunInfo* quietest = nullptr;
  for (const store::RunInfo& run : runs) {
    if (!MayGo(run, rules, now)) continue;
    if (quietest == nullptr || run.last_unix_ns < quietest->last_unix_ns) quietest = &run;
  }
  if (quietest == nullptr) return std::nullopt;
  return *quietest;
}

bool SameAs(const store::RunInfo& before, const store::RunInfo& after) {
  return before.last_unix_ns == after.last_unix_ns && SourcesOf(before) == SourcesOf(after);
}

}  // namespace foreshock::upkeep
