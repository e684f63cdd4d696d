#include "incidents.h"

#include <algorithm>

namespace foreshock::notify {

bool Incidents::Take(const alert::Alert& alert) {
  Incident& incident = runs_[alert.run];
  if (alert.state == alert::AlertState::kFiring) {
    incident.firing[alert.id] = alert.severity;
    const int severity = static_cast<int>(alert.severity);
    const bool rises = severity > incident.worst;
    incident.worst = std::max(incident.worst, severity);
    return rises;
  }
  incident.firing.erase(alert.id);
  return incident.firing.empty();
}

// An incident stays until its end is told: an escalation resolves one alert before the next one fires.
void Incidents::Told(const std::string& run) {
  const auto it = runs_.find(run);
  if (it != runs_.end() && it->second.firing.empty()) runs_.erase(it);
}

}  // namespace foreshock::notify
