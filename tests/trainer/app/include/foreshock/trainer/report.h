#pragma once

#include <cstdio>

#include "foreshock/foreshock.h"
#include "foreshock/trainer/model.h"
#include "foreshock/trainer/options.h"
#include "foreshock/trainer/outcome.h"
#include "foreshock/trainer/training.h"

namespace foreshock::trainer {

// Prints what a run does, as text or JSON lines. Allocates nothing of its own; stdio may allocate at its
// first line.
class Report {
 public:
  Report(const Options& options, std::FILE* out) : options_(options), out_(out) {}

  void begin(const Corpus& corpus, const Training& training);
  // After each step; fault_active: the fault acted in it.
  void step(const Training& training, const Outcome& outcome, bool fault_active);
  void checkpoint(std::int64_t step, const char* path);
  void qk_norm(std::int64_t step, int layer);
  void action(std::int64_t step, const fs_action& action, bool taken);
  void watched(const fs_stats& stats);
  void end(const Training& training, const Outcome& outcome, double milliseconds_per_step);

 private:
  bool text() const { return !options_.quiet && !options_.jsonl; }

  const Options& options_;
  std::FILE* out_;
};

}  // namespace foreshock::trainer
