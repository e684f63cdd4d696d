#include "foreshock/server/merge/merger.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "foreshock/base/logging.h"
#include "foreshock/server/merge/merge_frames.h"
#include "step_queue.h"

namespace foreshock::merge {
namespace {

class MergerImpl final : public Merger, private store::Observer {
 public:
  MergerImpl(store::Store& store, const Clock& clock, const MergerOptions& options)
      : store_(store), clock_(clock), wait_ns_(options.wait.count()) {}

  ~MergerImpl() override {
    stopping_ = true;
    subscription_.reset();
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Status Begin(bool own_thread) {
    subscription_ = store_.Subscribe(this);
    FS_RETURN_IF_ERROR(LoadLeftOvers());
    if (own_thread) thread_ = std::thread([this] { Run(); });
    return OkStatus();
  }

  void Tick() override {
    std::lock_guard tick(tick_mutex_);
    TakeImported();
    while (!stopping_ && MergeSome()) {
    }
  }

  void Stop() override { stopping_ = true; }

  Stats stats() const override {
    std::lock_guard lock(mutex_);
    Stats stats = stats_;
    for (const auto& [key, attempt] : attempts_) stats.pending += attempt.queue.size();
    return stats;
  }

 private:
  struct Attempt {
    explicit Attempt(int64_t wait_ns) : queue(wait_ns) {}
    std::string run, name;
    StepQueue queue;
  };
  using Key = std::pair<uint32_t, uint32_t>;  // run, attempt

  static constexpr size_t kBatch = 256;
  static constexpr size_t kLookAhead = 16;  // left-over steps that are read at a time
  static constexpr auto kPollPeriod = std::chrono::milliseconds(500);

  // --- Observer, on the writer's thread
  void OnSource(const store::Origin& origin, const wire::Hello& hello) override {
    std::lock_guard lock(mutex_);
    if (!Of(origin).AddSource(origin.source.rank, hello.world_size, origin.source.incarnation)) return;
    marked_ = news_ = true;  // the store has marked what the one rank had
    wake_.notify_one();
  }
  void OnFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame) override {
    std::lock_guard lock(mutex_);
    Of(origin).AddFrame(origin.source.rank, origin.source.incarnation, frame, clock_.MonotonicNanos());
    news_ = true;
    wake_.notify_one();
  }
  void OnGoodbye(const store::Origin& origin, const std::shared_ptr<const wire::Goodbye>&) override {
    std::lock_guard lock(mutex_);
    Of(origin).Leave(origin.source.rank);
    news_ = true;
    wake_.notify_one();
  }
  void OnRunImported(const std::string&) override {
    std::lock_guard lock(mutex_);
    marked_ = news_ = true;
    wake_.notify_one();
  }
  void OnRunDeleted(const std::string& run) override {
    std::lock_guard lock(mutex_);
    std::erase_if(attempts_, [&](const auto& item) { return item.second.run == run; });
  }

  StepQueue& Of(const store::Origin& origin) {
    Attempt& attempt =
        attempts_.try_emplace({origin.source.run, origin.source.attempt}, wait_ns_).first->second;
    attempt.run = origin.run;
    attempt.name = origin.attempt;
    return attempt.queue;
  }

  // What came by an import waits in the store, as after a restart.
  void TakeImported() {
    {
      std::lock_guard lock(mutex_);
      if (!std::exchange(marked_, false)) return;
    }
    const Status status = LoadLeftOvers();
    if (status.ok()) return;
    LogWarning("server/merge", "cannot look for what an import left to merge, will try again",
               {{"error", status}});
    std::lock_guard lock(mutex_);
    marked_ = true;
  }

