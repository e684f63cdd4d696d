#include "foreshock/base/log_refused.h"

#include "foreshock/base/logging.h"

namespace foreshock {

void LogRefused(std::string_view component, std::string_view what, const Refusals::Report& report) {
  LogWarning(component, what,
             {{"reason", report.reason},
              {"refused", report.refused},
              {"most_of", report.most_of},
              {"of_these", report.of_these},
              {"from", report.kinds},
              {"since_start", report.in_all}});
}

}  // namespace foreshock
