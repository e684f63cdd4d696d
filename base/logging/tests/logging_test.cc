#include "foreshock/base/logging.h"

#include <gtest/gtest.h>

#include <regex>
#include <vector>

namespace foreshock {
namespace {

class LoggingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel level, std::string_view line) {
      levels_.push_back(level);
      lines_.emplace_back(line);
    });
  }
  void TearDown() override {
    SetLogSink(nullptr);
    SetLogLevel(LogLevel::kInfo);
  }
  std::vector<LogLevel> levels_;
  std::vector<std::string> lines_;
};

TEST_F(LoggingTest, WritesComponentMessageAndFields) {
  LogWarning("agent/spool", "disk full",
             {{"path", "/var/spool"}, {"bytes", uint64_t{12}}, {"share", 0.5}, {"retrying", true}});
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(levels_[0], LogLevel::kWarning);
  EXPECT_EQ(lines_[0], "agent/spool: disk full path=/var/spool bytes=12 share=0.5 retrying=true");
}

TEST_F(LoggingTest, ValuesCannotForgeLinesOrPairs) {
  LogInfo("x", "m", {{"run", "a b"}, {"evil", "\"\n2026 error"}, {"empty", ""}, {"eq", "a=b"}});
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], R"(x: m run="a b" evil="\"\n2026 error" empty="" eq="a=b")");
}

TEST_F(LoggingTest, LevelFilters) {
  LogDebug("x", "not at info");
  SetLogLevel(LogLevel::kError);
  LogWarning("x", "not at error");
  LogError("x", "shown");
  SetLogLevel(LogLevel::kOff);
  LogError("x", "not at off");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "x: shown");
}

TEST_F(LoggingTest, LevelsParse) {
  EXPECT_EQ(ParseLogLevel("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("loud").status().code(), Code::kInvalidArgument);
}

TEST(Logging, GoesToStderrWithTimeAndLevel) {
  ::testing::internal::CaptureStderr();
  LogError("server", "plain {} text", {{"n", 3}});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      text, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z error server: plain \{\} text n=3\n)")))
      << text;
}

}  // namespace
}  // namespace foreshock
