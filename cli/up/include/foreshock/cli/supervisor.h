// Runs a few programs as children and ends them together. Restarts none: a child that ends brings the others
// down, and its end is told.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::cli {

struct ChildSpec {
  std::string name;               // for messages
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::string ready_file;         // the child writes it when it is ready; removed before it starts
};

// One at a time in a process: it takes SIGINT, SIGTERM, SIGHUP and SIGCHLD for itself while it lives. Not
// thread-safe. Children get SIGTERM when this process dies (Linux), and only ever signals by their own pid.
class Supervisor {
 public:
  struct Options {
    std::chrono::milliseconds ready_timeout{30'000};
    std::chrono::milliseconds stop_timeout{10'000};  // after SIGTERM; then SIGKILL
  };

  Supervisor(Options options, std::ostream& log);
  ~Supervisor();  // stops what still runs
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts a child and waits until it is ready. kUnavailable when it ended before, or was not ready in time;
  // kIo when it could not be started; kFailedPrecondition when a signal came meanwhile.
  Status Start(const ChildSpec& spec);

  // Waits for a signal or for the end of a child. Ok after SIGINT, SIGTERM or SIGHUP; kUnavailable naming the
  // child that ended and how.
  Status Wait();

  // SIGTERM to each child, the last started first, waiting for each; SIGKILL after stop_timeout.
  void Stop();

 private:
  struct Child {
    std::string name;
    pid_t pid = -1;
  };
  // Takes one pending signal, waiting up to `wait`: 0 when none came.
  int TakeSignal(std::chrono::milliseconds wait);
  // Name and end of a child that has ended; empty when all run.
  std::string Reap();
  bool Ended(pid_t pid, std::chrono::milliseconds wait);

  Options options_;
  std::ostream& log_;
  std::vector<Child> children_;
  sigset_t old_mask_;
};

}  // namespace foreshock::cli
