#include "commands.h"
#include "foreshock/base/advice.h"
#include "foreshock/base/logging.h"
#include "foreshock/base/socket.h"
#include "process.h"

namespace foreshock::agent {
namespace {

constexpr std::string_view kComponent = "agent";
constexpr int kTickMs = 1000;

int Fail(const Status& status) {
  LogError(kComponent, "cannot start", {{"error", status}});
  if (const std::string advice = AdviceFor(status); !advice.empty()) LogError(kComponent, advice);
  return status.code() == Code::kFailedPrecondition ? kExitAlreadyRunning : kExitFailure;
}

// Until a signal, or until it was idle long enough.
void ServeUntilTold(Agent& agent, const CommandLine& line) {
  int64_t idle_since_ns = 0;
  bool status_failed = false;
  for (;;) {
    const Status written = agent.WriteStatus();
    if (!written.ok() && !status_failed)
      LogWarning(kComponent, "cannot write the status file", {{"error", written}});
    status_failed = !written.ok();
    if (const int signal = WaitForStopSignal(kTickMs); signal != 0) {
      LogInfo(kComponent, "stopping", {{"signal", signal}});
      return;
    }
    const int64_t now_ns = SystemClock::Instance().MonotonicNanos();
    if (line.idle_exit_s == 0 || !agent.Idle()) {
      idle_since_ns = now_ns;
    } else if (idle_since_ns == 0) {
      idle_since_ns = now_ns;
    } else if (now_ns - idle_since_ns >= line.idle_exit_s * 1'000'000'000) {
      LogInfo(kComponent, "idle, ending", {{"seconds", line.idle_exit_s}});
      return;
    }
  }
}

}  // namespace

int RunAgent(const CommandLine& line) {
  if (!line.log_file.empty()) {
    if (const Status status = RedirectStderr(line.log_file); !status.ok()) return Fail(status);
  }
  SetLogLevel(ParseLogLevel(line.log_level).value());
  BlockStopSignals();
  LiftFileLimit();
  auto agent = Agent::New(PosixFileSystem(), line.agent);
  if (!agent.ok()) return Fail(agent.status());
  if (const Status status = (*agent)->Start(); !status.ok()) return Fail(status);
  ServeUntilTold(**agent, line);
  (*agent)->Stop();
  return kExitOk;
}

}  // namespace foreshock::agent
