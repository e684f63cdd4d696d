// A self-contained HTML page about one run, or several on a shared step axis: summary, loss with alerts, the
// signals of the head that ran away, a layer x head map over time, alerts and actions. Nothing is loaded from
// anywhere; the charting library is inside the page. Light and dark, printable; tables read without
// JavaScript.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/store/store.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::report {

struct ReportOptions {
  const store::Store* store = nullptr;  // this and the next two: not owned
  const alert::AlertService* alerts = nullptr;
  const Clock* clock = nullptr;
  double silent_after_seconds = 120;  // as for queries
  size_t max_loss_points = 1500;      // a run; extremes are kept. More: a larger page
  size_t max_signal_points = 600;     // a signal of the head that ran away
  size_t max_map_cells = 150'000;     // of a heat map over all its steps
  // Actions of a run (Controls::ListActions); may be empty.
  std::function<Result<v1::ListActionsReply>(const v1::ListActionsRequest&)> actions = {};
};

inline constexpr size_t kMaxRuns = 12;

// The newest attempt of each run. kInvalidArgument for no run or more than kMaxRuns; kNotFound for a run that
// is not there. Thread-safe.
Result<std::string> Render(const ReportOptions& options, const std::vector<std::string>& runs);

}  // namespace foreshock::report
