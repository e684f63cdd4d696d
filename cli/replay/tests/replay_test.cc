#include "foreshock/cli/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace foreshock::cli {
namespace {

struct Played {
  int exit_status;
  std::string out, err;
};

Played Play(const std::string& recording, bool json = true) {
  const std::string path = testing::TempDir() + "foreshock_replay_" +
                           testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
  std::ofstream(path, std::ios::binary) << recording;
  std::ostringstream out, err;
  const int exit_status = RunReplay({.path = path, .json = json, .disabled_rules = {}}, out, err);
  return {exit_status, out.str(), err.str()};
}

constexpr char kHeader[] = "{\"run\":\"a\",\"layers\":1,\"heads\":2}\n";

TEST(Replay, PrintsOneJsonLineAnEvent) {
  const Played played = Play(std::string(kHeader) + "{\"step\":0,\"loss\":4}\n{\"step\":20,\"loss\":null}\n");
  EXPECT_EQ(played.exit_status, 0) << played.err;
  EXPECT_EQ(
      played.out,
      "{\"event\":\"firing\",\"rule\":\"non_finite\",\"severity\":\"critical\",\"run\":\"a\",\"step\":20,"
      "\"layer\":null,\"head\":null,\"value\":\"NaN\",\"summary\":\"loss is NaN\"}\n");
}

TEST(Replay, TableEndsWithWhatStillFires) {
  const Played played =
      Play(std::string(kHeader) + "{\"step\":0,\"loss\":4}\n{\"step\":20,\"loss\":null}\n", false);
  EXPECT_NE(played.out.find("2 steps; 1 alert fires at the end"), std::string::npos) << played.out;
}

TEST(Replay, CorruptLineIsADataErrorWithItsNumber) {
  const Played played =
      Play(std::string(kHeader) + "{\"step\":0,\"loss\":4}\nrubbish\n{\"step\":20,\"loss\":4}\n");
  EXPECT_EQ(played.exit_status, 2);
  EXPECT_NE(played.err.find("line 3"), std::string::npos) << played.err;
}

TEST(Replay, TornLastLineIsOnlyAWarning) {
  const Played played = Play(std::string(kHeader) + "{\"step\":0,\"loss\":4}\n{\"step\":20,\"lo");
  EXPECT_EQ(played.exit_status, 0);
  EXPECT_NE(played.err.find("torn"), std::string::npos) << played.err;
}

TEST(Replay, MissingFileIsADataError) {
  std::ostringstream out, err;
  EXPECT_EQ(RunReplay({.path = "/nonexistent/run.jsonl", .json = true, .disabled_rules = {}}, out, err), 2);
  EXPECT_NE(err.str().find("/nonexistent/run.jsonl"), std::string::npos);
}

TEST(Replay, WildStepDoesNotBlockWhatFollows) {
  const Played played =
      Play(std::string(kHeader) +
           "{\"step\":0,\"loss\":4}\n{\"step\":1000000000,\"loss\":4}\n{\"step\":20,\"loss\":null}\n");
  EXPECT_EQ(played.exit_status, 0);
  EXPECT_NE(played.err.find("wild"), std::string::npos);
  EXPECT_NE(played.out.find("\"step\":20,"), std::string::npos);
}

TEST(Replay, UnknownRuleNameIsAUsageError) {
  std::ostringstream out, err;
  EXPECT_EQ(RunReplay({.path = "x", .json = true, .disabled_rules = {"no_such_rule"}}, out, err), 3);
}

}  // namespace
}  // namespace foreshock::cli
