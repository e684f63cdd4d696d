#include "foreshock/server/remote_write/remote_writer.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "foreshock/base/logging.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/remote_write/encode.h"
#include "foreshock/server/store/parts.h"
#include "frame_samples.h"

namespace foreshock::remote_write {
namespace {

constexpr size_t kMaxKnownSeries = 500'000;  // of all runs; beyond, they are forgotten and made anew

struct Queued {
  std::string run;
  std::shared_ptr<const wire::Frame> frame;
  size_t bytes = 0;
};

struct Request {
  std::string body;
  size_t samples = 0;
};

class RemoteWriterImpl final : public RemoteWriter, private store::Observer {
 public:
  RemoteWriterImpl(RemoteWriteOptions options, Relabelling relabelling, store::Store& store,
                   const Clock& clock)
      : options_(std::move(options)), relabelling_(std::move(relabelling)), clock_(clock) {
    http_.read_timeout = options_.timeout;
    http_.headers = options_.headers;
    http_.headers.emplace("Content-Encoding", "snappy");
    http_.headers.emplace("X-Prometheus-Remote-Write-Version", "0.1.0");
    http_.headers.emplace("User-Agent", "foreshock");
    thread_ = std::thread([this] { Run(); });
    subscription_ = store.Subscribe(this);
  }
  ~RemoteWriterImpl() override {
    subscription_.reset();
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  RemoteWriteStats stats() const override {
    std::lock_guard lock(mutex_);
    RemoteWriteStats stats = stats_;
    stats.queued_frames = queue_.size();
    return stats;
  }
  Status health() const override {
    std::lock_guard lock(mutex_);
    return health_;
  }
  bool Drain(std::chrono::milliseconds at_most) override {
    std::unique_lock lock(mutex_);
    ++draining_;
    changed_.notify_all();
    const bool done = changed_.wait_for(lock, at_most, [&] { return queue_.empty() && !sending_; });
    --draining_;
    return done;
  }

 private:
  void OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                     bool amended) override {
    Queued entry{origin.run, frame, store::MemoryOf(*frame)};
    std::lock_guard lock(mutex_);
    if (amended) {
      ++stats_.late_frames;
      return;
    }
    if (queue_.empty()) oldest_ = std::chrono::steady_clock::now();
    queued_bytes_ += entry.bytes;
    queue_.push_back(std::move(entry));
    while (queued_bytes_ > options_.max_queued_bytes && queue_.size() > 1) {
      queued_bytes_ -= queue_.front().bytes;
      queue_.pop_front();
      ++stats_.dropped_frames;
    }
    changed_.notify_all();
  }

  void OnRunDeleted(const std::string& run) override {
    std::lock_guard lock(mutex_);
    forget_.push_back(run);
  }

  // What is to be sent next; empty when stopping.
  std::deque<Queued> Take() {
    std::unique_lock lock(mutex_);
    const auto due = [&] {
      if (stopping_ || (draining_ > 0 && !queue_.empty())) return true;
      return !queue_.empty() && std::chrono::steady_clock::now() >= oldest_ + options_.flush;
    };
    while (!due()) {
      if (queue_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, oldest_ + options_.flush);
      }
    }
    std::deque<Queued> taken;
    if (stopping_) return taken;
    taken.swap(queue_);
    queued_bytes_ = 0;
    sending_ = true;
    for (const std::string& run : forget_) {
      known_series_ -= series_[run].size();
      series_.erase(run);
      newest_ms_.erase(run);
    }
    forget_.clear();
    return taken;
  }

  void Run() {
    for (;;) {
      const std::deque<Queued> frames = Take();
      if (frames.empty()) return;
      Request request;
      for (const Queued& frame : frames) {
        Add(frame, &request);
        if (request.samples >= options_.samples_per_request && !Send(&request)) return;
      }
      if (request.samples > 0 && !Send(&request)) return;
      std::lock_guard lock(mutex_);
      sending_ = false;
      changed_.notify_all();
    }
  }

