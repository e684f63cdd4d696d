// What `foreshock watch` shows: updates of a run in, lines for a person out. No I/O of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "foreshock/cli/growth.h"
#include "foreshock/cli/loss_outcome.h"
#include "foreshock/cli/style.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

struct WatchOptions {
  std::string signal = "qk_sigma1";  // the per-head signal whose growth is shown
  int64_t every_steps = 50;          // a line each time this many steps have gone by
  bool all_alerts = false;           // also those of severity info, and warnings that resolve
};

class WatchView {
 public:
  WatchView(WatchOptions options, Style style);

  // Lines for one update, often none. `heads` fetches the signal's heads at the update's step, and is called
  // only for steps that get a line; may be null.
  std::string Take(const v1::WatchUpdate& update, const std::function<v1::StepReply()>& heads);

  // The last line, after the run has ended or the watcher has gone.
  std::string Closing() const;
  // The run was announced as finished or stopped, and no critical alert fires.
  bool EndedWell() const;

 private:
  std::string OnStep(const v1::StepReply& step, const std::function<v1::StepReply()>& heads);
  std::string OnAlert(const v1::Alert& alert);
  std::string OnState(v1::RunState state);
  std::string Growing(const v1::StepReply& heads);
  std::string CollapseLine();

  WatchOptions options_;
  Style style_;
  std::optional<int64_t> last_line_;
  LossOutcome loss_;
  GrowthTracker growth_;
  std::map<std::string, v1::Alert> criticals_;  // by id
  bool collapse_told_ = false;
  v1::RunState state_ = v1::RUN_STATE_UNSPECIFIED;
};

}  // namespace foreshock::cli