  Status LoadLeftOvers() {
    for (const store::RunInfo& run : store_.ListRuns()) {
      for (const store::AttemptInfo& info : run.attempts) {
        for (const store::SourceInfo& source : info.sources) {
          OnSource({source.id, info.run, info.attempt}, *source.hello);
          if (source.goodbye) OnGoodbye({source.id, info.run, info.attempt}, nullptr);
        }
      }
    }
    FS_ASSIGN_OR_RETURN(const auto steps, store_.UnmergedSteps());
    std::lock_guard lock(mutex_);
    for (const auto& left : steps) {
      const auto it = attempts_.find({left.attempt.run, left.attempt.attempt});
      if (it != attempts_.end()) it->second.queue.AddLeftOver(left.step, clock_.MonotonicNanos());
    }
    return OkStatus();
  }

  // Which ranks have the next left-over steps. Not asked at the start, which would take as long as reading
  // all of them: a server that fell behind must take records again at once. What was read for it is merged as
  // it is.
  Status LookAtLeftOvers() {
    looked_.clear();
    std::vector<Taken> unknown;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [key, entry] : attempts_) {
        for (const int64_t step : entry.queue.Unknown(kLookAhead - unknown.size()))
          unknown.push_back({key, entry.run, entry.name, {step, false, nullptr, false}});
        if (unknown.size() == kLookAhead) break;
      }
    }
    for (const Taken& step : unknown) {
      if (stopping_) break;
      const uint64_t as_of = store_.Stamp();
      Result<std::vector<RankFrame>> frames = FramesOf(step.run, step.attempt, step.due.step);
      if (frames.status().code() == Code::kNotFound) continue;  // the run was deleted
      FS_RETURN_IF_ERROR(frames.status());
      std::set<uint32_t> ranks;
      for (const RankFrame& frame : *frames) ranks.insert(frame.rank);
      std::lock_guard lock(mutex_);
      const auto it = attempts_.find(step.key);
      if (it == attempts_.end()) continue;
      it->second.queue.Known(step.due.step, ranks);
      looked_[{step.key, step.due.step}] = {as_of, std::move(frames).value()};
    }
    return OkStatus();
  }

  // The frames that the ranks have at a step, the newest of each.
  Result<std::vector<RankFrame>> FramesOf(const std::string& run, const std::string& attempt, int64_t step) {
    FS_ASSIGN_OR_RETURN(const store::AttemptInfo info, store_.GetAttempt(run, attempt));
    std::set<uint32_t> ranks;
    for (const store::SourceInfo& source : info.sources) ranks.insert(source.id.rank);
    std::vector<RankFrame> frames;
    for (const uint32_t rank : ranks) {
      const store::FrameQuery query{
          .run = run, .attempt = attempt, .rank = rank, .from_step = step, .to_step = step};
      FS_RETURN_IF_ERROR(store_.ReadFrames(query, [&](store::StoredFrame stored) {
        frames.push_back({rank, std::move(stored.frame)});
        return true;
      }));
    }
    return frames;
  }

  struct Taken {
    Key key;
    std::string run, attempt;
    StepQueue::Due due;
  };

  // Up to kBatch steps that are due, of all attempts.
  std::vector<Taken> TakeDue() {
    std::lock_guard lock(mutex_);
    const int64_t now = clock_.MonotonicNanos();
    std::vector<Taken> taken;
    for (auto& [key, entry] : attempts_) {
      while (taken.size() < kBatch) {
        auto due = entry.queue.Take(now);
        if (!due) break;
        taken.push_back({key, entry.run, entry.name, *std::move(due)});
      }
    }
    return taken;
  }

