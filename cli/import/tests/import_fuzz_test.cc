// Altered logs of every format: read or refused with a reason, never a crash; and what is read can be written
// and read again.
#include <gtest/gtest.h>

#include <random>

#include "foreshock/cli/import.h"
#include "tfevents_file.h"

namespace foreshock::cli {
namespace {

constexpr uint64_t kSeed = 8;
constexpr int kRounds = 4000;

std::vector<std::string> Seeds() {
  return {"step,loss,\"logit_max[0,1]\"\n0,5.5,1\n10,nan,2\n5,3,\"4\"\n",
          "{\"step\":1,\"train\":{\"loss\":2}}\n{\"step\":2,\"loss\":NaN}\n",
          "{\"log_history\":[{\"step\":1,\"loss\":2,\"grad_norm\":Infinity},{\"step\":3,\"loss\":1}]}",
          test::VersionEvent() + test::ScalarEvent(1, 2, {{"loss", 3}}) +
              test::ScalarEvent(2, 3, {{"loss", 4, test::Scalar::Form::kDoubleVal}})};
}

std::string Alter(std::string text, std::mt19937_64* random) {
  for (int i = 0; i < 1 + static_cast<int>((*random)() % 5); ++i) {
    const size_t at = (*random)() % (text.size() + 1);
    switch ((*random)() % 4) {
      case 0:
        text.erase(at, (*random)() % 10);
        break;
      case 1:
        text.insert(at, 1, static_cast<char>((*random)()));
        break;
      case 2:
        text.insert(at, text.substr(at / 2, 8));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>((*random)());
    }
  }
  return text;
}

TEST(ImportFuzz, AlteredLogsNeverCrash) {
  std::mt19937_64 random(kSeed);
  const auto seeds = Seeds();
  int read = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto imported = ReadLog(Alter(seeds[random() % seeds.size()], &random), "log", {});
    if (!imported.ok()) {
      ++refused;
      EXPECT_FALSE(imported.status().message().empty());
      continue;
    }
    ++read;
    int64_t frames = 0;
    std::vector<std::string> warnings;
    const Status status = wire::ReadFramedRecording(
        ToRecording(*imported, "x.fsk"),
        [&](wire::RecordingItem item) { frames += std::holds_alternative<wire::Frame>(item) ? 1 : 0; },
        &warnings);
    EXPECT_TRUE(status.ok()) << "seed " << kSeed << " round " << round << ": " << status.ToString();
    EXPECT_EQ(frames, imported->frames) << "seed " << kSeed << " round " << round;
  }
  EXPECT_GT(read, kRounds / 20);
  EXPECT_GT(refused, kRounds / 20);
}

}  // namespace
}  // namespace foreshock::cli
