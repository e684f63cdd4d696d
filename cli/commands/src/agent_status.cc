#include "agent_status.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace foreshock::cli {
namespace {

uint64_t Count(const nlohmann::json& object, const char* part, const char* name) {
  const auto at = object.find(part);
  return at != object.end() && at->is_object() ? at->value(name, uint64_t{0}) : 0;
}

std::vector<RefusedRun> Refused(const nlohmann::json& forward) {
  std::vector<RefusedRun> refused;
  for (const nlohmann::json& entry : forward.value("refused", nlohmann::json::array())) {
    refused.push_back({entry.at("run").get<std::string>(), entry.value("attempt", std::string()),
                       entry.value("reason", std::string()), entry.value("rank", 0u),
                       entry.value("times", uint64_t{0}), entry.value("final", false)});
  }
  return refused;
}

struct Counted {
  const char* part;
  const char* name;
  const char* what;
};
// Beside those that are told apart in AgentStatus.
constexpr Counted kCounted[] = {
    {"spool", "refused_limit", "batches waited because the spool was at its limit"},
    {"spool", "refused_share", "batches waited because their run had its share of the spool"},
    {"spool", "refused_disk", "batches waited because the disk was full or failing"},
    {"receive", "stalled", "trainers wait for the spool now"},
    {"receive", "refused", "connections of trainers turned away"},
    {"receive", "abandoned", "last records of trainers that had gone were given up for lack of space"},
    {"relay", "refused", "streams of other agents refused"},
    {"relay", "stalled", "streams of other agents closed because the spool took nothing"},
    {"relay", "rejected", "records of other agents rejected"},
    {"forward", "failures", "streams to the server broke or did not come about, and were tried again"}};

std::vector<std::string> Others(const nlohmann::json& object) {
  std::vector<std::string> lines;
  for (const Counted& counted : kCounted) {
    const uint64_t n = Count(object, counted.part, counted.name);
    if (n > 0) lines.push_back(std::to_string(n) + " " + counted.what);
  }
  const auto device = object.find("device");
  if (device == object.end() || !device->is_object()) return lines;
  for (const nlohmann::json& warning : device->value("warnings", nlohmann::json::array())) {
    lines.push_back(warning.get<std::string>());
  }
  // A node without GPUs is no finding; one whose driver fell silent is.
  const std::string reason = device->value("reason", std::string());
  if (!reason.empty() && !device->value("gpus", nlohmann::json::array()).empty()) lines.push_back("GPUs: " + reason);
  return lines;
}

}  // namespace

Result<AgentStatus> ReadAgentStatus(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status(Code::kNotFound, "agent status file " + path);
  try {
    const nlohmann::json object = nlohmann::json::parse(in);
    AgentStatus status;
    status.state = object.at("state").get<std::string>();
    status.health = object.at("health").get<std::string>();
    status.connected = object.at("forward").value("connected", false);
    status.pending = Count(object, "spool", "pending");
    status.spool_bytes = Count(object, "spool", "bytes");
    status.spool_limit_bytes = Count(object, "spool", "limit_bytes");
    status.lost = Count(object, "spool", "lost");
    status.dropped_by_trainers = Count(object, "receive", "dropped_by_trainers");
    status.damaged = Count(object, "receive", "damaged");
    status.rejected = Count(object, "receive", "rejected");
    status.undeliverable = Count(object, "forward", "undeliverable");
    status.refused = Refused(object.at("forward"));
    status.others = Others(object);
    return status;
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kDataLoss, path + ": " + error.what());
  }
}

std::vector<std::string> AgentFindings(const AgentStatus& status) {
  std::vector<std::string> findings;
  // A refusal is told below, run by run.
  if (status.health != "ok" && status.refused.empty()) findings.push_back(status.health);
  for (const RefusedRun& run : status.refused) {
    findings.push_back("run '" + run.run + "' attempt " + run.attempt + " rank " + std::to_string(run.rank) +
                       ": the server refuses it (" + std::to_string(run.times) +
                       (run.times == 1 ? " time): " : " times): ") + run.reason +
                       (run.final ? "; not tried again until its trainer or the agent is started anew" : ""));
  }
  const auto count = [&](uint64_t n, const char* what) {
    if (n > 0) findings.push_back(std::to_string(n) + " records " + what);
  };
  if (!status.connected) count(status.pending, "wait for the server, which is not connected");
  count(status.dropped_by_trainers, "dropped by trainers before they reached the agent");
  count(status.damaged, "arrived damaged");
  count(status.rejected, "rejected");
  count(status.undeliverable, "refused by the server for good");
  count(status.lost, "lost from the spool");
  findings.insert(findings.end(), status.others.begin(), status.others.end());
  return findings;
}

}  // namespace foreshock::cli
