#include "foreshock/server/alert_core/frame_sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::alert {
namespace {

wire::Series Heads(uint16_t signal, std::vector<float> values, std::vector<float> weights = {}) {
  wire::Series series;
  series.signal = signal;
  series.layer = 2;
  for (uint32_t i = 0; i < values.size(); ++i) series.heads.push_back(i);
  series.values = std::move(values);
  series.weights = std::move(weights);
  return series;
}

detect::StepSample SampleOf(std::vector<wire::Series> series) {
  wire::Frame frame;
  frame.step = 9;
  frame.series = std::move(series);
  detect::StepSample sample;
  AddFrame(frame, &sample);
  return sample;
}

TEST(FrameSample, RatioBecomesItsQuotientAndNoDenominatorMeansMissing) {
  const auto sample = SampleOf({Heads(kEntropyMean, {10, 20, 30}, {5, 0, 10})});
  ASSERT_EQ(sample.series.size(), 1u);
  EXPECT_EQ(sample.series[0].layer, 2u);
  EXPECT_EQ(sample.series[0].heads, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(sample.series[0].values, (std::vector<double>{2, 3}));
  EXPECT_EQ(sample.series[0].weights, (std::vector<double>{5, 10}));
}

TEST(FrameSample, MissingAndRotatedHeadsAreLeftOutAndNanStays) {
  wire::Series missing = Heads(kWqSigma1, {1, NAN, 3});
  missing.present = {0, 1, 1};
  wire::Series rotated = Heads(kUpdateProjection1, {1, 2, 3});
  rotated.rotated = {1, 0, 0};
  const auto sample = SampleOf({missing, rotated});
  ASSERT_EQ(sample.series.size(), 2u);
  EXPECT_EQ(sample.series[0].heads, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(std::isnan(sample.series[0].values[0]));
  EXPECT_EQ(sample.series[1].heads, (std::vector<uint32_t>{1, 2}));
}

// Memory of an earlier step must bring nothing of it along.
TEST(FrameSample, ARestartedSampleIsAsANewOne) {
  wire::Series weighted = Heads(kEntropyMean, {10, 20, 30}, {5, 4, 10});
  weighted.moments.assign(12, 2);
  weighted.flags = wire::kLowResolution;
  wire::Frame frame;
  frame.step = 8;
  frame.skipped = true;
  frame.series = {weighted, weighted, Heads(kEntropyMean, {1}, {0})};
  detect::StepSample sample;
  AddFrame(frame, &sample);
  AddEvent({}, &sample);
  ASSERT_EQ(sample.series.size(), 2u);

  sample.Restart();
  frame.skipped = false;
  frame.series = {Heads(kWqSigma1, {1, 2}), Heads(kLogitMax, {3, 4}, {7}), weighted};
  AddFrame(frame, &sample);
  const detect::StepSample fresh = SampleOf(frame.series);
  EXPECT_FALSE(sample.skipped);
  EXPECT_TRUE(sample.events.empty());
  ASSERT_EQ(sample.series.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sample.series[i].signal, fresh.series[i].signal);
    EXPECT_EQ(sample.series[i].layer, fresh.series[i].layer);
    EXPECT_EQ(sample.series[i].heads, fresh.series[i].heads);
    EXPECT_EQ(sample.series[i].values, fresh.series[i].values);
    EXPECT_EQ(sample.series[i].weights, fresh.series[i].weights);
    EXPECT_EQ(sample.series[i].errors, fresh.series[i].errors);
    EXPECT_EQ(sample.series[i].flags, fresh.series[i].flags);
  }
  EXPECT_EQ(sample.series[0].heads, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(sample.series[0].values, (std::vector<double>{1, 2}));
  EXPECT_TRUE(sample.series[0].weights.empty());
  EXPECT_EQ(sample.series[1].weights, (std::vector<double>{7, 7}));
}

TEST(FrameSample, StandardErrorOfARatioComesFromItsMoments) {
  // Rows (num, den): (1, 1) and (3, 1). R = 2, residuals -1 and 1: sqrt(2/1 * 2) / 2 = 1.
  wire::Series series = Heads(kOutputRoundingBias, {4}, {2});
  series.moments = {2, 10, 4, 2};
  const auto sample = SampleOf({series});
  ASSERT_EQ(sample.series[0].errors.size(), 1u);
  EXPECT_NEAR(sample.series[0].errors[0], 1.0, 1e-6);
}

TEST(FrameSample, PartialSeriesWaitsForTheMerge) {
  wire::Series series = Heads(kUpdateProjection1, {1, 2, 3, 4});
  series.heads = {0, 1};
  series.values_per_head = 2;
  EXPECT_TRUE(SampleOf({series}).series.empty());
}

TEST(FrameSample, GuardEventsByDetail) {
  const auto kind = [](const char* detail) {
    wire::Event event;
    event.kind = wire::EventKind::kGuard;
    event.detail = detail;
    event.layers = {1};
    detect::StepSample sample;
    AddEvent(event, &sample);
    EXPECT_EQ(sample.events[0].layer, 1);
    return sample.events[0].kind;
  };
  EXPECT_EQ(kind("on"), detect::StepEvent::Kind::kGuardOn);
  EXPECT_EQ(kind("restored"), detect::StepEvent::Kind::kGuardOn);
  EXPECT_EQ(kind("off: by hand"), detect::StepEvent::Kind::kGuardOff);
  EXPECT_EQ(kind("missing"), detect::StepEvent::Kind::kGuardMissing);
}

TEST(FrameSample, ShapeTakesTheWidestLayer) {
  wire::Hello hello;
  hello.model.layers = {{0, "a", 4, 2, 16, 0.25f, 0, true, false},
                        {5, "b", 8, 8, 16, 0.25f, 0, false, false}};
  hello.unmonitored = {{"mixer", "linear attention"}};
  const detect::RunInfo info = RunInfoOf(hello);
  EXPECT_EQ(info.layers, 6u);
  EXPECT_EQ(info.heads, 8u);
  EXPECT_FALSE(info.qk_norm);
  EXPECT_EQ(UnmonitoredOf(hello)[0].text, "mixer: linear attention");
}

}  // namespace
}  // namespace foreshock::alert