  // Merges a batch; false when nothing is due or the store refuses.
  bool MergeSome() {
    if (const Status looked = LookAtLeftOvers(); !looked.ok()) {
      std::lock_guard lock(mutex_);
      Complain(looked);
      return false;
    }
    const std::vector<Taken> taken = TakeDue();
    const uint64_t as_of = store_.Stamp();  // what comes later makes a step due again
    if (taken.empty()) return !looked_.empty();
    std::vector<store::Store::Merged> merged;
    uint64_t amended = 0, incomplete = 0;
    Status status;
    for (const Taken& step : taken) {
      if (stopping_) break;  // the rest is merged after the next start
      bool complete = true;
      uint64_t read_at = as_of;
      Result<std::shared_ptr<const wire::Frame>> frame = MergeStep(step, &complete, &read_at);
      if (frame.status().code() == Code::kNotFound) continue;  // the run was deleted
      const store::SourceId attempt{step.key.first, step.key.second, 0, 0};
      status = frame.status();
      // A mark that stayed would keep the steps behind it from being sealed.
      if (status.ok() && *frame == nullptr) status = store_.PutNothingMerged(attempt, step.due.step, read_at);
      if (!status.ok()) break;
      if (*frame == nullptr) continue;
      merged.push_back({attempt, std::move(frame).value(), step.due.amended, read_at});
      amended += step.due.amended ? 1 : 0;
      incomplete += complete ? 0 : 1;
    }
    if (status.ok()) status = store_.PutMergedFrames(merged);
    std::lock_guard lock(mutex_);
    if (!status.ok()) {
      GiveBack(taken, status);
      return false;
    }
    failing_ = false;
    stats_.merged += merged.size() - amended;
    stats_.amended += amended;
    stats_.incomplete += incomplete;
    return true;
  }

  void GiveBack(const std::vector<Taken>& taken, const Status& why) {
    for (const Taken& step : taken) {
      const auto it = attempts_.find(step.key);
      if (it != attempts_.end()) it->second.queue.GiveBack(step.due);
    }
    Complain(why);
  }

  void Complain(const Status& why) {
    if (!failing_) LogWarning("server/merge", "cannot merge, will try again", {{"error", why}});
    failing_ = true;
  }

  // Null: there is no frame of the step. kNotFound: the run is gone. `read_at`: changed where it was read
  // earlier.
  Result<std::shared_ptr<const wire::Frame>> MergeStep(const Taken& step, bool* complete, uint64_t* read_at) {
    if (step.due.only != nullptr) return step.due.only;
    FS_ASSIGN_OR_RETURN(const store::AttemptInfo info, store_.GetAttempt(step.run, step.attempt));
    std::vector<RankFrame> frames;
    const auto looked = looked_.find({step.key, step.due.step});
    if (step.due.as_known && looked != looked_.end()) {
      frames = std::move(looked->second.frames);
      *read_at = looked->second.as_of;
    } else {
      FS_ASSIGN_OR_RETURN(frames, FramesOf(step.run, step.attempt, step.due.step));
    }
    if (frames.empty()) return std::shared_ptr<const wire::Frame>();
    *complete = frames.size() == info.world_size;
    for (const RankFrame& item : frames) *complete = *complete && item.frame.parts <= 1;
    if (info.world_size == 1) return std::make_shared<const wire::Frame>(std::move(frames.front().frame));
    return std::make_shared<const wire::Frame>(MergeFrames(std::move(frames), *complete));
  }

  void Run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, kPollPeriod, [this] { return news_ || stopping_; });
        if (stopping_) return;
        news_ = false;
      }
      Tick();
    }
  }

  store::Store& store_;
  const Clock& clock_;
  const int64_t wait_ns_;
  std::mutex tick_mutex_;  // one Tick at a time; guards looked_
  struct Looked {
    uint64_t as_of = 0;  // the stamp before it was read
    std::vector<RankFrame> frames;
  };
  std::map<std::pair<Key, int64_t>, Looked> looked_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex
      mutex_;  // guards everything below; the store may be held when it is taken, not the reverse
  std::condition_variable wake_;
  std::map<Key, Attempt> attempts_;
  Stats stats_;
  bool news_ = false;
  bool marked_ = false;
  bool failing_ = false;  // said already
  std::unique_ptr<store::Subscription> subscription_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Merger>> Merger::Start(store::Store& store, const Clock& clock,
                                              const MergerOptions& options) {
  auto merger = std::make_unique<MergerImpl>(store, clock, options);
  FS_RETURN_IF_ERROR(merger->Begin(options.own_thread));
  return std::unique_ptr<Merger>(std::move(merger));
}

}  // namespace foreshock::merge
