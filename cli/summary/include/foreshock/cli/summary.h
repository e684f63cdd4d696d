// How a run went, from what the server recorded: collapse, alerts, lead, containment. Pure: messages in,
// facts out.
//
// Loss samples are the steps that `every_steps` divides (the SDK's own sampling interval), because a collapse
// is defined per sample (loss_outcome.h). Only the newest attempt counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/cli/style.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

enum class Verdict : uint8_t {
  kHealthy,     // learned, no critical alert at any time, no guard
  kNotLearned,  // the smoothed loss never fell by 1 nat, no critical alert
  kCollapsed,   // see loss_outcome.h
  kContained,   // the guard switched on after the fault's onset, no collapse, no critical at the end, and the
                // final loss is within 0.25 nat of the reference run's where there is one
  kNotContained,  // the guard switched on, but one of the other conditions fails
  kCritical,      // no collapse and no guard, but a critical alert fired
};
std::string VerdictName(Verdict verdict);  // "healthy", "not_learned", ...
std::optional<Verdict> ParseVerdict(const std::string& name);

struct RunSummary {
  std::string run;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  // Told by a note event "fault NAME" at its first step, or by the run's labels "fault" and "fault_step".
  // Empty: none.
  std::string fault;
  std::optional<int64_t> onset_step;
  std::optional<int64_t> last_step;
  std::optional<double> final_loss;    // smoothed
  std::optional<double> minimum_loss;  // smoothed
  std::optional<int64_t> collapse_step;
  std::optional<int64_t> first_warning_step;  // of a warning or critical, after the onset where it is known
  std::optional<int64_t> first_critical_step;
  std::optional<int64_t> lasting_critical_step;  // of the stretch that lasts to the collapse, or to the end
  bool critical_at_end = false;
  std::string critical_rule;  // of the first alert of that stretch, else of the first critical
  std::string critical_place;
  std::optional<int64_t> guard_step;  // QK normalization switched on
  Verdict verdict = Verdict::kHealthy;
  std::string why;  // of kNotContained

  // Collapse step less the lasting critical's.
  std::optional<int64_t> lead_steps() const;
  // Lead over (collapse - onset), where the onset is known.
  std::optional<double> lead_share() const;
};

struct RunRecord {
  v1::Run run;
  v1::SeriesPoints loss;
  std::vector<v1::Alert> alerts;
  std::vector<v1::Event> events;
};

inline constexpr int64_t kDefaultEverySteps = 10;

struct SummaryOptions {
  int64_t every_steps = kDefaultEverySteps;
  std::optional<int64_t> onset_step;  // of a fault that the runs themselves do not tell
};

// Summaries in the order of the records. The reference for containment is the first run that is healthy.
std::vector<RunSummary> Summarise(const std::vector<RunRecord>& records, const SummaryOptions& options = {});

// Runs side by side, one column each.
std::string RenderSummaries(const std::vector<RunSummary>& summaries, const Style& style);
// {"runs":[{...}]}, one line.
std::string SummariesToJson(const std::vector<RunSummary>& summaries);

}  // namespace foreshock::cli
