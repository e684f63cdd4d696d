#include "due.h"

#include <algorithm>

namespace foreshock::upkeep {
namespace {

constexpr char kKeepLabel[] = "keep";

bool IsKept(const store::RunInfo& run) {
  return std::any_of(run.attempts.begin(), run.attempts.end(), [](const store::AttemptInfo& attempt) {
    const store::SourceInfo* lead = attempt.lead();
    return lead != nullptr && lead->hello->labels.contains(kKeepLabel);
  });
}

}  // namespace

bool MayGo(const store::RunInfo& run, const KeepRules& rules, int64_t now_unix_ns,
           const store::Listening& listening) {
  if (now_unix_ns - run.last_unix_ns < rules.quiet_ns || IsKept(run)) return false;
  return std::none_of(run.attempts.begin(), run.attempts.end(), [&](const store::AttemptInfo& attempt) {
    return store::StateOf(attempt, now_unix_ns, rules.silent_after_ns, listening) ==
           store::RunState::kRunning;
  });
}

std::vector<std::string> TooOld(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                int64_t now_unix_ns, const store::Listening& listening) {
  std::vector<std::string> old;
  if (rules.keep_ns == 0) return old;
  for (const store::RunInfo& run : runs) {
    if (now_unix_ns - run.last_unix_ns >= rules.keep_ns && MayGo(run, rules, now_unix_ns, listening))
      old.push_back(run.run);
  }
  return old;
}

std::optional<std::string> Quietest(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                    int64_t now_unix_ns, const store::Listening& listening) {
  const store::RunInfo* quietest = nullptr;
  for (const store::RunInfo& run : runs) {
    if (!MayGo(run, rules, now_unix_ns, listening)) continue;
    if (quietest == nullptr || run.last_unix_ns < quietest->last_unix_ns) quietest = &run;
  }
  if (quietest == nullptr) return std::nullopt;
  return quietest->run;
}

}  // namespace foreshock::upkeep
