// Everything that a report says about one run, read from the store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/report/report.h"
#include "loss_story.h"

namespace foreshock::report {

// One signal of one head in all the runs of the page, and the median of its layer in one of them.
struct HeadSignal {
  std::string name, unit, meaning;
  std::vector<std::vector<Point>> runs;  // by run; empty where it was not measured
  std::vector<Point> median;
};

// A signal of all heads at some steps. Values run by step, layer, head; NaN is a value, nullopt is missing.
struct HeatMap {
  std::string name, meaning;
  std::vector<uint32_t> layers;
  uint32_t heads = 0;  // of the widest layer
  std::vector<int64_t> steps;
  std::vector<std::optional<float>> values;
};

// A head to look at, because an alert names it or its logits are the largest.
struct HeadPanel {
  uint32_t layer = 0, head = 0;
  size_t run = 0;   // which run says so
  std::string why;  // "qk_runaway names it", ...
  std::vector<HeadSignal> signals;
};

struct RunData {
  store::AttemptInfo attempt;
  size_t earlier_attempts = 0;
  store::RunState state = store::RunState::kRunning;
  std::vector<Point> loss;  // all of it
  LossStory story;
  std::vector<alert::AlertRecord> alerts;  // of this attempt, oldest first
  std::vector<wire::Event> events;
  std::vector<v1::ActionRecord> actions;
  std::vector<HeatMap> maps;

  const std::string& run() const { return attempt.run; }
  // The first alert of a severity or worse that fired; nullptr without one.
  const alert::AlertRecord* First(detect::Severity severity) const;
};

Result<RunData> ReadRun(const ReportOptions& options, const std::string& run);

// Of every run the head that its worst alert names, at most three in all; without any the head with the
// largest logit at the end of the first run.
Result<std::vector<HeadPanel>> ReadPanels(const ReportOptions& options, const std::vector<RunData>& runs);

}  // namespace foreshock::report
