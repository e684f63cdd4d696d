// kWebhook and kSlack: every change of state once, in groups of one run.
#include <deque>
#include <map>
#include <mutex>

#include "incidents.h"
#include "ledger.h"
#include "payload.h"
#include "post.h"
#include "retry.h"
#include "senders.h"
#include "template.h"

namespace foreshock::notify {
namespace {

class WebhookSender final : public Sender {
 public:
  WebhookSender(const NotifyOptions& options, const Target& target, uint64_t seed)
      : options_(options), target_(target), ledger_(options.store, target.name), seed_(seed) {}

  Status Load() override {
    if (!target_.message_template.empty()) {
      const auto escape = target_.kind == TargetKind::kSlack ? MessageTemplate::Escape::kSlack
                                                             : MessageTemplate::Escape::kJson;
      auto parsed = MessageTemplate::Parse(target_.message_template, escape);
      if (!parsed.ok()) return parsed.status();
      template_ = *std::move(parsed);
    }
    std::lock_guard lock(mutex_);
    return ledger_.Load();
  }

  void OnAlert(const alert::AlertRecord& record) override {
    std::lock_guard lock(mutex_);
    ledger_.Learn(record);
    const bool urgent = incidents_.Take(record.alert);
    if (TakeHeld(record)) {
      incidents_.Told(record.alert.run);  // nobody waits to hear of it
      return;
    }
    std::optional<alert::AlertState> known = ledger_.Told(record.alert.id);
    const auto waiting = groups_.find(record.alert.run);
    if (waiting != groups_.end()) {
      for (const alert::AlertRecord& earlier : waiting->second.records) {
        if (earlier.alert.id == record.alert.id) known = earlier.alert.state;
      }
    }
    if (known == record.alert.state) return;  // dedupe
    Group& group = GroupOf(record.alert.run, urgent);
    // Nobody was told that it fired: say that first, so that an end has a beginning.
    if (!known && record.alert.state == alert::AlertState::kResolved) {
      alert::AlertRecord firing = record;
      firing.alert.state = alert::AlertState::kFiring;
      firing.resolved_because.clear();
      Add(std::move(firing), &group);
    }
    Add(record, &group);
  }

  void OnEnd(const alert::AlertRecord& record) override {
    {
      std::lock_guard lock(mutex_);
      if (ledger_.Told(record.alert.id) != alert::AlertState::kFiring) return;
    }
    OnAlert(record);
  }

  void Tick() override {
    ReleaseHeld();
    for (const std::string& run : Due()) SendGroup(run);
  }

 private:
  struct Group {
    std::deque<alert::AlertRecord> records;
    int64_t due_nanos = 0;
    Retry retry;
  };

  // What is urgent, and the first news of a run, goes out after group_wait; other news when group_interval
  // has passed since the last message.
  Group& GroupOf(const std::string& run, bool urgent) {
    const int64_t now = options_.clock->MonotonicNanos();
    const int64_t soon = now + std::chrono::nanoseconds(options_.group_wait).count();
    const auto last = last_sent_nanos_.find(run);
    const int64_t later =
        last == last_sent_nanos_.end()
            ? soon
            : std::max(soon, last->second + std::chrono::nanoseconds(options_.group_interval).count());
    const auto [it, made] = groups_.try_emplace(
        run, Group{{},
                   urgent ? soon : later,
                   Retry(options_.first_retry, options_.last_retry, seed_ + groups_made_)});
    if (made) ++groups_made_;
    Group& group = it->second;
    if (!made && urgent && group.retry.failures() == 0) group.due_nanos = std::min(group.due_nanos, soon);
    return group;
  }

  // --- what is silenced: held_, until it is not, or ends

  bool Silenced(const alert::Alert& alert) const {
    return options_.silences != nullptr && options_.silences->Silenced(alert);
  }

  // True where nobody is to hear of the record, because it belongs to an alert that is held.
  bool TakeHeld(const alert::AlertRecord& record) {
    const auto it = held_.find(record.alert.id);
    if (it == held_.end()) return false;
    if (record.alert.state == alert::AlertState::kResolved) {
      held_.erase(it);
      silenced = held_.size();
    }
    return true;
  }

