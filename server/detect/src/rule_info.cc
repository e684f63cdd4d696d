#include "foreshock/server/detect/rule_info.h"

#include <algorithm>
#include <iterator>

#include "foreshock/server/detect/finding.h"

namespace foreshock::detect {
namespace {

constexpr RuleInfo kRules[] = {
    {"non_finite", 1, 3, "the loss, the gradient norm or a head's signal is NaN or infinite",
     "stop, find the first module that is not finite at this step, resume from the last checkpoint"},
};

}  // namespace

std::span<const RuleInfo> BuiltInRules() { return kRules; }

const RuleInfo* FindRule(std::string_view name) {
  const auto* it = std::find_if(std::begin(kRules), std::end(kRules),
                                [&](const RuleInfo& rule) { return rule.name == name; });
  return it != std::end(kRules) ? it : nullptr;
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "unknown";
}

}  // namespace foreshock::detect
