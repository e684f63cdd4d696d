// Altered scenario files: an error, or a played scenario; never a crash, never a long wait.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "foreshock/server/scenario/scenario.h"

namespace foreshock::scenario {
namespace {

constexpr uint64_t kSeed = 1129;
constexpr int kRounds = 1000;

// Short files, so that playing them costs little.
constexpr std::string_view kSeeds[] = {
    "every: 10\nhealthy: true\nmodel: {layers: 1, heads: 2, head_dim: 8}\nscenarios:\n  - name: a\n    "
    "until: 100\n"
    "    series: {loss: \"3~1x5 ok NaN\", \"logit_max[0,1]\": {values: \"okx3 ok*1..2x4 _\", noise: 1}}\n"
    "    events: [{step: 20, kind: phase, layer: 0, detail: x}, {step: 30, silent_seconds: 500}]\n"
    "    expect: [{rule: non_finite, severity: critical, fires: 1..60, at_end: firing}]\n",
    "scenarios:\n  - {name: b, series: {loss: 1x20, grad_norm: 2}, nothing_else: true}\n"};

TEST(ScenarioFuzz, AlteredFilesNeverCrash) {
  static constexpr std::string_view kPieces[] = {"\n", ": ", "{",   "}",  "[",  "]",    "x9", "-1", "1e9",
                                                 "~",  "..", "&a ", "*a", "\"", "\xff", "\t", "9",  "ok*"};
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text(kSeeds[random() % std::size(kSeeds)]);
    for (int i = 0; i < 1 + static_cast<int>(random() % 4); ++i) {
      const size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0) {
        text.insert(at, kPieces[random() % std::size(kPieces)]);
      } else {
        text.erase(at, random() % 8);
      }
    }
    // A digit more makes a scenario of a million samples: right, but slow.
    if (text.find("999") != std::string::npos || text.find("1e9") != std::string::npos) continue;
    const Report report = RunScenarios(text, nullptr);
    EXPECT_TRUE(report.errors.empty() || report.outcomes.empty()) << "seed " << kSeed << " round " << round;
    refused += report.errors.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, kRounds / 4);
}

}  // namespace
}  // namespace foreshock::scenario
