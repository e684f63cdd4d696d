#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/cli/import.h"
#include "tfevents_file.h"

namespace foreshock::cli {
namespace {

using test::Record;
using test::Scalar;
using test::ScalarEvent;
using test::VersionEvent;

std::vector<wire::Frame> Frames(const Imported& imported) {
  std::vector<wire::Frame> frames;
  for (const auto& item : imported.items) {
    if (const auto* frame = std::get_if<wire::Frame>(&item)) frames.push_back(*frame);
  }
  return frames;
}

TEST(Tfevents, EveryFormOfAScalarIsRead) {
  std::string file = VersionEvent();
  using Form = Scalar::Form;
  int64_t step = 0;
  for (const Form form :
       {Form::kSimple, Form::kFloatVal, Form::kDoubleVal, Form::kFloatContent, Form::kDoubleContent}) {
    ++step;
    file += ScalarEvent(step, 1.7e9, {{"train/loss", 1.5 * static_cast<double>(step), form}});
  }
  const auto imported = ReadLog(file, "events.out.tfevents.1", {});
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  const auto frames = Frames(*imported);
  ASSERT_EQ(frames.size(), 5u);
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(frames[i].series.at(0).values.at(0), 1.5f * static_cast<float>(i + 1));
    EXPECT_EQ(frames[i].time_unix_ns, 1'700'000'000'000'000'000u);
  }
}

TEST(Tfevents, ScalarsOfOneStepComeTogetherAndOtherKindsAreLeftOut) {
  const std::string file = VersionEvent() + ScalarEvent(7, 1, {{"loss", 2}, {"accuracy", 0.5}}) +
                           ScalarEvent(7, 1, {{"lr", std::nan("")}});
  const auto imported = ReadLog(file, "x", {});
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  const auto frames = Frames(*imported);
  ASSERT_EQ(frames.size(), 1u);
  ASSERT_EQ(frames[0].series.size(), 2u);
  EXPECT_TRUE(std::isnan(frames[0].series[1].values[0]));
  EXPECT_EQ(imported->columns_left_out, std::vector<std::string>{"accuracy"});
}

TEST(Tfevents, DamageIsAnErrorWithItsPlaceAndATornTailAWarning) {
  const std::string first = VersionEvent() + ScalarEvent(1, 1, {{"loss", 2}});
  const std::string second = ScalarEvent(2, 1, {{"loss", 3}});
  for (size_t cut = 1; cut < second.size(); ++cut) {
    const auto torn = ReadLog(first + second.substr(0, cut), "x", {});
    ASSERT_TRUE(torn.ok()) << cut << torn.status().ToString();
    EXPECT_EQ(Frames(*torn).size(), 1u);
    ASSERT_EQ(torn->warnings.size(), 1u);
    EXPECT_NE(torn->warnings[0].find("torn"), std::string::npos);
  }
  for (size_t at = 0; at < second.size(); ++at) {
    std::string damaged = first + second;
    damaged[first.size() + at] = static_cast<char>(damaged[first.size() + at] ^ 0x10);
    const auto result = ReadLog(damaged, "x", {});
    ASSERT_FALSE(result.ok()) << at;
    EXPECT_NE(result.status().message().find("record 2 at byte " + std::to_string(first.size())),
              std::string::npos)
        << result.status().message();
  }
  const auto nonsense = ReadLog(first + Record("\xff\xff\xff"), "x", {});
  EXPECT_NE(nonsense.status().message().find("not an Event message"), std::string::npos);
}

}  // namespace
}  // namespace foreshock::cli