  void ReleaseHeld() {
    std::lock_guard lock(mutex_);
    for (auto it = held_.begin(); it != held_.end();) {
      if (Silenced(it->second.alert)) {
        ++it;
        continue;
      }
      Group& group = GroupOf(it->second.alert.run, true);
      Add(std::move(it->second), &group);
      it = held_.erase(it);
    }
    silenced = held_.size();
  }

  // Takes what is silenced out of the group; of an alert that came and went, both.
  void HoldBack(Group* group) {
    std::deque<alert::AlertRecord> told;
    for (alert::AlertRecord& record : group->records) {
      const bool firing = record.alert.state == alert::AlertState::kFiring;
      if (TakeHeld(record)) {
        --pending;
      } else if (firing && Silenced(record.alert)) {
        held_[record.alert.id] = std::move(record);
        --pending;
      } else {
        told.push_back(std::move(record));
      }
    }
    group->records = std::move(told);
    silenced = held_.size();
  }

  void Add(alert::AlertRecord record, Group* group) {
    if (pending >= options_.max_pending) {
      ++given_up;
      if (group->records.empty()) return;
      group->records.pop_front();
      --pending;
    }
    group->records.push_back(std::move(record));
    ++pending;
  }

  std::vector<std::string> Due() {
    const int64_t now = options_.clock->MonotonicNanos();
    std::lock_guard lock(mutex_);
    std::vector<std::string> due;
    for (const auto& [run, group] : groups_) {
      if (group.due_nanos <= now) due.push_back(run);
    }
    return due;
  }

  void SendGroup(const std::string& run) {
    std::vector<alert::AlertRecord> records;
    {
      std::lock_guard lock(mutex_);
      Group& group = groups_.at(run);
      HoldBack(&group);
      if (group.records.empty()) {
        groups_.erase(run);
        return;
      }
      records.assign(group.records.begin(), group.records.end());
    }
    const std::string body = Body(run, records);
    const PostOutcome outcome = Post(target_, target_.url, body);
    std::lock_guard lock(mutex_);
    Group& group = groups_.at(run);
    const bool delivered = outcome == PostOutcome::kDelivered;
    ++(delivered ? sent : failed);
    if (outcome == PostOutcome::kTryAgain) {
      const int64_t pause = group.retry.Failed();
      group.due_nanos = options_.clock->MonotonicNanos() + pause;
      if (group.retry.failures() < options_.max_attempts) return;
    }
    if (!delivered) given_up += records.size();
    ledger_.Tell(records);
    incidents_.Told(run);
    last_sent_nanos_[run] = options_.clock->MonotonicNanos();
    if (!incidents_.Open(run)) last_sent_nanos_.erase(run);
    // Alerts that came meanwhile stay and make a group of their own.
    const size_t done = std::min(records.size(), group.records.size());
    group.records.erase(group.records.begin(), group.records.begin() + static_cast<std::ptrdiff_t>(done));
    pending -= done;
    if (group.records.empty()) {
      groups_.erase(run);
    } else {
      group.retry.Succeeded();
      group.due_nanos = options_.clock->MonotonicNanos();
    }
  }

  std::string Body(const std::string& run, const std::vector<alert::AlertRecord>& records) const {
    const bool slack = target_.kind == TargetKind::kSlack;
    if (template_) {
      const std::string text = template_->Render({run, records, Link(options_.external_url, run)});
      return slack ? SlackMessage(text) : text;
    }
    return slack ? SlackPayload(run, records, options_.external_url)
                 : WebhookPayload(run, records, options_.external_url);
  }

  const NotifyOptions options_;
  const Target target_;
  std::optional<MessageTemplate> template_;  // set by Load
  std::mutex mutex_;                         // guards all below
  Ledger ledger_;
  std::map<std::string, Group> groups_;             // by run
  std::map<std::string, alert::AlertRecord> held_;  // by id: fire, silenced, not told
  Incidents incidents_;
  std::map<std::string, int64_t> last_sent_nanos_;  // by run, while its incident is open
  const uint64_t seed_;
  uint64_t groups_made_ = 0;
};

}  // namespace

Status CheckTemplate(const std::string& text, bool slack) {
  return MessageTemplate::Parse(text,
                                slack ? MessageTemplate::Escape::kSlack : MessageTemplate::Escape::kJson)
      .status();
}

std::unique_ptr<Sender> MakeWebhookSender(const NotifyOptions& options, const Target& target, uint64_t seed) {
  return std::make_unique<WebhookSender>(options, target, seed);
}

}  // namespace foreshock::notify
