#include "stream_watch.h"

namespace foreshock::ingest {
namespace {

constexpr std::chrono::seconds kLook{1};
constexpr int kLooksPerExpiry = 30;

}  // namespace

StreamWatch::StreamWatch(const auth::Gate& gate, const Clock& clock, std::chrono::milliseconds hello_timeout)
    : gate_(gate),
      clock_(clock),
      hello_timeout_(hello_timeout),
      generation_(gate.generation()),
      thread_([this] { Run(); }) {}

StreamWatch::~StreamWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

uint64_t StreamWatch::Add(auth::Credentials credentials, std::shared_ptr<StreamEnd> end) {
  const int64_t deadline_ns = clock_.MonotonicNanos() + std::chrono::nanoseconds(hello_timeout_).count();
  std::lock_guard lock(mutex_);
  entries_[next_id_] = {std::move(credentials), std::move(end), deadline_ns, {}};
  return next_id_++;
}

void StreamWatch::Greeted(uint64_t id, const std::string& run) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry != entries_.end()) entry->second.run = run;
}

void StreamWatch::Remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  entries_.erase(id);
}

void StreamWatch::Run() {
  std::unique_lock lock(mutex_);
  for (int look = 1; !stop_.wait_for(lock, kLook, [this] { return stopping_; }); ++look) {
    CloseLate();
    const uint64_t generation = gate_.generation();
    // Tokens also expire, without a change of the file.
    if (generation != generation_ || (gate_.tokens_needed() && look % kLooksPerExpiry == 0)) CloseRevoked();
    generation_ = generation;
  }
}

// Closing only queues a status: nothing here waits for the network.
void StreamWatch::CloseLate() {
  const int64_t now_ns = clock_.MonotonicNanos();
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!it->second.run.empty() || it->second.deadline_ns > now_ns) {
      ++it;
      continue;
    }
    ++late_hellos_;  // before whoever is closed can look
    it->second.end->Close(Status(Code::kInvalidArgument,
                                 "hello: none within " + std::to_string(hello_timeout_.count()) + " ms"));
    it = entries_.erase(it);
  }
}

void StreamWatch::CloseRevoked() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const Entry& entry = it->second;
    const auto caller = gate_.Identify(entry.credentials);
    const Status may = !caller.ok()        ? caller.status()
                       : entry.run.empty() ? OkStatus()
                                           : caller->May(auth::Scope::kWrite, entry.run);
    if (may.ok()) {
      ++it;
      continue;
    }
    ++revoked_;
    entry.end->Close(may);
    it = entries_.erase(it);
  }
}

}  // namespace foreshock::ingest
