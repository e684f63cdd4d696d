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
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::rpc {

class Acceptor {
 public:
  // Owns `fd` from then on.
  using Take = std::function<void(int listener_fd, int fd)>;

  // HOST:PORT, port 0: any free one. A name is resolved; 0.0.0.0 and [::] mean all addresses, IPv6 included
  // where there is any. kInvalidArgument for what is no such address; kUnavailable when it cannot be listened
  // on. `user_timeout_ms`: how long sent bytes may stay unconfirmed before a connection counts as dead.
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& address, int user_timeout_ms);
  ~Acceptor();  // stops
  Acceptor(const Acceptor&) = delete;

  // Begins to accept, on a thread of its own, at most `most` connections at a time. Once.
  void Start(Take take, size_t most);
  // Accepts no more and does not listen any longer; connections that were handed on stay. Not thread-safe.
  void Stop();

  int port() const { return port_; }
  // Connections that were reset because their host had its share.
  uint64_t refused() const { return refused_; }

 private:
  Acceptor() = default;
  Status Bind(const std::string& host, int port, int user_timeout_ms);
  void Run(size_t most);

  std::vector<int> listeners_;
  int wake_ = -1;  // an eventfd
  int port_ = 0;
  Take take_;
  std::thread thread_;
  std::atomic<uint64_t> refused_{0};
};

}  // namespace foreshock::rpc
