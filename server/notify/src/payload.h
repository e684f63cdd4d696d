// The texts that are sent. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/server/alert/alert_service.h"

namespace foreshock::notify {

// What an alert is, the same from its firing to its end: alertname, severity, run, attempt, layer, head,
// source, and beside them the labels of the rule and of the run, with names that Prometheus takes. Empty ones
// are left out.
std::map<std::string, std::string> LabelsOf(const alert::AlertRecord& record);
// The name with '_' for what Prometheus does not take.
std::string LabelName(std::string_view name);
// "logit_max 312 (normal 21); ..."
std::string EvidenceText(const alert::Alert& alert);
// The run's report; empty without an external_url.
std::string Link(const std::string& external_url, const std::string& run);
// Of records that are not empty the one with the earliest evidence: of one cause, the head that ran away
// first.
const alert::AlertRecord& FirstOf(const std::vector<alert::AlertRecord>& records);
std::string SlackEscape(const std::string& text);

// Alertmanager's POST /api/v2/alerts. `ends_unix_ns` is used for what fires; resolved ones end when they did.
std::string AlertmanagerPayload(const std::vector<alert::AlertRecord>& records, int64_t ends_unix_ns,
                                const std::string& external_url);
// The alert that always fires.
std::string HeartbeatPayload(int64_t now_unix_ns, int64_t ends_unix_ns);

// {"version":"1","run":..,"status":"firing|resolved","url","first":{"rule","layer","head","step"},"alerts":[{"status","labels","annotations","startsAt","endsAt"}]};
// status is firing when one of the alerts is.
std::string WebhookPayload(const std::string& run, const std::vector<alert::AlertRecord>& records,
                           const std::string& external_url);
// {"text":"..."} of a text that is escaped already.
std::string SlackMessage(const std::string& text);
std::string SlackPayload(const std::string& run, const std::vector<alert::AlertRecord>& records,
                         const std::string& external_url);

}  // namespace foreshock::notify
