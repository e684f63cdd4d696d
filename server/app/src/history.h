// The half of the server that takes records in, keeps them, judges them and tells of it.
#pragma once

#include <memory>

#include "foreshock/base/clock.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/app/options.h"
#include "foreshock/server/control/controls.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/merge/merger.h"
#include "foreshock/server/notify/notifier.h"
#include "foreshock/server/store/store.h"

namespace foreshock::app {

// Members in the order in which they start; they end in the reverse one.
struct History {
  std::unique_ptr<store::Store> store;
  std::unique_ptr<alert::AlertService> alerts;
  std::unique_ptr<notify::Notifier> notifier;  // null without targets
  std::unique_ptr<merge::Merger> merger;
  std::unique_ptr<ingest::Ingest> ingest;
  std::unique_ptr<control::Controls> controls;

  // Ok, or the first thing that is wrong. Thread-safe.
  Status health() const;
};

// Everything or nothing.
Result<std::unique_ptr<History>> StartHistory(const AppOptions& options, const Clock& clock);

// Targets of the notifier that the options name.
std::vector<notify::Target> TargetsOf(const AppOptions& options);

}  // namespace foreshock::app
