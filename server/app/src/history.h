// The half of the server that takes records in, keeps them, judges them and tells of it.
#pragma once

#include <atomic>
#include <memory>

#include "foreshock/base/clock.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/audit.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/server/app/options.h"
#include "foreshock/server/control/controls.h"
#include "foreshock/server/control/rule_actions.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/merge/merger.h"
#include "foreshock/server/move/run_mover.h"
#include "foreshock/server/notify/notifier.h"
#include "foreshock/server/remote_write/remote_writer.h"
#include "foreshock/server/store/store.h"
#include "foreshock/server/upkeep/upkeep.h"

namespace foreshock::app {

class Security;
struct Answers;

// Members in the order in which they start; they end in the reverse one.
struct History {
  std::unique_ptr<store::Store> store;
  std::unique_ptr<alert::AlertService> alerts;
  std::unique_ptr<alert::AuditLog> audit;
  std::unique_ptr<alert::Silences> silences;
  std::unique_ptr<notify::Notifier> notifier;  // null without targets
  std::unique_ptr<remote_write::RemoteWriter> remote_writer;  // null without a url
  std::unique_ptr<merge::Merger> merger;
  std::unique_ptr<ingest::Ingest> ingest;
  std::unique_ptr<control::Controls> controls;
  std::unique_ptr<control::RuleActions> rule_actions;
  std::unique_ptr<upkeep::Upkeep> upkeep;
  std::unique_ptr<move::RunMover> mover;
  std::atomic<uint64_t> user_rules{0};  // that run
  std::atomic<uint64_t> rule_reloads{0}, rule_reload_failures{0};
  // Not owned: who else counts something. `answers` while they listen.
  const Security* security = nullptr;
  std::atomic<const Answers*> answers{nullptr};

  // Ok, or the first thing that is wrong. Thread-safe.
  Status health() const;
};

// Everything or nothing. `security` must outlive the result.
Result<std::unique_ptr<History>> StartHistory(const AppOptions& options, const Clock& clock,
                                              const Security& security);

// All or nothing; counts and logs. kFailedPrecondition when there is no file.
Status ReloadRules(const std::string& rules_file, History* history);

// Targets of the notifier that the options name. An error of a template's file names the option.
Result<std::vector<notify::Target>> TargetsOf(const AppOptions& options);

}  // namespace foreshock::app
