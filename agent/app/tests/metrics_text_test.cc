#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "foreshock/agent/agent.h"

namespace foreshock::agent {
namespace {

bool Has(const std::string& text, const std::string& line) { return ("\n" + text).find("\n" + line + "\n") != std::string::npos; }

TEST(MetricsText, SaysWhatWasDroppedRetriedAndRefused) {
  AgentStats stats;
  stats.health = "ok";
  stats.spool.refused_share = 3;
  stats.receiver.dropped_by_trainers = 17;
  stats.forwarder.failures = 4;
  stats.forwarder.clock_skew_seconds = -0.25;
  const std::string text = MetricsText(stats);
  EXPECT_TRUE(Has(text, "foreshock_agent_healthy 1"));
  EXPECT_TRUE(Has(text, "foreshock_agent_spool_refused_share_total 3"));
  EXPECT_TRUE(Has(text, "foreshock_agent_receive_dropped_by_trainers_total 17"));
  EXPECT_TRUE(Has(text, "foreshock_agent_forward_failures_total 4"));
  EXPECT_TRUE(Has(text, "foreshock_agent_clock_skew_seconds -0.25"));
  EXPECT_TRUE(Has(text, "foreshock_gpus 0"));
  EXPECT_EQ(text.find("relay"), std::string::npos) << "only where there is one";
}

TEST(MetricsText, HasOneFamilyOfEachNameAndALineForEachGpu) {
  AgentStats stats;
  stats.relay_port = 1;
  for (uint32_t i = 0; i < 2; ++i) {
    Gpu gpu;
    gpu.index = i;
    gpu.uuid = "GPU-\"" + std::to_string(i);
    gpu.values["gpu_power_watts"] = 100 + i;
    gpu.xids = i;
    if (i == 1) gpu.throttled_by = {"hw_slowdown"};
    stats.device.gpus.push_back(gpu);
  }
  const std::string text = MetricsText(stats);
  EXPECT_TRUE(Has(text, R"(foreshock_gpu_power_watts{gpu="1",uuid="GPU-\"1"} 101)"));
  EXPECT_TRUE(Has(text, R"(foreshock_gpu_xid_errors{gpu="1",uuid="GPU-\"1"} 1)"));
  EXPECT_TRUE(Has(text, R"(foreshock_gpu_throttled{gpu="0",uuid="GPU-\"0"} 0)"));
  std::set<std::string> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE")) EXPECT_TRUE(types.insert(line).second) << line;
  }
  EXPECT_GT(types.size(), 35u);
}

}  // namespace
}  // namespace foreshock::agent
