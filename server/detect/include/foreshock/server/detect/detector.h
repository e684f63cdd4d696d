// Runs the built-in rules, and the user's, over the steps of one (run, attempt).
//
// Deterministic: the same samples give the same verdicts, live and in `foreshock replay`. No clock, no I/O,
// no global state. Not thread-safe: one owner. Memory is bounded by the windows: about 5 KiB a head.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/server/detect/finding.h"
#include "foreshock/server/detect/qk_runaway_constants.h"
#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/detect/step_sample.h"
#include "foreshock/server/detect/user_rule.h"

namespace foreshock::detect {

// What is known of a run before its first step.
struct RunInfo {
  uint32_t layers = 0;
  uint32_t heads = 0;               // query heads of the widest layer
  uint32_t kv_heads = 0;            // 0: as many as heads
  uint32_t head_dim = 0;            // 0: unknown
  uint32_t sample_every_steps = 0;  // 0: unknown
  bool qk_norm = false;             // the model normalises q and k itself
};

struct DetectorOptions {
  std::vector<std::string> disabled_rules;
  // Seconds without a frame before `stalled` fires, at least; it also waits for 20 usual gaps between frames.
  double stalled_seconds = 300;
  QkRunawayConstants qk_runaway = {};
  UserRulesPtr user_rules =
      nullptr;  // null: none. Their `run` patterns are the caller's affair (RulesForRun)
};

class Detector {
 public:
  explicit Detector(const RunInfo& info, DetectorOptions options = {});
  ~Detector();
  Detector(Detector&&) noexcept;
  Detector& operator=(Detector&&) noexcept;

  // Judges one step. Steps must rise: a sample whose step is not above the last one is ignored, without
  // verdicts. Layers or heads beyond RunInfo are ignored.
  std::vector<Verdict> Observe(const StepSample& sample);

  // Tells that `seconds` have passed since the last sample was received, for `stalled`. Call it when nothing
  // arrives, e.g. every 10 s; a live caller passes its monotonic clock's difference.
  std::vector<Verdict> Tick(double seconds_since_last_sample);

  // Replaces the user's rules between two steps. Rules that are the same as before keep what they have
  // learned; the others begin afresh.
  void SetUserRules(const UserRulesPtr& rules);
  // Of a built-in rule, or of one of the user's that runs; nullptr when there is none. Valid until
  // SetUserRules.
  const RuleInfo* FindRule(std::string_view name) const;

  // The last step observed, -1 before the first.
  int64_t last_step() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::detect
