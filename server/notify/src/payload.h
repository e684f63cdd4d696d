// The texts that are sent. Pure.
#pragma once

#include <string>
#include <vector>

#include "foreshock/server/alert/alert_service.h"

namespace foreshock::notify {

// Alertmanager's POST /api/v2/alerts. `ends_unix_ns` is used for what fires; resolved ones end when they did.
std::string AlertmanagerPayload(const std::vector<alert::AlertRecord>& records, int64_t ends_unix_ns,
                                const std::string& external_url);
// The alert that always fires.
std::string HeartbeatPayload(int64_t now_unix_ns, int64_t ends_unix_ns);

// {"version":"1","run":..,"status":"firing|resolved","alerts":[{"status","labels","annotations","startsAt","endsAt"}]};
// status is firing when one of the alerts is.
std::string WebhookPayload(const std::string& run, const std::vector<alert::AlertRecord>& records,
                           const std::string& external_url);
// {"text":"..."}
std::string SlackPayload(const std::string& run, const std::vector<alert::AlertRecord>& records,
                         const std::string& external_url);

}  // namespace foreshock::notify
