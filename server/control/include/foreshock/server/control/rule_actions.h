// Carries out what the user's rules ask for (`action:` in docs/rules/user_rules.md) when they fire, and what
// the server's options ask for when a built-in rule turns critical.
//
// One alert acts once, also over restarts: an action's reason names its alert. At most `most_per_hour`
// actions by rules a run, those before a restart counted. A dry run says what would have been done, in the
// log, the counters and the audit trail, and sends nothing. What was done stands in the run's actions with
// issuer "rule:NAME", with its effect, like an action by hand; the trainer takes it only if its own
// allow-list has the kind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/audit.h"
#include "foreshock/server/control/controls.h"

namespace foreshock::control {

enum class RuleActionMode : uint8_t { kOff, kDryRun, kOn };
// "off", "dry_run", "on".
Result<RuleActionMode> ParseRuleActionMode(std::string_view name);

struct RuleActionOptions {
  alert::AlertService* alerts = nullptr;  // this and the next two: not owned, must outlive the RuleActions
  Controls* controls = nullptr;           // with allow_rule_actions where the mode is kOn
  const Clock* clock = nullptr;
  alert::AuditLog* audit = nullptr;  // not owned; null: nothing is remembered over a restart but the actions
  RuleActionMode mode = RuleActionMode::kDryRun;
  int most_per_hour = 4;                                // of one run
  std::map<std::string, std::string> on_critical = {};  // built-in rule -> action, checked by CheckOnCritical
};

// kInvalidArgument for a rule that is not built in, and for an action other than enable_qk_norm, checkpoint,
// stop and "qk_clip LOGIT".
Status CheckOnCritical(const std::string& rule, const std::string& action);

// Thread-safe. Listens from Start until it dies.
class RuleActions {
 public:
  static std::unique_ptr<RuleActions> Start(const RuleActionOptions& options);
  virtual ~RuleActions() = default;

  struct Counters {
    uint64_t proposed = 0;  // handed to Controls and recorded
    uint64_t dry = 0;       // would have been, in a dry run
    uint64_t limited = 0;   // left out by most_per_hour
    uint64_t refused = 0;   // by Controls: not allowed, the attempt is over, ...
  };
  virtual Counters counters() const = 0;
};

}  // namespace foreshock::control
