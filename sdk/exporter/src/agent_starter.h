// Starts an agent on demand, once per loss of the link: posix_spawn of an absolute path, in its own session,
// with no signal blocked and no descriptor inherited. A lock file beside the socket lets one of a node's
// ranks do it.
#pragma once

#include <string>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::sdk {

struct AgentOptions {
  bool start = false;
  std::string path;  // absolute
  std::vector<std::string> arguments;
};

class AgentStarter {
 public:
  explicit AgentStarter(AgentOptions options) : options_(std::move(options)) {}
  ~AgentStarter();

  // Spawns PATH --listen unix:SOCKET ARGUMENTS. Ok when it runs, or when another process is starting one.
  // kFailedPrecondition where the options do not allow it.
  Status Start(const std::string& socket_path);
  // Collects an agent that has ended, so that it does not stay a zombie of the trainer.
  void Reap() noexcept;

 private:
  Status Spawn(const std::string& socket_path);

  AgentOptions options_;
  int lock_fd_ = -1;
  int pid_ = -1;
};

}  // namespace foreshock::sdk
