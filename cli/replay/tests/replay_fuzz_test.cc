// Damaged recordings, both kinds: replay ends with 0 or 2, never in a crash, and says something when it ends
// with 2. Seeds are printed on failure; set FORESHOCK_FUZZ_SEEDS for more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "foreshock/cli/replay.h"
#include "foreshock/tests/environment.h"
#include "foreshock/wire/record.h"
#include "foreshock/wire/recording.h"

namespace foreshock::cli {
namespace {

std::string TextRecording() {
  std::string text = "{\"run\":\"a\",\"format\":2,\"layers\":1,\"heads\":2,\"head_dim\":16}\n";
  for (int step = 0; step < 1600; step += 20) {
    text += "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(2 + step % 7 * 0.01) +
            ",\"wq_sigma1\":[[1.5,\"NaN\"]],\"logit_max\":[[" + std::to_string(step) + ",null]]," +
            "\"saturated_row_fraction\":[[0.5,0.25]],\"saturated_row_fraction_weight\":[[10,20]]}\n";
    if (step % 400 == 0) text += "{\"step\":" + std::to_string(step) + ",\"event\":\"checkpoint\"}\n";
  }
  return text;
}

std::string FramedRecording() {
  wire::Hello hello;
  hello.run = "a";
  hello.attempt = "1";
  hello.model.layers = {{0, "l", 2, 2, 16, 0.25f, 0, false, false}};
  std::string bytes;
  wire::AppendRecord(wire::RecordType::kHello, wire::Encode(hello), &bytes);
  for (int step = 0; step < 400; step += 10) {
    wire::Frame frame;
    frame.seq = static_cast<uint64_t>(step + 1);
    frame.step = step;
    frame.series.resize(2);
    frame.series[0].signal = 1;  // loss
    frame.series[0].values = {2.5f};
    frame.series[1].signal = 32;  // wq_sigma1
    frame.series[1].layer = 0;
    frame.series[1].heads = {0, 1};
    frame.series[1].values = {1.5f, 2.5f};
    wire::AppendRecord(wire::RecordType::kFrame, wire::Encode(frame), &bytes);
  }
  return bytes;
}

std::string Damage(std::string bytes, std::mt19937_64* random) {
  const int edits = 1 + static_cast<int>((*random)() % 4);
  for (int i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = (*random)() % bytes.size();
    switch ((*random)() % 5) {
      case 0:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        bytes.erase(at, 1 + (*random)() % 40);
        break;
      case 2:
        bytes.insert(at, std::string(1 + (*random)() % 8, "0123456789[]{},\"-e.\n"[(*random)() % 20]));
        break;
      case 3:
        bytes.resize(at);
        break;
      default:
        bytes.insert(at, bytes.substr((*random)() % bytes.size(), (*random)() % 200));
        break;
    }
  }
  return bytes;
}

void PlayDamaged(const std::string& bytes, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string path = testing::TempDir() + "foreshock_replay_fuzz.rec";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::ostringstream out, err;
  const int exit_status = RunReplay({.path = path, .json = true, .disabled_rules = {}}, out, err);
  EXPECT_TRUE(exit_status == 0 || exit_status == 2) << exit_status;
  EXPECT_TRUE(exit_status == 0 || !err.str().empty());
}

TEST(ReplayFuzz, DamagedRecordingsNeverCrash) {
  const uint64_t count = tests::NumberFromEnvironment("FORESHOCK_FUZZ_SEEDS", 150);
  for (uint64_t seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(seed);
    PlayDamaged(Damage(seed % 2 == 0 ? TextRecording() : FramedRecording(), &random), seed);
  }
}

TEST(ReplayFuzz, CanaryUndamagedRecordingsPlay) {
  std::ostringstream out, err;
  for (const std::string& bytes : {TextRecording(), FramedRecording()}) {
    const std::string path = testing::TempDir() + "foreshock_replay_canary.rec";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_EQ(RunReplay({.path = path, .json = true, .disabled_rules = {}}, out, err), 0) << err.str();
  }
  EXPECT_TRUE(err.str().empty()) << err.str();
}

}  // namespace
}  // namespace foreshock::cli
