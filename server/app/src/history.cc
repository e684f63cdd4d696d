#include "history.h"

#include "foreshock/base/file.h"
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
  ingest.max_connections_per_identity = options.max_connections_per_identity;
  ingest.max_runs = options.max_runs;
  ingest.max_new_runs_per_hour = options.max_new_runs_per_hour;
  ingest.max_heads_per_run = options.max_heads_per_run;
  return ingest;
}

// Checked here, so that an error names the option and the file; also where the target has no url.
Result<std::string> TemplateOf(const std::string& field, const std::string& path, bool slack) {
  if (path.empty()) return std::string();
  auto text = ReadWholeFile(PosixFileSystem(), path, 1 << 20);
  if (!text.ok()) return text.status().Annotate(field);
  const Status status = notify::CheckTemplate(*text, slack);
  if (!status.ok()) return status.Annotate(field + ": " + path);
  return text;
}

Result<std::unique_ptr<notify::Notifier>> StartNotifier(const AppOptions& options, const Clock& clock,
                                                        History& history) {
  notify::NotifyOptions notify;
  FS_ASSIGN_OR_RETURN(notify.targets, TargetsOf(options));
  if (notify.targets.empty()) return std::unique_ptr<notify::Notifier>();
  notify.store = history.store.get();
  notify.alerts = history.alerts.get();
  notify.clock = &clock;
  notify.silences = history.silences.get();
  notify.group_interval =
      std::chrono::milliseconds(static_cast<int64_t>(options.group_interval_seconds * 1e3));
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

Result<std::vector<notify::Target>> TargetsOf(const AppOptions& options) {
  std::vector<notify::Target> targets;
  const auto add = [&](notify::TargetKind kind, const std::string& url, const std::string& text = "") {
    if (url.empty()) return;
    notify::Target target;
    target.kind = kind;
    target.url = url;
    target.heartbeat = kind == notify::TargetKind::kAlertmanager && options.heartbeat;
    target.message_template = text;
    targets.push_back(std::move(target));
  };
  FS_ASSIGN_OR_RETURN(const std::string webhook,
                      TemplateOf("webhook_template_file", options.webhook_template_file, false));
  FS_ASSIGN_OR_RETURN(const std::string slack,
                      TemplateOf("slack_template_file", options.slack_template_file, true));
  add(notify::TargetKind::kAlertmanager, options.alertmanager_url);
  add(notify::TargetKind::kWebhook, options.webhook_url, webhook);
  add(notify::TargetKind::kSlack, options.slack_url, slack);
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
  FS_ASSIGN_OR_RETURN(history->audit, alert::AuditLog::Open(history->store.get(), &clock));
  FS_ASSIGN_OR_RETURN(history->silences, alert::Silences::Start({history->store.get(), history->alerts.get(),
                                                                 history->audit.get(), &clock}));
  FS_ASSIGN_OR_RETURN(history->notifier, StartNotifier(options, clock, *history));
  if (!options.remote_write.url.empty()) {
    FS_ASSIGN_OR_RETURN(history->remote_writer,
                        remote_write::RemoteWriter::Start(options.remote_write, *history->store, clock));
  }
  merge::MergerOptions merge;
  merge.wait = Nanoseconds(options.merge_wait_seconds);
  FS_ASSIGN_OR_RETURN(history->merger, merge::Merger::Start(*history->store, clock, merge));
  history->ingest = ingest::Ingest::Start(*history->store, clock, IngestOptionsOf(options, security));
  control::ControlOptions control;
  control.store = history->store.get();
  control.outbox = &history->ingest->outbox();
  control.clock = &clock;
  control.audit = history->audit.get();
  FS_ASSIGN_OR_RETURN(const control::RuleActionMode mode, control::ParseRuleActionMode(options.rule_actions));
  control.allow_rule_actions = mode == control::RuleActionMode::kOn;
  control.allow_rule_stop = options.allow_rule_stop;
  control.acknowledge_timeout = Nanoseconds(options.acknowledge_seconds);
  FS_ASSIGN_OR_RETURN(history->controls, control::Controls::Start(control));
  control::RuleActionOptions actions;
  actions.alerts = history->alerts.get();
  actions.controls = history->controls.get();
  actions.clock = &clock;
  actions.audit = history->audit.get();
  actions.mode = mode;
  actions.on_critical = options.on_critical;
  history->rule_actions = control::RuleActions::Start(actions);
  history->upkeep = StartUpkeep(options, clock, *history);
  history->mover = move::RunMover::Create({.store = history->store.get(),
                                           .silences = history->silences.get(),
                                           .audit = history->audit.get(),
                                           .clock = &clock,
                                           .made_by = "foreshockd " FORESHOCK_VERSION,
                                           .supersedes = control::Supersedes,
                                           .max_runs = options.max_runs,
                                           .max_heads_per_run = options.max_heads_per_run});
  return history;
}

}  // namespace foreshock::app
