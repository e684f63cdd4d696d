// The command line of foreshock-agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "foreshock/agent/agent.h"

namespace foreshock::agent {

// Exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitAlreadyRunning = 3;

struct CommandLine {
  enum class Command { kRun, kSpool, kDiscard };
  Command command = Command::kRun;
  AgentOptions agent;
  std::string log_level = "info";
  std::string log_file;     // empty: stderr
  int64_t idle_exit_s = 0;  // 0: never
  bool json = false;        // of `spool`
  std::string discard_run;  // of `spool`: give up what this run has there
  std::string reason;       // why
};

// Nothing when the process should end now (help, version, a mistake) with *exit_code.
std::optional<CommandLine> ParseCommandLine(int argc, char** argv, int* exit_code);

}  // namespace foreshock::agent
