#include "foreshock/server/control/rule_actions.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "foreshock/base/logging.h"
#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/detect/user_rule.h"

namespace foreshock::control {
namespace {

constexpr char kLog[] = "server/control";
constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr size_t kMaxReason = 900;
constexpr size_t kAllEntries = 1'000'000;
constexpr char kDry[] = "rule_action_dry_run", kLimited[] = "rule_action_limited";

std::string ReasonPrefix(const alert::Alert& alert) { return "alert " + alert.id + ": "; }

// "qk_clip 80" is the kind and its value.
v1::ActRequest RequestOf(const alert::Alert& alert) {
  v1::ActRequest request;
  request.set_run(alert.run);
  request.set_attempt(alert.attempt);
  const size_t space = alert.action.find(' ');
  request.set_kind(alert.action.substr(0, space));
  if (space != std::string::npos) {
    double value = 0;
    std::from_chars(alert.action.data() + space + 1, alert.action.data() + alert.action.size(), value);
    request.set_value(value);
  }
  const bool of_a_layer = request.kind() == "enable_qk_norm" || request.kind() == "qk_clip";
  if (of_a_layer && alert.layer >= 0) request.add_layers(static_cast<uint32_t>(alert.layer));
  request.set_reason((ReasonPrefix(alert) + alert.summary).substr(0, kMaxReason));
  return request;
}

class RuleActionsImpl final : public RuleActions, public alert::AlertListener {
 public:
  explicit RuleActionsImpl(const RuleActionOptions& options) : options_(options) {}
  // What fired before anyone listened counts, too.
  void Listen() {
    Remember();
    subscription_ = options_.alerts->Subscribe(this);
    for (const alert::AlertRecord& record : options_.alerts->Firing()) OnAlert(record);
  }
  ~RuleActionsImpl() override { subscription_.reset(); }

  void OnAlert(const alert::AlertRecord& record) override {
    alert::Alert alert = record.alert;
    if (alert.action.empty() && alert.severity == detect::Severity::kCritical) {
      const auto asked = options_.on_critical.find(alert.rule);
      if (asked != options_.on_critical.end()) alert.action = asked->second;
    }
    if (alert.action.empty() || alert.state != alert::AlertState::kFiring) return;
    if (options_.mode == RuleActionMode::kOff) return;
    std::lock_guard lock(mutex_);
    if (Done(alert)) return;
    if (!WithinLimit(alert.run)) {
      ++counters_.limited;
      Tell("a rule's action is left out: too many within an hour", alert);
      Record(kLimited, alert);
      return;
    }
    if (options_.mode == RuleActionMode::kDryRun) {
      ++counters_.dry;
      Tell("dry run: a rule would act", alert);
      Record(kDry, alert);
      dry_.insert(alert.id);
      return;
    }
    const auto reply = options_.controls->ActByRule(alert.rule, RequestOf(alert));
    if (reply.ok()) {
      ++counters_.proposed;
      return;  // Controls logs it
    }
    ++counters_.refused;
    LogWarning(
        kLog, "a rule's action is refused",
        {{"run", alert.run}, {"rule", alert.rule}, {"action", alert.action}, {"error", reply.status()}});
  }

  Counters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  // What the trail knows of the last hour, and of dry runs.
  void Remember() {
    if (options_.audit == nullptr) return;
    const auto entries = options_.audit->Read("", kAllEntries);
    if (!entries.ok()) {
      LogWarning(kLog, "the audit trail is not readable, rules' actions are counted anew",
                 {{"error", entries.status()}});
      return;
    }
    std::lock_guard lock(mutex_);
    const int64_t now = options_.clock->WallNanos();
    for (auto it = entries->rbegin(); it != entries->rend(); ++it) {
      const bool dry = it->what == kDry;
      if (dry) dry_.insert(it->subject);
      const bool by_rule = dry || (it->what == "action_proposed" && it->who.starts_with("rule:"));
      if (by_rule && now - it->time_unix_ns < kHourNs) times_[it->run].push_back(it->time_unix_ns);
    }
  }

  void Record(const char* what, const alert::Alert& alert) {
    if (options_.audit == nullptr) return;
    options_.audit->Add(
        {0, "rule:" + alert.rule, what, alert.run, alert.id, alert.action + ": " + alert.summary});
  }

  static void Tell(const char* what, const alert::Alert& alert) {
    LogWarning(kLog, what,
               {{"run", alert.run}, {"rule", alert.rule}, {"action", alert.action}, {"alert", alert.id}});
  }

  // An action for this alert is on record: from before a restart, or of a reopened attempt.
  bool Done(const alert::Alert& alert) const {
    if (options_.mode == RuleActionMode::kDryRun && dry_.contains(alert.id)) return true;
    v1::ListActionsRequest request;
    request.set_run(alert.run);
    const auto reply = options_.controls->ListActions(request);
    if (!reply.ok()) return false;
    const std::string prefix = ReasonPrefix(alert);
    for (const v1::ActionRecord& record : reply->actions()) {
      if (record.action().reason().starts_with(prefix)) return true;
    }
    return false;
  }

  // Counts this one too.
  bool WithinLimit(const std::string& run) {
    const int64_t now = options_.clock->WallNanos();  // as the trail has it
    std::deque<int64_t>& times = times_[run];
    while (!times.empty() && now - times.front() >= kHourNs) times.pop_front();
    if (times.size() >= static_cast<size_t>(options_.most_per_hour)) return false;
    times.push_back(now);
    return true;
  }

  const RuleActionOptions options_;
  mutable std::mutex mutex_;  // guards the next three; held while acting, so that one alert acts once
  std::map<std::string, std::deque<int64_t>> times_;  // of the last hour's actions, by run
  std::set<std::string> dry_;                         // ids of alerts that would have acted
  Counters counters_;
  std::unique_ptr<store::Subscription> subscription_;
};

}  // namespace

Result<RuleActionMode> ParseRuleActionMode(std::string_view name) {
  if (name == "off") return RuleActionMode::kOff;
  if (name == "dry_run") return RuleActionMode::kDryRun;
  if (name == "on") return RuleActionMode::kOn;
  return Status(Code::kInvalidArgument, "'" + std::string(name) + "': expected off, dry_run or on");
}

Status CheckOnCritical(const std::string& rule, const std::string& action) {
  if (detect::FindRule(rule) == nullptr) {
    return Status(Code::kInvalidArgument, "'" + rule + "': not a built-in rule (docs/rules/README.md)");
  }
  const auto& known = detect::UserRuleActions();
  const bool is_known = std::find(known.begin(), known.end(), action) != known.end();
  if (is_known && action != "qk_clip") return OkStatus();
  const std::string clip = "qk_clip ";
  double logit = 0;
  const char* end = action.data() + action.size();
  const bool clips = action.starts_with(clip) &&
                     std::from_chars(action.data() + clip.size(), end, logit).ptr == end && logit > 0 &&
                     logit < 1e30;
  if (clips) return OkStatus();
  return Status(Code::kInvalidArgument,
                rule + ": '" + action + "': expected enable_qk_norm, checkpoint, stop or 'qk_clip LOGIT'");
}

std::unique_ptr<RuleActions> RuleActions::Start(const RuleActionOptions& options) {
  auto actions = std::make_unique<RuleActionsImpl>(options);
  actions->Listen();
  return actions;
}

}  // namespace foreshock::control
