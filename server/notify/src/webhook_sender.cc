// kWebhook and kSlack: every change of state once, in groups of one run.
#include <deque>
#include <map>
#include <mutex>

#include "ledger.h"
#include "payload.h"
#include "post.h"
#include "retry.h"
#include "senders.h"

namespace foreshock::notify {
namespace {

class WebhookSender final : public Sender {
 public:
  WebhookSender(const NotifyOptions& options, const Target& target, uint64_t seed)
      : options_(options), target_(target), ledger_(options.store, target.name), seed_(seed) {}

  Status Load() override {
    std::lock_guard lock(mutex_);
    return ledger_.Load();
  }

  void OnAlert(const alert::AlertRecord& record) override {
    std::lock_guard lock(mutex_);
    std::optional<alert::AlertState> known = ledger_.Told(record.alert.id);
    const auto waiting = groups_.find(record.alert.run);
    if (waiting != groups_.end()) {
      for (const alert::AlertRecord& earlier : waiting->second.records) {
        if (earlier.alert.id == record.alert.id) known = earlier.alert.state;
      }
    }
    if (known == record.alert.state) return;  // dedupe
    Group& group = groups_.try_emplace(record.alert.run, NewGroup()).first->second;
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
    for (const std::string& run : Due()) SendGroup(run);
  }

 private:
  struct Group {
    std::deque<alert::AlertRecord> records;
    int64_t due_nanos = 0;
    Retry retry;
  };

  Group NewGroup() {
    return {{},
            options_.clock->MonotonicNanos() + std::chrono::nanoseconds(options_.group_wait).count(),
            Retry(options_.first_retry, options_.last_retry, seed_ + groups_made_++)};
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
      const Group& group = groups_.at(run);
      records.assign(group.records.begin(), group.records.end());
    }
    const std::string body = target_.kind == TargetKind::kSlack
                                 ? SlackPayload(run, records, options_.external_url)
                                 : WebhookPayload(run, records, options_.external_url);
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

  const NotifyOptions options_;
  const Target target_;
  std::mutex mutex_;  // guards all below
  Ledger ledger_;
  std::map<std::string, Group> groups_;  // by run
  const uint64_t seed_;
  uint64_t groups_made_ = 0;
};

}  // namespace

std::unique_ptr<Sender> MakeWebhookSender(const NotifyOptions& options, const Target& target, uint64_t seed) {
  return std::make_unique<WebhookSender>(options, target, seed);
}

}  // namespace foreshock::notify
