#include "agent_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace foreshock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AgentStatusTest : public ::testing::Test {
 protected:
  ~AgentStatusTest() override { std::remove(path_.c_str()); }
  Result<AgentStatus> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadAgentStatus(path_);
  }
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("agent-status-" + std::to_string(getpid()) + ".json"))
          .string();
};

TEST_F(AgentStatusTest, ReadsWhatTheAgentWrites) {
  const auto status =
      Read(R"({"state":"running","health":"ok","spool":{"pending":3,"bytes":10,"limit_bytes":100},
      "receive":{"dropped_by_trainers":2},"forward":{"connected":false}})");
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(status->state, "running");
  EXPECT_EQ(status->pending, 3u);
  EXPECT_THAT(AgentFindings(*status), ElementsAre(HasSubstr("3 records wait for the server"),
                                                  HasSubstr("2 records dropped by trainers")));
}

TEST_F(AgentStatusTest, PendingRecordsAreNoFindingWhileConnected) {
  const auto status = Read(
      R"({"state":"running","health":"ok","spool":{"pending":3},"receive":{},"forward":{"connected":true}})");
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_THAT(AgentFindings(*status), IsEmpty());
}

TEST_F(AgentStatusTest, RefusedRunsAreNamedWithReasonAndCount) {
  const auto status = Read(
      R"({"state":"running","health":"the server refuses run 'a'","spool":{},"receive":{},"forward":{
      "connected":true,"refused":[{"run":"a","attempt":"t","rank":3,"reason":"run: bad","times":2,"final":true},
      {"run":"b","attempt":"u","rank":0,"reason":"run: the limit","times":1,"final":false}]}})");
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_THAT(
      AgentFindings(*status),
      ElementsAre("run 'a' attempt t rank 3: the server refuses it (2 times): run: bad; not tried again "
                  "until its trainer or the agent is started anew",
                  "run 'b' attempt u rank 0: the server refuses it (1 time): run: the limit"));
}

TEST_F(AgentStatusTest, TellsEveryDropRetryAndRefusalAndWhatTheGpusHave) {
  const auto status = Read(
      R"({"state":"running","health":"ok","spool":{"refused_limit":1,"refused_share":2,"refused_disk":3},
      "receive":{"stalled":4,"refused":5,"abandoned":6},"relay":{"refused":7,"stalled":8,"rejected":9},
      "forward":{"connected":true,"failures":10},
      "device":{"reason":"the driver does not answer since 20 s","warnings":["GPU 3: last Xid 79"],"gpus":[{}]}})");
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  const auto findings = AgentFindings(*status);
  ASSERT_EQ(findings.size(), 12u);
  for (int n = 1; n <= 10; ++n) EXPECT_TRUE(findings[n - 1].starts_with(std::to_string(n) + " ")) << findings[n - 1];
  EXPECT_EQ(findings[10], "GPU 3: last Xid 79");
  EXPECT_EQ(findings[11], "GPUs: the driver does not answer since 20 s");
}

TEST_F(AgentStatusTest, ANodeWithoutGpusIsNoFinding) {
  const auto status = Read(
      R"({"state":"running","health":"ok","spool":{},"receive":{},"relay":null,"forward":{"connected":true},
      "device":{"reason":"libnvidia-ml.so.1: cannot open","warnings":[],"gpus":[]}})");
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_THAT(AgentFindings(*status), IsEmpty());
}

TEST_F(AgentStatusTest, MissingAndBroken) {
  EXPECT_EQ(ReadAgentStatus("/no/such/status").status().code(), Code::kNotFound);
  EXPECT_EQ(Read("{\"state\":").status().code(), Code::kDataLoss);
  EXPECT_EQ(Read("[]").status().code(), Code::kDataLoss);
  EXPECT_EQ(Read(R"({"state":1,"health":"ok","forward":{}})").status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace foreshock::cli