  void Add(const Queued& queued, Request* request) {
    const uint64_t ns = queued.frame->time_unix_ns;
    const int64_t ms = (ns == 0 ? clock_.WallNanos() : static_cast<int64_t>(ns)) / 1'000'000;
    const auto newest = newest_ms_.find(queued.run);
    if (newest != newest_ms_.end() && ms <= newest->second) {
      std::lock_guard lock(mutex_);
      ++stats_.late_frames;
      return;
    }
    newest_ms_[queued.run] = ms;
    if (known_series_ > kMaxKnownSeries) series_.clear(), known_series_ = 0;
    auto& known = series_[queued.run];
    EachSample(*queued.frame, options_.per_head, [&](const SeriesName& name, double value) {
      auto it = known.find(name);
      if (it == known.end()) {
        it = known.emplace(name, EncodedLabels(queued.run, name)).first;
        ++known_series_;
      }
      if (it->second.empty()) return;  // relabelled away
      AppendSample(it->second, value, ms, &request->body);
      ++request->samples;
    });
  }

  std::string EncodedLabels(const std::string& run, const SeriesName& name) const {
    Labels labels = LabelsOf(run, name);
    for (const auto& label : options_.labels) labels.push_back(label);
    const auto relabelled = relabelling_.Apply(std::move(labels));
    return relabelled ? EncodeLabels(*relabelled) : std::string();
  }

  // Until the receiver has taken or refused it; false: stopping.
  bool Send(Request* request) {
    const std::string body = Compressed(request->body);
    auto wait = options_.first_retry;
    for (;;) {
      const auto answer = http::Post(options_.url, body, "application/x-protobuf", http_);
      const bool taken = answer.ok() && answer->code / 100 == 2;
      const bool again = !answer.ok() || answer->code == 429 || answer->code / 100 == 5;
      std::unique_lock lock(mutex_);
      SetHealth(taken         ? OkStatus()
                : answer.ok() ? Status(Code::kUnavailable, "remote_write: " + std::to_string(answer->code) +
                                                               " " + answer->body.substr(0, 300))
                              : answer.status());
      if (taken) {
        stats_.samples += request->samples;
        ++stats_.requests;
      } else if (!again) {
        stats_.refused += request->samples;
      } else {
        ++stats_.retries;
        if (changed_.wait_for(lock, wait, [this] { return stopping_; })) return false;
        wait = std::min(2 * wait, options_.last_retry);
        continue;
      }
      *request = {};
      return !stopping_;
    }
  }

  // Under the lock.
  void SetHealth(Status status) {
    if (status.ok() != health_.ok()) {
      if (status.ok()) {
        LogInfo("server/remote_write", "the receiver takes samples again", {{"url", options_.url}});
      } else {
        LogWarning("server/remote_write", "samples are not taken",
                   {{"url", options_.url}, {"error", status}});
      }
    }
    health_ = std::move(status);
  }

  const RemoteWriteOptions options_;
  const Relabelling relabelling_;
  const Clock& clock_;
  http::ClientOptions http_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  std::chrono::steady_clock::time_point oldest_;  // when the queue's first came
  std::vector<std::string> forget_;
  RemoteWriteStats stats_;
  Status health_;
  int draining_ = 0;
  bool sending_ = false, stopping_ = false;
  // Of the thread alone (and under the lock in Take).
  std::map<std::string, std::map<SeriesName, std::string>> series_;
  std::map<std::string, int64_t> newest_ms_;
  size_t known_series_ = 0;
  std::thread thread_;
  std::unique_ptr<store::Subscription> subscription_;
};

}  // namespace

Result<std::unique_ptr<RemoteWriter>> RemoteWriter::Start(const RemoteWriteOptions& options,
                                                          store::Store& store, const Clock& clock) {
  if (!options.url.starts_with("http://") && !options.url.starts_with("https://"))
    return Status(Code::kInvalidArgument,
                  "remote_write url: '" + options.url + "', must be http(s)://host:port/path");
  if (options.samples_per_request == 0)
    return Status(Code::kInvalidArgument, "remote_write samples_per_request: 0, must be at least 1");
  FS_ASSIGN_OR_RETURN(Relabelling relabelling, Relabelling::Create(options.relabel));
  return std::unique_ptr<RemoteWriter>(
      std::make_unique<RemoteWriterImpl>(options, std::move(relabelling), store, clock));
}

}  // namespace foreshock::remote_write
