#include "foreshock/agent/agent.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "foreshock/base/logging.h"

namespace foreshock::agent {
namespace {

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel, std::string_view line) {
      std::lock_guard lock(mutex_);
      lines_ += std::string(line) + "\n";
    });
    std::string pattern = ::testing::TempDir() + "/fs_agent_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    options_.socket_path = dir_ + "/run/agent.sock";
    options_.spool_dir = dir_ + "/spool";
  }
  void TearDown() override {
    SetLogSink(nullptr);
    std::filesystem::remove_all(dir_);
  }
  std::unique_ptr<Agent> Make() { return Agent::New(PosixFileSystem(), options_).value(); }
  std::string Lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }
  nlohmann::json ReadStatus() {
    return nlohmann::json::parse(
        ReadWholeFile(PosixFileSystem(), options_.socket_path + ".status.json").value());
  }

  AgentOptions options_;
  std::string dir_;
  std::mutex mutex_;
  std::string lines_;
};

TEST_F(AgentTest, StartsWithoutAServerAndSaysSo) {
  auto agent = Make();
  ASSERT_TRUE(agent->Start().ok());
  EXPECT_NE(Lines().find("no server configured"), std::string::npos);
  ASSERT_TRUE(agent->WriteStatus().ok());
  auto status = ReadStatus();
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["health"], "no server configured: records stay in the spool");
  EXPECT_EQ(status["spool"]["limit_bytes"], uint64_t{16} << 30);
  agent->Stop();
  EXPECT_EQ(ReadStatus()["state"], "stopped");
  EXPECT_FALSE(std::filesystem::exists(options_.socket_path));
}

TEST_F(AgentTest, AWrongAddressIsOneClearLineAndNoFailure) {
  options_.forwarder.address = "not an address";
  auto agent = Make();
  ASSERT_TRUE(agent->Start().ok());
  EXPECT_NE(Lines().find("server unusable"), std::string::npos);
  EXPECT_NE(Lines().find("HOST:PORT"), std::string::npos);
}

TEST_F(AgentTest, ASecondOneIsRefusedAndTheFirstGoesOn) {
  auto first = Make();
  ASSERT_TRUE(first->Start().ok());
  auto second = Make();
  const Status refused = second->Start();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("agent.sock.lock"), std::string::npos);
  // Another socket, the same spool.
  options_.socket_path = dir_ + "/run/other.sock";
  EXPECT_EQ(Make()->Start().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/run/agent.sock"));
}

TEST_F(AgentTest, AFailedStartLeavesNothingBehind) {
  const std::string socket_path = options_.socket_path;
  options_.socket_path = dir_ + "/run/" + std::string(200, 'x');
  EXPECT_FALSE(Make()->Start().ok());
  options_.socket_path = socket_path;
  EXPECT_TRUE(Make()->Start().ok());  // the spool's lock is free
}

TEST_F(AgentTest, StopsAndStartsAgain) {
  auto agent = Make();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(agent->Start().ok());
    EXPECT_TRUE(agent->Idle());
    agent->Stop();
    agent->Stop();
  }
}

TEST_F(AgentTest, RefusesEmptyPaths) {
  options_.spool_dir.clear();
  EXPECT_EQ(Agent::New(PosixFileSystem(), options_).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace foreshock::agent
