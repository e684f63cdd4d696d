// What the writer can write, the reader reads; and whatever happens to the bytes, it ends with frames of the
// header's shape or an error. FORESHOCK_FUZZ_SEED and FORESHOCK_FUZZ_RUNS widen the search.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <random>

#include "foreshock/base/catalogue.h"
#include "foreshock/jsonl/text_recording.h"
#include "foreshock/tests/environment.h"
#include "foreshock/wire/codec.h"

namespace foreshock::jsonl {
namespace {

wire::Hello SmallHello() {
  wire::Hello hello;
  hello.run = "r \xff\"\\\n\xE2\x82";
  hello.incarnation = 0xFEDCBA9876543210u;
  hello.model.layers = {{0, "a", 3, 1, 16, 0.25f, 0, false, false}};
  hello.unmonitored = {{"layer 1", "reason \xC0"}};
  return hello;
}

wire::Frame SmallFrame(int64_t step, std::vector<float> values) {
  wire::Frame frame;
  frame.step = step;
  frame.seq = UINT64_MAX;
  frame.window_from = step - 1;
  frame.dropped_before = 3;
  wire::Series series;
  series.signal = kLogitMax;
  series.layer = 0;
  series.heads = {0, 1, 2};
  series.values = std::move(values);
  frame.series = {series};
  return frame;
}

std::vector<wire::RecordingItem> ReadItems(const std::string& text, Status* status) {
  std::vector<wire::RecordingItem> items;
  std::vector<std::string> warnings;
  *status = ReadTextRecording(
      text, [&](wire::RecordingItem item) { items.push_back(std::move(item)); }, &warnings);
  return items;
}

TEST(TextRecordingFuzz, ExtremesComeBack) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  wire::Event event;
  event.step = INT64_MAX;
  event.kind = wire::EventKind::kAction;
  event.detail = std::string("a\0b\xff", 4);
  event.logit_before = kInf;
  event.logit_after = -0.0f;
  std::string text = wire::JsonlHeader(SmallHello()) + wire::JsonlLine(event);
  const std::vector<int64_t> steps = {0, 999999999, INT64_MAX};
  const std::vector<float> values = {-0.0f, -kInf, std::numeric_limits<float>::denorm_min()};
  for (const int64_t step : steps) text += wire::JsonlLine(SmallHello(), SmallFrame(step, values));
  Status status;
  const auto items = ReadItems(text, &status);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(items.size(), 2 + steps.size());
  EXPECT_EQ(std::get<wire::Hello>(items[0]).incarnation, SmallHello().incarnation);
  const auto& read = std::get<wire::Event>(items[1]);
  EXPECT_EQ(read.step, INT64_MAX);
  EXPECT_EQ(read.logit_before, kInf);
  ASSERT_TRUE(read.logit_after.has_value());
  EXPECT_TRUE(std::signbit(*read.logit_after));
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& frame = std::get<wire::Frame>(items[2 + i]);
    const wire::Frame written = SmallFrame(steps[i], values);
    EXPECT_EQ(frame.step, written.step);
    EXPECT_EQ(frame.seq, written.seq);
    EXPECT_EQ(frame.window_from, written.window_from);
    EXPECT_EQ(frame.dropped_before, written.dropped_before);
    ASSERT_EQ(frame.series.size(), 1u);
    EXPECT_EQ(frame.series[0].values, values);
    EXPECT_TRUE(std::signbit(frame.series[0].values[0]));
  }
}

TEST(TextRecordingFuzz, RandomDamage) {
  std::string good = wire::JsonlHeader(SmallHello());
  for (int64_t step = 0; step < 4; ++step) {
    good += wire::JsonlLine(SmallHello(), SmallFrame(step, {1.5f, -2, 3e8f}));
  }
  wire::Goodbye goodbye;
  good += wire::JsonlLine(goodbye);
  const std::string_view replacements = "{}[]\",:0-9e.nulltrue\\\x80";
  const uint64_t first = tests::NumberFromEnvironment("FORESHOCK_FUZZ_SEED", 1);
  const uint64_t runs = tests::NumberFromEnvironment("FORESHOCK_FUZZ_RUNS", 4000);
  std::cout << "seeds " << first << " to " << first + runs - 1 << "\n";
  size_t refused = 0;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = good;
    for (uint64_t n = 1 + random() % 4; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      const size_t length = random() % 6;
      const char with = replacements[random() % replacements.size()];
      random() % 3 == 0 ? text.erase(at, length)
                        : text.replace(at, std::min(length, text.size() - at), random() % 3, with);
    }
    Status status;
    const auto items = ReadItems(text, &status);
    refused += status.ok() ? 0 : 1;
    EXPECT_EQ(status.ok(), status.message().empty()) << "seed " << seed;
    for (const auto& item : items) {
      const auto* frame = std::get_if<wire::Frame>(&item);
      if (frame == nullptr) continue;
      for (const wire::Series& series : frame->series) {
        ASSERT_EQ(series.values.size(), series.count()) << "seed " << seed;
      }
      ASSERT_TRUE(wire::DecodeFrame(wire::Encode(*frame)).ok()) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, runs / 4);
}

}  // namespace
}  // namespace foreshock::jsonl
