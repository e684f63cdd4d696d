// Listens for a gRPC server and hands it the connections that it may take.
//
// gRPC 1.51 accepts whatever comes: whoever opens connections enough takes all descriptors of the process,
// and a gRPC that once found none left never accepts again. Here a host gets its share of a bounded number
// (base/shares), beyond it connections are reset at once, and where descriptors run out all the same,
// accepting goes on when there are some again.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "foreshock/base/refusals.h"
#include "foreshock/base/result.h"
#include "listeners.h"

namespace foreshock::rpc {

class Acceptor {
 public:
  // Owns `fd` from then on.
  using Take = std::function<void(int listener_fd, int fd)>;
  using TellRefused = std::function<void(const Refusals::Report& report)>;

  // Takes and says what ListenAt does (listeners.h).
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& address, int user_timeout_ms);
  ~Acceptor();  // stops
  Acceptor(const Acceptor&) = delete;

  // Begins to accept, on a thread of its own, at most `most` connections at a time. `tell` (empty: nobody) is
  // called there. Once.
  void Start(Take take, size_t most, TellRefused tell);
  // Accepts no more and does not listen any longer; connections that were handed on stay. Not thread-safe.
  void Stop();

  int port() const { return listeners_.port; }
  // Connections that were reset because there was no room, or none for their host.
  uint64_t refused() const { return refused_; }

 private:
  explicit Acceptor(Listeners listeners) : listeners_(std::move(listeners)) {}
  void Run(size_t most);

  Listeners listeners_;
  int wake_ = -1;  // an eventfd
  Take take_;
  TellRefused tell_;
  Refusals refusals_;  // the thread's
  std::thread thread_;
  std::atomic<uint64_t> refused_{0};
};

}  // namespace foreshock::rpc
