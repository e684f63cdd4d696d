// What a node's agent says of itself in its status file (docs/formats/agent_status.md). Private.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::cli {

// A run that the agent's server refuses.
struct RefusedRun {
  std::string run, attempt, reason;
  uint32_t rank = 0;
  uint64_t times = 0;
  bool final = false;  // not tried again
};

struct AgentStatus {
  std::string state;       // "running", "stopped"
  std::string health;      // "ok", or what is wrong in one line
  bool connected = false;  // to its server
  uint64_t pending = 0;    // records that wait for the server
  uint64_t spool_bytes = 0, spool_limit_bytes = 0;
  uint64_t dropped_by_trainers = 0, damaged = 0, rejected = 0, undeliverable = 0, lost = 0;
  std::vector<RefusedRun> refused;
  std::vector<std::string> others;  // what else was dropped, refused or tried again, and what the GPUs have; one line each
};

// kNotFound when there is no file, kDataLoss when it is not such a status.
Result<AgentStatus> ReadAgentStatus(const std::string& path);

// What an operator should know, one line each; empty when all is well.
std::vector<std::string> AgentFindings(const AgentStatus& status);

}  // namespace foreshock::cli
