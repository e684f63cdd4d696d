#include "foreshock/server/alert/alert_service.h"

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "book.h"
#include "foreshock/base/blocking_queue.h"
#include "foreshock/server/store/parts.h"
#include "judge.h"
#include "listeners.h"

namespace foreshock::alert {
namespace {

class AlertServiceImpl final : public AlertService, public store::Observer {
 public:
  AlertServiceImpl(const AlertOptions& options, store::Store* store, const Clock* clock)
      : options_(options),
        store_(store),
        clock_(clock),
        book_(store),
        judge_(options, store, clock, &book_, &listeners_, &stopping_),
        queue_(options.queue_capacity) {}

  Status Begin() {
    FS_RETURN_IF_ERROR(book_.Load());
    if (options_.listener != nullptr) first_listener_ = listeners_.Add(options_.listener);
    store_->Beat(clock_->WallNanos()).IgnoreError();  // a full disk must not keep the server from starting
    // First to listen, then to read: what comes twice is left out by step and sequence number.
    subscription_ = store_->Subscribe(this);
    thread_ = std::thread([this] { Run(); });
    return OkStatus();
  }

  ~AlertServiceImpl() override {
    stopping_ = true;
    subscription_.reset();
    queue_.Close();
    if (thread_.joinable()) thread_.join();
  }

  // --- what the store tells; on its writer's thread

  void OnSource(const store::Origin& origin, const wire::Hello&) override {
    Push(Name(origin), [name = Name(origin)](Judge& judge) { judge.OnSource(name); });
  }
  void OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                     bool amended) override {
    // Rules have judged the step already.
    if (amended) return;
    const size_t bytes = store::MemoryOf(*frame);
    Push(
        Name(origin),
        [this, name = Name(origin), frame, bytes](Judge& judge) {
          judge.OnFrame(name, *frame);
          queued_bytes_ -= bytes;
        },
        bytes);
  }
  void OnEvent(const store::Origin& origin, const std::shared_ptr<const wire::Event>& event) override {
    Push(Name(origin), [name = Name(origin), source = origin.source, event](Judge& judge) {
      judge.OnEvent(name, source, *event);
    });
  }
  void OnGoodbye(const store::Origin& origin, const std::shared_ptr<const wire::Goodbye>&) override {
    Push(Name(origin), [name = Name(origin)](Judge& judge) { judge.OnGoodbye(name); });
  }
  void OnRunImported(const std::string& run) override {
    Push({run, ""}, [run](Judge& judge) { judge.OnRunImported(run); });
  }
  void OnRunDeleted(const std::string& run) override {
    Push({run, ""}, [run](Judge& judge) { judge.OnRunDeleted(run); });
  }

  // --- for those who ask

  Result<std::vector<AlertRecord>> OfRun(const std::string& run) const override {
    FS_RETURN_IF_ERROR(store_->GetRun(run).status());
    return book_.Read(run);
  }
  Result<std::vector<AlertRecord>> All() const override { return book_.Read(std::nullopt); }
  std::vector<AlertRecord> Firing() const override { return book_.Firing(); }
  std::unique_ptr<store::Subscription> Subscribe(AlertListener* listener) override {
    return listeners_.Add(listener);
  }

  void SetUserRules(const detect::UserRulesPtr& rules) override {
    Wait([rules](Judge& judge) { judge.SetUserRules(rules); });
  }

  void Flush() override {
    Wait([](Judge&) {});
  }
  void Tick() override {
    Wait([](Judge& judge) { judge.Tick(); });
  }

  Counters counters() const override {
    Counters c;
    c.steps = judge_.steps();
    c.fired = judge_.fired();
    c.resolved = judge_.resolved();
    c.catch_ups = catch_ups_;
    c.save_failures = book_.write_failures();
    c.open_attempts = judge_.open_attempts();
    c.queued = queue_.Size();
    return c;
  }

 private:
  using Work = std::function<void(Judge&)>;

  static AttemptName Name(const store::Origin& origin) { return {origin.run, origin.attempt}; }

  // Never waits: the store's writer calls. An attempt whose work does not fit is read from the store later,
  // and until then the rest of its work is left out too, so that its steps are judged in order.
  void Push(const AttemptName& name, Work work, size_t bytes = 0) {
    std::lock_guard lock(behind_mutex_);
    if (behind_.contains(name)) return;
    // One frame has room, however large.
    const size_t queued = queued_bytes_;
    const bool fits = bytes == 0 || queued == 0 || queued + bytes <= options_.queue_bytes;
    queued_bytes_ += bytes;
    if (fits && queue_.TryPush(std::move(work)) != BlockingQueue<Work>::Outcome::kFull) return;
    queued_bytes_ -= bytes;
    behind_.insert(name);
  }

  // Runs work after all that is queued, also when the queue is full; returns when done.
  void Wait(Work work) {
    std::promise<void> done;
    auto wrapped = [&](Judge& judge) {
      CatchUp();
      work(judge);
      done.set_value();
    };
    if (queue_.Push(wrapped, std::chrono::hours(1)) == BlockingQueue<Work>::Outcome::kOk)
      done.get_future().wait();
  }

  void Run() {
    judge_.RebuildAll();
    auto next_tick = std::chrono::steady_clock::now() + options_.tick_interval;
    while (!stopping_) {
      const auto left = next_tick - std::chrono::steady_clock::now();
      if (auto work = queue_.WaitPop(std::max(left, std::chrono::steady_clock::duration::zero())))
        (*work)(judge_);
      if (queue_.Size() == 0) CatchUp();
      if (std::chrono::steady_clock::now() < next_tick) continue;
      CatchUp();
      judge_.Tick();
      next_tick = std::chrono::steady_clock::now() + options_.tick_interval;
    }
    judge_.SaveAll(kSaveAtMost);
  }

  void CatchUp() {
    std::set<AttemptName> names;
    {
      std::lock_guard lock(behind_mutex_);
      names.swap(behind_);
    }
    for (const AttemptName& name : names) {
      if (stopping_) return;
      ++catch_ups_;
      if (name.second.empty()) {
        // Deleted, or imported: then it is read anew.
        store_->GetRun(name.first).ok() ? judge_.OnRunImported(name.first) : judge_.OnRunDeleted(name.first);
      } else {
        judge_.CatchUp(name);
        judge_.OnGoodbye(name);
      }
    }
  }

  static constexpr std::chrono::seconds kSaveAtMost{3};

  std::atomic<bool> stopping_{false};
  const AlertOptions options_;
  store::Store* const store_;
  const Clock* const clock_;
  Book book_;
  Listeners listeners_;
  std::unique_ptr<store::Subscription> first_listener_;
  Judge judge_;
  std::atomic<size_t> queued_bytes_{0};  // of the frames in queue_
  BlockingQueue<Work> queue_;
  std::mutex behind_mutex_;  // guards behind_ and the order of pushes
  std::set<AttemptName> behind_;
  std::atomic<uint64_t> catch_ups_{0};
  std::unique_ptr<store::Subscription> subscription_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AlertService>> AlertService::Start(const AlertOptions& options, store::Store* store,
                                                          const Clock* clock) {
  auto service = std::make_unique<AlertServiceImpl>(options, store, clock);
  FS_RETURN_IF_ERROR(service->Begin());
  return std::unique_ptr<AlertService>(std::move(service));
}

}  // namespace foreshock::alert
