// Replay over excerpts of real runs (tests/data): the critical comes in the right head while the loss is
// calm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "foreshock/cli/replay.h"

namespace foreshock::cli {
namespace {

std::string PlayFile(const std::string& name) {
  const char* source = std::getenv("FORESHOCK_SOURCE_DIR");
  const std::string path = std::string(source ? source : ".") + "/cli/replay/tests/data/" + name;
  std::ostringstream out, err;
  EXPECT_EQ(RunReplay({.path = path, .json = true, .disabled_rules = {}}, out, err), 0) << err.str();
  return out.str();
}

// The first line that holds all of these parts; empty without one.
std::string LineWith(const std::string& text, std::initializer_list<std::string> parts) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    bool all = true;
    for (const std::string& part : parts) all = all && line.find(part) != std::string::npos;
    if (all) return line;
  }
  return "";
}

int StepOf(const std::string& line) {
  const size_t at = line.find("\"step\":");
  return at == std::string::npos ? -1 : std::atoi(line.c_str() + at + 7);
}

TEST(RecordedRuns, RunawayIsNamedAThousandStepsBeforeTheCollapse) {
  const std::string out = PlayFile("collapse_excerpt.jsonl");
  const std::string line = LineWith(out, {"firing", "qk_runaway", "critical"});
  ASSERT_FALSE(line.empty()) << out;
  EXPECT_NE(line.find("\"layer\":1,\"head\":1"), std::string::npos) << line;
  EXPECT_GE(StepOf(line), 1000);
  EXPECT_LE(StepOf(line), 1240);
  EXPECT_TRUE(LineWith(out, {"resolved", "qk_runaway", "critical"}).empty()) << out;
  EXPECT_TRUE(LineWith(out, {"loss_divergence"}).empty()) << out;
}

TEST(RecordedRuns, ErrorsOfRandomSignWarnBeforeAnyEffect) {
  const std::string out = PlayFile("noise_excerpt.jsonl");
  EXPECT_TRUE(LineWith(out, {"rounding_bias", "critical"}).empty()) << out;
  const std::string line = LineWith(out, {"firing", "rounding_bias", "warning"});
  ASSERT_FALSE(line.empty()) << out;
  EXPECT_GE(StepOf(line), 1000);
  EXPECT_LE(StepOf(line), 1120);
}

TEST(RecordedRuns, ContainedRunEndsWithoutACritical) {
  const std::string out = PlayFile("contained_excerpt.jsonl");
  std::istringstream lines(out);
  int open = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"critical\"") == std::string::npos) continue;
    open += line.find("\"firing\"") != std::string::npos ? 1 : -1;
  }
  EXPECT_EQ(open, 0) << out;
}

}  // namespace
}  // namespace foreshock::cli
