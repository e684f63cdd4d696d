// Tells people and machines of alerts, in small stages: dedupe by what was delivered before (kept in the
// store, so that a restart repeats nothing), group by run, send, retry with growing pauses and chance in
// them.
//
//   kAlertmanager  Alertmanager's v2 API. What fires is sent again every resend_interval with an end of 4
//   intervals
//                  from now, so that a server that dies does not leave alerts behind for ever, and two lost
//                  messages do not resolve one; what resolved is sent once. Optionally a heartbeat alert that
//                  always fires: a receiver that misses it knows that this server is gone (a dead man's
//                  switch)
//   kWebhook       a JSON object a group, each alert once when it fires and once when it resolves
//                  (a JSON object of fixed fields, or what a template makes of the group)
//   kSlack         the same as a text for Slack's incoming webhooks, and what is compatible with them
//   kHeartbeat     a GET every resend_interval, for services that expect one
//
// Groups: what raises the severity of a run's incident, or ends it, goes out after group_wait; what else
// comes of an incident that was told of waits for group_interval, so that one cause makes one message, then
// few. Silences: what is silenced is not told to webhooks; when the silence ends while the alert fires, it is
// told then. The end of an alert that was told before is told. An Alertmanager gets a copy of each silence by
// its own API and goes on hearing of the alerts; until its copy stands, or where it refuses one, new alerts
// that are silenced are kept from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/server/store/store.h"

namespace foreshock::notify {

enum class TargetKind : uint8_t { kAlertmanager, kWebhook, kSlack, kHeartbeat };
// "alertmanager", "webhook", "slack", "heartbeat".
Result<TargetKind> ParseTargetKind(const std::string& text);

struct Target {
  TargetKind kind = TargetKind::kWebhook;
  // Alertmanager: its root, e.g. http://127.0.0.1:9093. Else the address to call.
  std::string url = {};
  std::string name = {};   // stable, names what was delivered; empty: the url
  std::string token = {};  // sent as a bearer token; empty: none
  bool heartbeat = false;  // Alertmanager: also the heartbeat alert
  // Webhook, Slack: text of a template (docs/notifications.md); empty: the fixed fields.
  std::string message_template = {};
};

// kInvalidArgument with line and column for a text that is no template, or that would not make JSON of every
// alert (not with `slack`, where it makes a text).
Status CheckTemplate(const std::string& text, bool slack);

struct NotifyOptions {
  std::vector<Target> targets;
  store::Store* store = nullptr;  // this and the next two: not owned, must outlive the Notifier
  alert::AlertService* alerts = nullptr;
  const Clock* clock = nullptr;
  alert::Silences* silences = nullptr;  // not owned, must outlive the Notifier; null: nothing is silenced
  std::chrono::milliseconds resend_interval{60'000};  // 1 s to 1 h
  std::chrono::milliseconds group_wait{2'000};  // webhooks: alerts of a run that come together go together
  std::chrono::milliseconds group_interval{300'000};  // webhooks: news of an incident that was told of
  std::chrono::milliseconds first_retry{1'000};       // doubles with every failure ...
  std::chrono::milliseconds last_retry{300'000};      // ... up to this
  int max_attempts = 20;        // of one message to a webhook; then it is given up and counted
  size_t max_pending = 10'000;  // alerts that wait for a webhook; then the oldest is given up and counted
  std::string external_url;     // of this server's HTTP side, for links; empty: no links
  uint64_t seed = 0;            // of the retries' jitter; 0: from the system
  bool own_threads = true;      // false: the owner calls Tick (tests)
};

// Thread-safe. One thread a target, so that a slow one holds up no other.
class Notifier {
 public:
  // kInvalidArgument naming the target and what is wrong with it: a template with line and column.
  static Result<std::unique_ptr<Notifier>> Start(const NotifyOptions& options);
  virtual ~Notifier() = default;  // stops; what waits is sent after the next Start

  // Sends what is due, to all targets, and returns when done. For own_threads = false.
  virtual void Tick() = 0;

  struct Counters {
    uint64_t sent = 0;      // messages
    uint64_t failed = 0;    // attempts
    uint64_t given_up = 0;  // alerts that a target was not told of
    uint64_t pending = 0;   // alerts that wait
    uint64_t silenced = 0;  // alerts that a target is not told of because they are silenced now
  };
  virtual Counters counters() const = 0;
};

}  // namespace foreshock::notify
