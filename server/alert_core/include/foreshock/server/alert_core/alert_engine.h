// Turns the steps of one (run, attempt) into alerts: the detector and the alert states behind one call.
//
// Pending -> firing -> resolved with hysteresis (RuleInfo's fire_after and resolve_after). One alert a rule:
// a second finding of the same rule updates it. An escalation resolves the warning and fires the critical in
// the same step; a critical that eases resolves and fires the warning. Deterministic; no clock, no I/O. Not
// thread-safe: one owner.
//
// Restart: persist SaveState() whenever Observe returned events (and at leisure otherwise). Afterwards build
// a new engine, RestoreState(), and feed the run's history again from its first step: samples up to the saved
// step only rebuild the baselines, without events; later ones act as always. Alerts never fire twice: the
// steps between the last saved state and the crash give the same events with the same ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/detect/detector.h"
#include "foreshock/server/detect/step_sample.h"

namespace foreshock::alert {

class AlertEngine {
 public:
  AlertEngine(std::string run, std::string attempt, const detect::RunInfo& info,
              detect::DetectorOptions options = {});
  ~AlertEngine();
  AlertEngine(AlertEngine&&) noexcept;
  AlertEngine& operator=(AlertEngine&&) noexcept;

  // Events in the order in which they happened; empty most of the time.
  std::vector<AlertEvent> Observe(const detect::StepSample& sample);
  // Replaces the user's rules; those whose `run` pattern matches run here. What rules that are gone or
  // changed had open resolves, at the last step observed. Call it after RestoreState too: rules may have gone
  // meanwhile.
  std::vector<AlertEvent> SetUserRules(const detect::UserRulesPtr& rules);

  // As Detector::Tick. Events carry the last observed step.
  std::vector<AlertEvent> Tick(double seconds_since_last_sample);

  // Pending and firing alerts, in the order of their first evidence.
  std::vector<Alert> Open() const;

  // The last step that a restored state has judged: samples up to it only rebuild the baselines. -1: none.
  int64_t known_through() const;

  // Everything but the detector's baselines, as one JSON text.
  std::string SaveState() const;
  // Call before the first Observe. kDataLoss for a text that SaveState did not write, kInvalidArgument for
  // another run's or attempt's state; the engine is unchanged then.
  Status RestoreState(std::string_view state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::alert
