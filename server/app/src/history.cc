#include "history.h"

#include "foreshock/base/logging.h"
#include "foreshock/server/rules/rules_file.h"
#include "security.h"

namespace foreshock::app {
namespace {

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

ingest::IngestOptions IngestOptionsOf(const AppOptions& options, const Security& security) {
  ingest::IngestOptions ingest;
  ingest.gate = &security.gate();
  ingest.max_message_bytes = options.max_message_bytes;
  ingest.max_streams = options.max_streams;
  ingest.max_streams_per_identity = options.max_streams_per_identity;
  ingest.max_runs = options.max_runs;
  ingest.max_new_runs_per_hour = options.max_new_runs_per_hour;
  ingest.max_heads_per_run = options.max_heads_per_run;
  return ingest;
}

Result<std::unique_ptr<notify::Notifier>> StartNotifier(const AppOptions& options, const Clock& clock,
                                                        History& history) {
  notify::NotifyOptions notify;
  notify.targets = TargetsOf(options);
  if (notify.targets.empty()) return std::unique_ptr<notify::Notifier>();
  notify.store = history.store.get();
  notify.alerts = history.alerts.get();
  notify.clock = &clock;
  notify.external_url = options.external_url;
  notify.resend_interval = std::chrono::milliseconds(static_cast<int64_t>(options.resend_seconds * 1e3));
  return notify::Notifier::Start(notify);
}

std::unique_ptr<upkeep::Upkeep> StartUpkeep(const AppOptions& options, const Clock& clock, History& history) {
  upkeep::UpkeepOptions upkeep;
  upkeep.store = history.store.get();
  upkeep.clock = &clock;
  upkeep.keep_days = options.keep_days;
  upkeep.keep_bytes = options.keep_bytes;
  upkeep.silent_after_seconds = options.silent_after_seconds;
  upkeep.backup_folder = options.backup_folder;
  return upkeep::Upkeep::Start(upkeep);
}

}  // namespace

std::vector<notify::Target> TargetsOf(const AppOptions& options) {
  std::vector<notify::Target> targets;
  const auto add = [&](notify::TargetKind kind, const std::string& url) {
    if (url.empty()) return;
    notify::Target target;
    target.kind = kind;
    target.url = url;
    target.heartbeat = kind == notify::TargetKind::kAlertmanager && options.heartbeat;
    targets.push_back(std::move(target));
  };
  add(notify::TargetKind::kAlertmanager, options.alertmanager_url);
  add(notify::TargetKind::kWebhook, options.webhook_url);
  add(notify::TargetKind::kSlack, options.slack_url);
  return targets;
}

Status ReloadRules(const std::string& rules_file, History* history) {
  if (rules_file.empty())
    return Status(Code::kFailedPrecondition, "rules_file: none given, nothing to reload");
  const auto rules = rules::LoadUserRules(rules_file);
  if (!rules.ok()) {
    ++history->rule_reload_failures;
    LogError("server/app", "rules not reloaded, the old ones stay", {{"error", rules.status()}});
    return rules.status();
  }
  history->alerts->SetUserRules(*rules);
  history->user_rules = (*rules)->size();
  ++history->rule_reloads;
  LogInfo("server/app", "rules reloaded", {{"file", rules_file}, {"rules", (*rules)->size()}});
  return OkStatus();
}

Status History::health() const {
  FS_RETURN_IF_ERROR(store->health());
  return ingest->health();
}

Result<std::unique_ptr<History>> StartHistory(const AppOptions& options, const Clock& clock,
                                              const Security& security) {
  auto history = std::make_unique<History>();
  history->security = &security;
  store::StoreOptions store;
  store.folder = options.data_folder;
  store.write_buffer_bytes = options.write_buffer_bytes;
  FS_ASSIGN_OR_RETURN(history->store, store::Store::Open(store));
  // Alerts listen before the merger speaks.
  alert::AlertOptions alerts;
  if (!options.rules_file.empty()) {
    FS_ASSIGN_OR_RETURN(alerts.detector.user_rules, rules::LoadUserRules(options.rules_file));
    history->user_rules = alerts.detector.user_rules->size();
  }
  FS_ASSIGN_OR_RETURN(history->alerts, alert::AlertService::Start(alerts, history->store.get(), &clock));
  FS_ASSIGN_OR_RETURN(history->notifier, StartNotifier(options, clock, *history));
  merge::MergerOptions merge;
  merge.wait = Nanoseconds(options.merge_wait_seconds);
  FS_ASSIGN_OR_RETURN(history->merger, merge::Merger::Start(*history->store, clock, merge));
  history->ingest = ingest::Ingest::Start(*history->store, clock, IngestOptionsOf(options, security));
  control::ControlOptions control;
  control.store = history->store.get();
  control.outbox = &history->ingest->outbox();
  control.clock = &clock;
  FS_ASSIGN_OR_RETURN(const control::RuleActionMode mode, control::ParseRuleActionMode(options.rule_actions));
  control.allow_rule_actions = mode == control::RuleActionMode::kOn;
  control.allow_rule_stop = options.allow_rule_stop;
  FS_ASSIGN_OR_RETURN(history->controls, control::Controls::Start(control));
  control::RuleActionOptions actions;
  actions.alerts = history->alerts.get();
  actions.controls = history->controls.get();
  actions.clock = &clock;
  actions.mode = mode;
  history->rule_actions = control::RuleActions::Start(actions);
  history->upkeep = StartUpkeep(options, clock, *history);
  return history;
}

}  // namespace foreshock::app
