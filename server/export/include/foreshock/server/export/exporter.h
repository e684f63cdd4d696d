// What /metrics shows: the last values of the runs that are going on, in Prometheus' text format.
//
//   foreshock_<signal>{run}                      scalars
//   foreshock_<signal>{run,layer,stat}           per-head signals: stat is max, median or min over the
//   layer's heads.
//                                                A head that is NaN makes max and min NaN; the median leaves
//                                                it out
//   foreshock_<signal>_worst_head{run,layer}     the head that stands out: NaN, else the one at the bad end
//   foreshock_<signal>_head{run,layer,head}      with per_head only: a series a head is more than Prometheus
//   likes foreshock_step{run}, foreshock_run_info{run,attempt}, foreshock_alerts_firing{run,severity},
//   foreshock_rule_alerts_firing{run,rule,severity} (only what fires), foreshock_alerts_silenced and
//   foreshock_alerts_acknowledged{run,severity} (of those that fire; only where there are any),
//   foreshock_run_<counter>_total{run}, and the server's own metrics
// Ratios are shown as their quotient; units are those of the catalogue (seconds where it is time).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/server/store/store.h"

namespace foreshock::exporter {

// A metric of the server itself. The name is without "foreshock_" and "_total".
struct ServerMetric {
  std::string name;
  std::string help;
  double value = 0;
  bool counter = true;
};

struct ExportOptions {
  store::Store* store = nullptr;  // this and the next two: not owned, must outlive the Exporter
  alert::AlertService* alerts = nullptr;
  const Clock* clock = nullptr;
  const alert::Silences* silences = nullptr;  // not owned; null: nothing is silenced
  bool per_head = false;                      // also one series a head
  size_t max_runs = 100;                      // the runs with the newest data; more is left out and counted
  double finished_leave_seconds =
      60;  // after its Goodbye a run is shown this long, so that its end is scraped
  double silent_leave_seconds = 900;                       // without data a run is shown this long
  std::function<std::vector<ServerMetric>()> server = {};  // more metrics; may be empty
};

// Thread-safe. Starts empty: a run appears with its first frame.
class Exporter {
 public:
  static std::unique_ptr<Exporter> Create(ExportOptions options);
  virtual ~Exporter() = default;
  virtual std::string Scrape() = 0;
};

}  // namespace foreshock::exporter
