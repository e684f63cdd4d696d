// IdleLimit: a call that waits for its client too long is cancelled.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace grpc {
class ServerContext;
}

namespace foreshock::control {

// For one call, whose context must outlive it; a thread of its own. gRPC's blocking reads and writes have no
// deadline, so a client that keeps still would hold its call for ever.
class IdleLimit {
 public:
  IdleLimit(grpc::ServerContext* context, std::chrono::milliseconds limit);
  ~IdleLimit();

  // What one read or write says; false also when it took longer than the limit, and the call is cancelled.
  template <typename Wait>
  bool Allows(Wait&& wait) {
    SetDeadline(std::chrono::steady_clock::now() + limit_);
    const bool went_well = wait();
    SetDeadline(std::nullopt);
    return went_well && !expired_;
  }
  bool expired() const { return expired_; }

 private:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  void SetDeadline(Deadline deadline);
  void Run();

  grpc::ServerContext& context_;
  const std::chrono::milliseconds limit_;
  std::atomic<bool> expired_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Deadline deadline_;  // of the wait at hand
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace foreshock::control
