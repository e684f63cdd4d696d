// What is open of each run, to tell news that cannot wait from news that can: alerts of a run that are open
// at the same time are one incident. One owner.
#pragma once

#include <map>
#include <string>

#include "foreshock/server/alert_core/alert.h"

namespace foreshock::notify {

class Incidents {
 public:
  // True when the news raises the severity of the run's incident above what was told or waits to be told, or
  // ends the incident.
  bool Take(const alert::Alert& alert);
  // A message about the run went out.
  void Told(const std::string& run);
  bool Open(const std::string& run) const { return runs_.contains(run); }

 private:
  struct Incident {
    std::map<std::string, detect::Severity> firing;  // by alert id
    int worst = -1;                                  // since it began
  };
  std::map<std::string, Incident> runs_;
};

}  // namespace foreshock::notify
