// Cadence under a clock that the test moves.
#include "foreshock/sdk/step_sampler.h"

#include <gtest/gtest.h>

#include <set>

namespace foreshock::sdk {
namespace {

LayerSpec OneLayer() {
  LayerSpec layer;
  layer.query_heads = layer.kv_heads = layer.local_query_heads = layer.local_kv_heads = 2;
  layer.head_dim = 4;
  layer.scale = 0.5f;
  return layer;
}

class StepSamplerTest : public ::testing::Test {
 protected:
  StepSamplerTest() { options_.budget = 1; }

  // Runs a step that takes `step` of which Foreshock took `own`; true when it was sampled.
  bool Step(StepSampler& sampler, int64_t t, int64_t step_ns = 1'000'000, int64_t own_ns = 0) {
    sampler.Begin(t);
    const bool sampled = sampler.sampled();
    clock_.Advance(std::chrono::nanoseconds(step_ns));
    sampler.Finish(own_ns);
    sampler.Publish();
    return sampled;
  }
  std::vector<int64_t> Sampled(StepSampler& sampler, int64_t from, int64_t to) {
    std::vector<int64_t> steps;
    for (int64_t t = from; t < to; ++t) {
      if (Step(sampler, t)) steps.push_back(t);
    }
    return steps;
  }

  const std::vector<LayerSpec> layers_ = {OneLayer()};
  SamplerOptions options_;
  ManualClock clock_;
};

TEST_F(StepSamplerTest, TheFirstStepAndTheGridAreSampled) {
  StepSampler sampler(layers_, options_, clock_);
  EXPECT_EQ(Sampled(sampler, 203, 231), (std::vector<int64_t>{203, 210, 220, 230}));
}

TEST_F(StepSamplerTest, DifferentCadencesAndNever) {
  options_.attention_every_steps = 0;
  options_.spectra_every_steps = 4;
  StepSampler sampler(layers_, options_, clock_);
  EXPECT_EQ(Sampled(sampler, 0, 10), (std::vector<int64_t>{0, 4, 8}));
  options_.spectra_every_steps = 0;
  StepSampler none(layers_, options_, clock_);
  EXPECT_EQ(Sampled(none, 0, 30), std::vector<int64_t>{});
}

TEST_F(StepSamplerTest, RequestsFromOutsideTakeEffectAtTheNextStep) {
  StepSampler sampler(layers_, options_, clock_);
  Sampled(sampler, 0, 11);
  sampler.request().attention_every_steps = 3;
  sampler.request().spectra_every_steps = 3;
  EXPECT_EQ(Sampled(sampler, 11, 19), (std::vector<int64_t>{12, 15, 18}));
}

TEST_F(StepSamplerTest, TheGovernorStretchesTheGridUnderAClockOfTheTests) {
  options_.budget = 0.004;
  StepSampler sampler(layers_, options_, clock_);
  // Samples take 20 ms of a step of 100 ms: 2 % at every tenth step.
  std::vector<int64_t> late;
  for (int64_t t = 0; t < 1000; ++t) {
    sampler.Begin(t);
    const bool sampled = sampler.sampled();
    clock_.Advance(std::chrono::milliseconds(sampled ? 120 : 100));
    sampler.Finish(sampled ? 20'000'000 : 0);
    sampler.Publish();
    if (sampled && t >= 500) late.push_back(t);
  }
  EXPECT_EQ(sampler.sampling_interval(), 80u);
  EXPECT_EQ(late, (std::vector<int64_t>{560, 640, 720, 800, 880, 960}));
}

TEST_F(StepSamplerTest, HostTimeThatADeviceHidesIsNotCharged) {
  options_.budget = 0.004;
  StepSampler sampler(layers_, options_, clock_);
  for (int64_t t = 0; t < 500; ++t) {
    sampler.Begin(t);
    const int64_t own = sampler.sampled() ? 20'000'000 : 0;
    clock_.Advance(std::chrono::milliseconds(100));
    sampler.Finish(own, own);
    sampler.Publish();
    EXPECT_FALSE(sampler.device_is_behind()) << "no device, no hiding by itself";
  }
  EXPECT_EQ(sampler.sampling_interval(), 10u);
}

TEST_F(StepSamplerTest, TheQueueIsBoundedInBytesToo) {
  options_.queue_frames = 100;
  options_.queue_bytes = 1;
  StepSampler sampler(layers_, options_, clock_);
  EXPECT_EQ(sampler.queue().capacity(), 4u);
  for (int64_t t = 0; t < 10; ++t) Step(sampler, t);
  EXPECT_EQ(sampler.queue_counters().dropped, 6u);
}

TEST_F(StepSamplerTest, RowsDifferFromSampleToSampleAndCoverAll) {
  std::set<int32_t> offsets;
  for (uint64_t t = 0; t < 2000; t += 10) offsets.insert(kernels::SampleOffset(42, t, 8));
  EXPECT_EQ(offsets.size(), 8u);
}

TEST(CopyTextTest, CutsAtACharacter) {
  char room[6];
  CopyText("abcdefgh", room, sizeof room);
  EXPECT_STREQ(room, "abcde");
  CopyText("abcd\xc3\xa9", room, sizeof room);  // the two bytes of an accented letter do not fit
  EXPECT_STREQ(room, "abcd");
  CopyText(nullptr, room, sizeof room);
  EXPECT_STREQ(room, "");
}

// Sums of a device's records, as they arrive while the test goes on.
uint64_t own_records_ns = 0, all_records_ns = 0;

TEST_F(StepSamplerTest, TheDevicesOwnRecordsStretchTheInterval) {
  options_.budget = 0.004;
  options_.device_times = [](uint64_t* own, uint64_t* all) { *own = own_records_ns, *all = all_records_ns; };
  StepSampler sampler(layers_, options_, clock_);
  constexpr int64_t kStep = 100'000'000;
  const auto run = [&](int64_t from, int64_t to, double share) {
    for (int64_t t = from; t < to; ++t) {
      // The host sees 1 ms of a sample in a second: within the budget.
      Step(sampler, t, kStep, t % sampler.sampling_interval() == 0 ? 1'000'000 : 0);
      all_records_ns += kStep;
      own_records_ns += static_cast<uint64_t>(share * kStep * 10 / sampler.sampling_interval());
    }
  };
  run(0, 900, 0.001);
  EXPECT_EQ(sampler.sampling_interval(), 10u) << "as the host says";
  run(900, 6000, 0.02);
  EXPECT_GE(sampler.sampling_interval(), 40u) << "2 % of the device's time was ours";
}

}  // namespace
}  // namespace foreshock::sdk
