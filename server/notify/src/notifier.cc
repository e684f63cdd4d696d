#include "foreshock/server/notify/notifier.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "senders.h"

namespace foreshock::notify {
namespace {

// How long a sender's thread sleeps without news: due times are looked at this often.
constexpr std::chrono::milliseconds kPoll{500};

Status Bad(size_t index, const std::string& what) {
  return Status(Code::kInvalidArgument, "targets[" + std::to_string(index) + "]" + what);
}

Status Check(const NotifyOptions& options) {
  if (options.resend_interval < std::chrono::seconds(1) || options.resend_interval > std::chrono::hours(1)) {
    return Status(Code::kInvalidArgument,
                  "resend_interval: " + std::to_string(options.resend_interval.count()) +
                      " ms, from 1,000 to 3,600,000");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < options.targets.size(); ++i) {
    const Target& target = options.targets[i];
    const bool http = target.url.starts_with("http://") || target.url.starts_with("https://");
    if (!http) return Bad(i, ".url: \"" + target.url + "\", must begin with http:// or https://");
    if (target.name.find('\n') != std::string::npos) return Bad(i, ".name: has a line break");
    if (!names.insert(target.name.empty() ? target.url : target.name).second) {
      return Bad(i, ".name: \"" + target.name + "\" is there twice");
    }
  }
  return OkStatus();
}

std::unique_ptr<Sender> MakeSender(const NotifyOptions& options, Target target, uint64_t seed) {
  if (target.name.empty()) target.name = target.url;
  switch (target.kind) {
    case TargetKind::kAlertmanager:
      return MakeAlertmanagerSender(options, target, seed);
    case TargetKind::kHeartbeat:
      return MakeHeartbeatSender(options, target);
    case TargetKind::kWebhook:
    case TargetKind::kSlack:
      break;
  }
  return MakeWebhookSender(options, target, seed);
}

class NotifierImpl final : public Notifier, public alert::AlertListener {
 public:
  explicit NotifierImpl(const NotifyOptions& options) : options_(options) {
    uint64_t seed = options.seed != 0 ? options.seed : std::random_device()();
    for (const Target& target : options.targets)
      senders_.push_back(MakeSender(options_, target, seed += 1'000'003));
  }

  Status Begin() {
    for (size_t i = 0; i < senders_.size(); ++i) {
      const Status status = senders_[i]->Load();
      if (!status.ok()) return status.Annotate("targets[" + std::to_string(i) + "]");
    }
    subscription_ = options_.alerts->Subscribe(this);
    FS_RETURN_IF_ERROR(Reconcile());
    if (!options_.own_threads) return OkStatus();
    for (const auto& sender : senders_) {
      threads_.emplace_back([this, s = sender.get()] { Run(s); });
    }
    return OkStatus();
  }

  ~NotifierImpl() override {
    subscription_.reset();
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void OnAlert(const alert::AlertRecord& record) override {
    for (const auto& sender : senders_) sender->OnAlert(record);
    std::lock_guard lock(mutex_);
    ++news_;
    wake_.notify_all();
  }

  void Tick() override {
    for (const auto& sender : senders_) sender->Tick();
  }

  Counters counters() const override {
    Counters sum;
    for (const auto& sender : senders_) {
      sum.sent += sender->sent;
      sum.failed += sender->failed;
      sum.given_up += sender->given_up;
      sum.pending += sender->pending;
      sum.silenced += sender->silenced;
    }
    return sum;
  }

 private:
  // What happened while this was not listening: what fires, and the ends of what was told to fire. Alerts
  // that had come and gone before a target was told of any are old news.
  Status Reconcile() {
    FS_ASSIGN_OR_RETURN(const std::vector<alert::AlertRecord> all, options_.alerts->All());
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      if (it->alert.state == alert::AlertState::kFiring) {
        for (const auto& sender : senders_) sender->OnAlert(*it);
      } else {
        for (const auto& sender : senders_) sender->OnEnd(*it);
      }
    }
    return OkStatus();
  }

  void Run(Sender* sender) {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const uint64_t seen = news_;
      lock.unlock();
      sender->Tick();
      lock.lock();
      wake_.wait_for(lock, kPoll, [&] { return stopping_ || news_ != seen; });
    }
  }

  const NotifyOptions options_;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::mutex mutex_;  // guards stopping_ and news_
  std::condition_variable wake_;
  bool stopping_ = false;
  uint64_t news_ = 0;
  std::unique_ptr<store::Subscription> subscription_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<TargetKind> ParseTargetKind(const std::string& text) {
  if (text == "alertmanager") return TargetKind::kAlertmanager;
  if (text == "webhook") return TargetKind::kWebhook;
  if (text == "slack") return TargetKind::kSlack;
  if (text == "heartbeat") return TargetKind::kHeartbeat;
  return Status(Code::kInvalidArgument,
                "kind: \"" + text + "\", one of alertmanager, webhook, slack, heartbeat");
}

Result<std::unique_ptr<Notifier>> Notifier::Start(const NotifyOptions& options) {
  FS_RETURN_IF_ERROR(Check(options));
  auto notifier = std::make_unique<NotifierImpl>(options);
  FS_RETURN_IF_ERROR(notifier->Begin());
  return std::unique_ptr<Notifier>(std::move(notifier));
}

}  // namespace foreshock::notify
