// kAlertmanager: what fires again and again, what resolved once. kHeartbeat: a call at every interval.
#include <map>
#include <mutex>
#include <set>

#include "ledger.h"
#include "payload.h"
#include "post.h"
#include "retry.h"
#include "senders.h"
#include "silence_copies.h"

namespace foreshock::notify {
namespace {

constexpr int kEndsAfterIntervals = 4;
constexpr size_t kAlertsOfMessage = 64;

class AlertmanagerSender final : public Sender {
 public:
  AlertmanagerSender(const NotifyOptions& options, const Target& target, uint64_t seed)
      : options_(options),
        target_(target),
        url_(target.url + (target.url.ends_with('/') ? "" : "/") + "api/v2/alerts"),
        ledger_(options.store, target.name),
        copies_(target_, options.silences, options.clock),
        retry_(options.first_retry, std::min(options.last_retry, options.resend_interval), seed),
        started_unix_ns_(options.clock->WallNanos()) {}

  Status Load() override {
    std::lock_guard lock(mutex_);
    return ledger_.Load();
  }

  void OnAlert(const alert::AlertRecord& record) override {
    std::lock_guard lock(mutex_);
    ledger_.Learn(record);
    const auto known = ledger_.Told(record.alert.id);
    if (record.alert.state == alert::AlertState::kFiring) {
      resolved_.erase(record.alert.id);
      firing_[record.alert.id] = record;
    } else {
      const bool waited = firing_.erase(record.alert.id) > 0;
      // It need not hear of the end of what it never heard of.
      if (known != alert::AlertState::kFiring) {
        if (waited && !known) ledger_.Tell({record});
        return CountPending();
      }
      resolved_[record.alert.id] = record;
    }
    due_nanos_ = std::min(due_nanos_, options_.clock->MonotonicNanos());
    CountPending();
  }

  void OnEnd(const alert::AlertRecord& record) override { OnAlert(record); }

  void Tick() override {
    const int64_t now = options_.clock->MonotonicNanos();
    {
      std::lock_guard lock(mutex_);
      if (now < paused_until_nanos_) return;
    }
    // Silences first: an alert that comes before its silence is told.
    const bool copied = copies_.Sync();
    std::vector<alert::AlertRecord> batch;
    {
      std::lock_guard lock(mutex_);
      TakeSilencedBack(now);
      if (copied && now < due_nanos_) return;
      for (const auto& [id, record] : resolved_) batch.push_back(record);
      for (const auto& [id, record] : firing_) {
        if (!withheld_.contains(id)) batch.push_back(record);
      }
      due_nanos_ = now + Interval();
    }
    bool good = SendHeartbeat() && copied;
    for (size_t at = 0; good && at < batch.size(); at += kAlertsOfMessage) {
      const auto end =
          batch.begin() + static_cast<std::ptrdiff_t>(std::min(at + kAlertsOfMessage, batch.size()));
      good = SendSome({batch.begin() + static_cast<std::ptrdiff_t>(at), end});
    }
    std::lock_guard lock(mutex_);
    if (good) {
      retry_.Succeeded();
    } else {
      paused_until_nanos_ = options_.clock->MonotonicNanos() + retry_.Failed();
      due_nanos_ = paused_until_nanos_;
    }
    CountPending();
  }

 private:
  // Looks anew at what is kept back. What was told once goes on being told: else it would resolve there.
  void TakeSilencedBack(int64_t now) {
    std::set<std::string> withheld;
    for (const auto& [id, record] : firing_) {
      if (ledger_.Told(id) != alert::AlertState::kFiring && copies_.Withheld(record.alert))
        withheld.insert(id);
    }
    for (const std::string& id : withheld_) {
      if (firing_.contains(id) && !withheld.contains(id)) due_nanos_ = std::min(due_nanos_, now);
    }
    withheld_ = std::move(withheld);
    silenced = withheld_.size();
    CountPending();
  }

  int64_t Interval() const { return std::chrono::nanoseconds(options_.resend_interval).count(); }
  int64_t Ends() const { return options_.clock->WallNanos() + kEndsAfterIntervals * Interval(); }

  bool SendHeartbeat() {
    if (!target_.heartbeat) return true;
    return Count(Post(target_, url_, HeartbeatPayload(started_unix_ns_, Ends()))) != PostOutcome::kTryAgain;
  }

  bool SendSome(const std::vector<alert::AlertRecord>& records) {
    const PostOutcome outcome =
        Count(Post(target_, url_, AlertmanagerPayload(records, Ends(), options_.external_url)));
    if (outcome == PostOutcome::kTryAgain) return false;
    std::lock_guard lock(mutex_);
    std::vector<alert::AlertRecord> news;
    for (const alert::AlertRecord& record : records) {
      if (ledger_.Told(record.alert.id) != record.alert.state) news.push_back(record);
      if (record.alert.state == alert::AlertState::kResolved) resolved_.erase(record.alert.id);
    }
    if (outcome == PostOutcome::kRefused) given_up += news.size();
    if (!news.empty()) ledger_.Tell(news);
    return true;
  }

  PostOutcome Count(PostOutcome outcome) {
    ++(outcome == PostOutcome::kDelivered ? sent : failed);
    return outcome;
  }

  void CountPending() {
    size_t waiting = resolved_.size();
    for (const auto& [id, record] : firing_) {
      waiting += ledger_.Told(id) == alert::AlertState::kFiring || withheld_.contains(id) ? 0 : 1;
    }
    pending = waiting;
  }

  const NotifyOptions options_;
  const Target target_;
  const std::string url_;
  std::mutex mutex_;  // guards all below
  Ledger ledger_;
  SilenceCopies copies_;  // Tick's alone
  Retry retry_;
  std::map<std::string, alert::AlertRecord> firing_, resolved_;  // by id
  std::set<std::string> withheld_;  // ids of those that fire and are kept back, because they are silenced
  int64_t due_nanos_ = 0;
  int64_t paused_until_nanos_ = 0;  // after a failure news wait too
  const int64_t started_unix_ns_;
};

class HeartbeatSender final : public Sender {
 public:
  HeartbeatSender(const NotifyOptions& options, const Target& target) : options_(options), target_(target) {}
  Status Load() override { return OkStatus(); }
  void OnAlert(const alert::AlertRecord&) override {}
  void OnEnd(const alert::AlertRecord&) override {}
  void Tick() override {
    const int64_t now = options_.clock->MonotonicNanos();
    if (now < due_nanos_) return;
    due_nanos_ = now + std::chrono::nanoseconds(options_.resend_interval).count();
    ++(Post(target_, target_.url, "") == PostOutcome::kDelivered ? sent : failed);
  }

 private:
  const NotifyOptions options_;
  const Target target_;
  int64_t due_nanos_ = 0;
};

}  // namespace

std::unique_ptr<Sender> MakeAlertmanagerSender(const NotifyOptions& options, const Target& target,
                                               uint64_t seed) {
  return std::make_unique<AlertmanagerSender>(options, target, seed);
}

std::unique_ptr<Sender> MakeHeartbeatSender(const NotifyOptions& options, const Target& target) {
  return std::make_unique<HeartbeatSender>(options, target);
}

}  // namespace foreshock::notify
