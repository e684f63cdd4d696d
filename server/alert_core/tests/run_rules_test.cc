// Each rule over the scalars of a run: a scenario that fires it and near misses; the cases of CASES that it
// speaks to.
#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"
#include "foreshock/tests/not_finite.h"
#include "scenario.h"

namespace foreshock::alert {
namespace {

using detect::Severity;
using Kind = detect::StepEvent::Kind;
using tests::kInf;
using tests::kNan;

// A loss that has learned down to `level`, and then takes these values, one every `every` steps from `at` on;
// the last one stays.
Scenario::Curve Then(double level, double at, double every, std::vector<double> values) {
  return [=](double t) -> std::optional<double> {
    const double usual = level + (11 - level) * std::exp(-t / 150) + 0.03 * Noise(11, t);
    if (t < at) return usual;
    const auto i = static_cast<size_t>((t - at) / every);
    return values[std::min(i, values.size() - 1)] + 0.03 * Noise(12, t);
  };
}

TEST(NonFinite,
     NanLossIsCriticalAtOnce) {  // CASES D5: NaN right after an evaluation, no early warning to claim
  Scenario scenario;
  scenario.Event(1980, Kind::kEval);
  scenario.Scalar(kLoss, [](double t) { return t < 2000 ? 4.0 + 0.1 * Noise(9, t) : kNan; });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "non_finite", Severity::kCritical);
  ASSERT_NE(fired, nullptr);
  EXPECT_EQ(fired->step, 2000);
  EXPECT_EQ(events.front().step, 2000) << Dump(events);
}

TEST(NonFinite, NanAtTheSecondStep) {  // CASES D13
  Scenario scenario({.every = 1, .steps = 10});
  scenario.Scalar(kLoss, [](double t) { return t < 1 ? 12.98 : kNan; });
  EXPECT_EQ(FirstFiring(scenario.Play(), "non_finite", Severity::kCritical)->step, 1);
}

TEST(NonFinite, NamesTheHeadAndLeavesNoTrace) {  // CASES N6: windows recover
  Scenario scenario;
  scenario.Head(kLogitMax, 1, 3, [](double t) { return t == 1200 ? kInf : 25.0; });
  const auto events = scenario.Play();
  ASSERT_EQ(events.size(), 2u) << Dump(events);
  EXPECT_EQ(events[0].alert.rule, "non_finite");
  EXPECT_EQ(events[0].alert.layer, 1);
  EXPECT_EQ(events[0].alert.head, 3);
  EXPECT_EQ(events[1].kind, AlertEvent::Kind::kResolved);
}

TEST(NonFinite, HoldsUntilTheSignalIsMeasuredAgain) {
  Scenario scenario({.every = 1, .steps = 200});
  scenario.AllHeads(kLogitMax, [](double t) -> std::optional<double> {
    if (std::fmod(t, 10) != 0) return std::nullopt;
    return t >= 100 && t < 150 ? kNan : 25.0;
  });
  std::vector<AlertEvent> events = scenario.Play();
  std::erase_if(events, [](const AlertEvent& event) { return event.alert.rule != "non_finite"; });
  ASSERT_EQ(events.size(), 2u) << Dump(events);
  EXPECT_EQ(events[0].step, 100);
  EXPECT_EQ(events[1].kind, AlertEvent::Kind::kResolved);
  EXPECT_GE(events[1].step, 150);
}

TEST(NonFinite, SkippedStepsOverflowIsLossScalingAtWork) {
  Scenario scenario;
  scenario.Skip([](double t) { return t == 1000; });
  scenario.Scalar(kGradNorm, [](double t) { return t == 1000 ? kInf : 1 + 0.1 * Noise(10, t); });
  EXPECT_EQ(FirstFiring(scenario.Play(), "non_finite"), nullptr);
}

TEST(LossDivergence, CollapseGoesCriticalAndStays) {  // CASES D1
  Scenario scenario({.steps = 6000});
  scenario.Scalar(kLoss, Then(6.37, 2000, 40, {6.60, 7.31, 9.12, 10.24}));
  scenario.Scalar(kGradNorm, [](double t) { return 95000 * (1 + 0.4 * Noise(13, t)); });  // loss-scaled
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "loss_divergence", Severity::kCritical);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_LE(fired->step, 2700);
  EXPECT_TRUE(FiresAtEnd(events, "loss_divergence", Severity::kCritical));
  EXPECT_EQ(FirstFiring(events, "grad_norm_spike"), nullptr);
}

TEST(LossDivergence,
     WhatRecoversSlowlyIsNoCollapse) {  // CASES D3: 500 steps, a constant gn, loss scale falls 16x
  Scenario scenario({.every = 10, .steps = 5000});
  scenario.Scalar(kLoss, Then(2.77, 2000, 100, {7.34, 8.72, 7.65, 7.19, 6.85, 4.5, 3.2, 2.9, 2.75}));
  scenario.Scalar(kGradNorm, [](double) { return 0.0; });
  scenario.Scalar(kLossScale, [](double t) { return t < 2000 ? 65536.0 : 4096.0; });
  const auto events = scenario.Play();
  EXPECT_NE(FirstFiring(events, "loss_divergence", Severity::kWarning), nullptr) << Dump(events);
  EXPECT_FALSE(FiresAtEnd(events, "loss_divergence")) << Dump(events);
  EXPECT_NE(FirstFiring(events, "unmonitored", Severity::kWarning), nullptr);
  EXPECT_NE(FirstFiring(events, "loss_scale_collapse", Severity::kWarning), nullptr);
}

TEST(LossDivergence, SpikeIsNotACollapse) {  // CASES D2
  Scenario scenario({.steps = 4000});
  scenario.Scalar(kLoss, Then(3.06, 2000, 20, {3.11, 7.71, 5.5, 4.2, 3.6, 3.3, 3.1}));
  const auto events = scenario.Play();
  EXPECT_EQ(FirstFiring(events, "loss_divergence", Severity::kCritical), nullptr) << Dump(events);
  EXPECT_NE(FirstFiring(events, "loss_spike"), nullptr);
}

TEST(LossDivergence, ResumeTransientIsNoAlert) {  // CASES D4
  Scenario scenario({.every = 1, .steps = 400});
  const std::vector<double> first = {2.043, 2.020, 2.000};
  scenario.Scalar(kLoss, [first](double t) {
    return t < 3 ? first[static_cast<size_t>(t)] : 1.953 + 0.009 * Noise(14, t);
  });
  scenario.Scalar(kGradNorm, [](double t) {
    return t == 0 ? 1.335 : t < 3 ? 0.305 : 0.14 + 0.01 * Noise(15, t);
  });
  scenario.Event(0, Kind::kResume);
  const auto events = scenario.Play();
  EXPECT_TRUE(events.empty()) << Dump(events);
}

TEST(LossDivergence, BrokenSetUpIsCriticalWithinSteps) {  // CASES D6
  Scenario scenario({.every = 1, .steps = 40});
  const std::vector<double> values = {1.70, 11.5, 11.8, 11.5, 11.5, 12.2, 10.0, 10.9, 10.6};
  scenario.Scalar(kLoss,
                  [values](double t) { return values[std::min(static_cast<size_t>(t), values.size() - 1)]; });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "loss_divergence", Severity::kCritical);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_LE(fired->step, 6);
}

TEST(LossDivergence, ContextSwitchIsATransient) {  // CASES D10
  Scenario scenario({.every = 5, .steps = 4000});
  scenario.Scalar(kLoss, [](double t) {
    const double usual = 2.1 + 5 * std::exp(-t / 200) + 0.03 * Noise(16, t);
    return t < 2000 ? usual : 2.2 + 3.3 * std::exp(-(t - 2000) / 10) + 0.03 * Noise(16, t);
  });
  scenario.Scalar(kGradNorm, [](double t) {
    return (t < 2000 ? 3.0 : 3 + 246 * std::exp(-(t - 2000) / 15)) + Noise(17, t);
  });
  scenario.Event(2000, Kind::kPhase, -1, "context 8192");
  const auto events = scenario.Play();
  EXPECT_TRUE(events.empty()) << Dump(events);
}

TEST(LossDivergence, GuardsOwnTransientIsNoAlert) {  // CASES D12
  Scenario scenario({.every = 5, .steps = 4000});
  scenario.Scalar(kLoss, [](double t) {
    if (t < 2000) return 1.4 + 5 * std::exp(-t / 200) + 0.03 * Noise(18, t);
    return 1.5 + 10.5 * std::exp(-(t - 2000) / 30) + 0.03 * Noise(18, t);
  });
  scenario.Event(2000, Kind::kGuardOn);
  const auto events = scenario.Play();
  EXPECT_EQ(FirstFiring(events, "loss_divergence"), nullptr) << Dump(events);
}

TEST(LossDivergence, SlingshotIsNoCollapse) {  // CASES D15: cyclic spikes with recovery
  Scenario scenario({.steps = 8000});
  scenario.Scalar(kLoss, [](double t) {
    const double spike = std::fmod(t, 1000) < 60 && t > 1500 ? 1.5 : 0;
    return 1.2 + 4 * std::exp(-t / 200) + spike + 0.03 * Noise(19, t);
  });
  const auto events = scenario.Play();
  EXPECT_EQ(FirstFiring(events, "loss_divergence", Severity::kCritical), nullptr) << Dump(events);
}

TEST(DeadPlateau, StuckAboveItsBestFiresAndAnEarlyTemporaryOneDoesNot) {  // CASES D1, second attempt
  Scenario stuck({.steps = 6000});
  stuck.Scalar(kLoss, Then(6.44, 2000, 20, {11.42, 9, 8, 7.5, 7.3}));
  EXPECT_TRUE(FiresAtEnd(stuck.Play(), "dead_plateau", Severity::kCritical)) << Dump(stuck.Play());
  Scenario recovers({.steps = 6000});
  recovers.Scalar(kLoss, Then(2.0, 2000, 100, {4, 3.8, 3.5, 3.2, 3, 2.8, 2.5, 2.2, 2.0}));
  EXPECT_EQ(FirstFiring(recovers.Play(), "dead_plateau"), nullptr) << Dump(recovers.Play());
}

TEST(DeadPlateau, NeverLearningIsWorthAnInfo) {
  Scenario scenario({.steps = 8000});
  scenario.Scalar(kLoss, [](double t) { return 5.55 + 0.02 * Noise(20, t); });
  EXPECT_NE(FirstFiring(scenario.Play(), "dead_plateau", Severity::kInfo), nullptr) << Dump(scenario.Play());
}

// The loss stops at step 200, as with a learning rate that is far too large.
Scenario::Curve StopsEarly() {
  return [](double t) { return 3.15 + 2.4 * std::exp(-t / 40) + 0.05 * Noise(21, t); };
}

TEST(DeadPlateau, StoppedEarlyUnderSaturatedHeadsIsCritical) {
  Scenario scenario({.steps = 3000});
  scenario.Scalar(kLoss, StopsEarly()).AllHeads(kSaturatedRowFraction, [](double) { return 0.9; });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "dead_plateau", Severity::kCritical);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_LE(fired->step, 2000);
  EXPECT_LE(fired->alert.first_evidence_step, 340);
  EXPECT_TRUE(FiresAtEnd(events, "dead_plateau"));
}

TEST(DeadPlateau, StoppedEarlyAloneAndSaturatedHeadsAloneAreNot) {
  Scenario converged({.steps = 3000});
  converged.Scalar(kLoss, StopsEarly());
  EXPECT_EQ(FirstFiring(converged.Play(), "dead_plateau"), nullptr) << Dump(converged.Play());
  Scenario learns({.steps = 3000});  // a large model that lives saturated
  learns.Scalar(kLoss, [](double t) { return 5.5 * std::pow(1 + t / 20, -0.2) + 0.05 * Noise(22, t); })
      .AllHeads(kSaturatedRowFraction, [](double) { return 0.9; });
  EXPECT_EQ(FirstFiring(learns.Play(), "dead_plateau"), nullptr) << Dump(learns.Play());
  Scenario fine_tuned({.steps = 3000});
  fine_tuned.Scalar(kLoss, [](double t) { return (t < 40 ? 2.2 : 1.95) + 0.02 * Noise(23, t); })
      .AllHeads(kSaturatedRowFraction, [](double) { return 0.9; });
  EXPECT_EQ(FirstFiring(fine_tuned.Play(), "dead_plateau", Severity::kCritical), nullptr);
}

TEST(LossSpike, SingleBatchIsInfoAndNoiseIsNothing) {
  Scenario spike;
  spike.Scalar(kLoss, Then(1.2, 2000, 20, {4.8, 1.2}));
  const auto events = spike.Play();
  EXPECT_NE(FirstFiring(events, "loss_spike", Severity::kInfo), nullptr) << Dump(events);
  EXPECT_FALSE(FiresAtEnd(events, "loss_spike"));
  Scenario noise;
  noise.Scalar(kLoss, Then(1.2, 2000, 20, {1.45, 1.2}));
  EXPECT_EQ(FirstFiring(noise.Play(), "loss_spike"), nullptr);
}

TEST(GradNormSpike, HugeOneWarnsAndLossStaysCalm) {  // CASES D8
  Scenario scenario({.every = 1, .steps = 400});
  const std::vector<double> values = {15, 10, 8, 92, 29, 5, 8, 8};
  scenario.Scalar(kGradNorm,
                  [values](double t) { return t == 300 ? 11140 : values[static_cast<size_t>(t) % 8]; });
  scenario.Scalar(kLoss, [](double t) { return 1.35 + 0.2 * Noise(21, t); });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "grad_norm_spike", Severity::kWarning);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_EQ(fired->step, 300);
  EXPECT_EQ(FirstFiring(events, "loss_divergence"), nullptr);
  EXPECT_EQ(FirstFiring(events, "dead_plateau"), nullptr);
}

TEST(GradNormSpike, OutlierBatchDoesNotWarn) {
  Scenario scenario;
  scenario.Scalar(kGradNorm, [](double t) { return t == 1860 ? 3.0 : 0.85 + 0.1 * Noise(22, t); });
  EXPECT_EQ(FirstFiring(scenario.Play(), "grad_norm_spike"), nullptr);
}

TEST(LossScaleCollapse, TwelveHalvingsAreCritical) {  // CASES D7: gn reads 0.39 meanwhile
  Scenario scenario({.every = 1, .steps = 400});
  scenario.Scalar(kLossScale, [](double t) {
    return t < 200 ? 0.5 : 0.5 * std::pow(0.5, std::min(12.0, std::floor((t - 200) / 5)));
  });
  scenario.Scalar(kGradNorm, [](double t) { return 0.39 + 0.01 * Noise(23, t); });
  const auto events = scenario.Play();
  EXPECT_NE(FirstFiring(events, "loss_scale_collapse", Severity::kWarning), nullptr) << Dump(events);
  EXPECT_TRUE(FiresAtEnd(events, "loss_scale_collapse", Severity::kCritical));
}

TEST(LossScaleCollapse, FindingItsPlaceAtTheStartIsNormal) {
  Scenario scenario({.every = 1, .steps = 2000});
  scenario.Scalar(kLossScale, [](double t) {
    return t < 10 ? 65536 * std::pow(0.5, t) : std::fmod(t, 200) < 100 ? 256.0 : 128.0;
  });
  EXPECT_EQ(FirstFiring(scenario.Play(), "loss_scale_collapse"), nullptr) << Dump(scenario.Play());
}

TEST(Stalled, FiresAfterItsPatienceAndResolvesWithTheNextFrame) {
  AlertEngine engine("r", "1", {.layers = 1, .heads = 1});
  detect::StepSample sample;
  sample.scalars.push_back({kLoss, 2.0});
  engine.Observe(sample);
  EXPECT_TRUE(engine.Tick(299).empty());
  const auto fired = engine.Tick(301);
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_EQ(fired[0].alert.rule, "stalled");
  EXPECT_EQ(fired[0].alert.severity, Severity::kWarning);
  const auto escalated = engine.Tick(1300);
  ASSERT_EQ(escalated.size(), 2u);
  EXPECT_EQ(escalated[0].kind, AlertEvent::Kind::kResolved);
  EXPECT_EQ(escalated[1].alert.severity, Severity::kCritical);
  sample.step = 1;
  EXPECT_EQ(engine.Observe(sample).size(), 1u);
  EXPECT_TRUE(engine.Open().empty());
}

TEST(Stalled, SlowStepsAreNoStallAndAFinishedRunNeither) {
  AlertEngine slow("r", "1", {.layers = 1, .heads = 1});
  for (int64_t step = 0; step < 10; ++step) {
    detect::StepSample sample;
    sample.step = step;
    sample.scalars = {{kLoss, 2.0}, {kStepSeconds, 60.0}};
    slow.Observe(sample);
  }
  EXPECT_TRUE(slow.Tick(1100).empty());
  EXPECT_FALSE(slow.Tick(1300).empty());

  AlertEngine finished("r", "1", {.layers = 1, .heads = 1});
  detect::StepSample sample;
  sample.events.push_back({Kind::kFinished, -1, ""});
  finished.Observe(sample);
  EXPECT_TRUE(finished.Tick(1e6).empty());
}

TEST(Unmonitored, LossThatDisappearsIsAFinding) {  // CASES D9
  Scenario scenario({.every = 1, .steps = 300});
  scenario.Scalar(kLoss, [](double t) -> std::optional<double> {
    if (t >= 200) return std::nullopt;
    return 0.72 + 0.01 * Noise(24, t);
  });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "unmonitored", Severity::kWarning);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_EQ(fired->step, 202);
  EXPECT_EQ(FirstFiring(events, "non_finite"), nullptr);
}

TEST(Unmonitored, AttentionThatNeverComesOrStops) {
  Scenario never({.every = 1, .steps = 300});
  for (uint16_t signal = kWqSigma1; signal <= kDeltaErrorSignMean; ++signal) never.Without(signal);
  EXPECT_NE(FirstFiring(never.Play(), "unmonitored", Severity::kWarning), nullptr);

  Scenario stops({.every = 10, .steps = 1200});
  for (const uint16_t signal : {kWqSigma1, kLogitMax, kEntropyMean}) {
    stops.AllHeads(signal, [](double t) -> std::optional<double> {
      if (t >= 600) return std::nullopt;
      return 2.0;
    });
  }
  const auto events = stops.Play();
  const AlertEvent* fired = FirstFiring(events, "unmonitored", Severity::kWarning);
  ASSERT_NE(fired, nullptr);
  EXPECT_NE(fired->alert.summary.find("since step 590"), std::string::npos) << fired->alert.summary;
}

TEST(Unmonitored, DeclaredPartsAreAnInfo) {
  Scenario scenario;
  scenario.Event(0, Kind::kUnmonitored, -1, "mixer: linear attention");
  const auto events = scenario.Play();
  ASSERT_NE(FirstFiring(events, "unmonitored", Severity::kInfo), nullptr);
  EXPECT_EQ(FirstFiring(events, "unmonitored")->alert.summary, "mixer: linear attention");
}

TEST(Unmonitored, SampledFramesBetweenScalarOnesAreNormal) {
  Scenario scenario({.every = 1, .steps = 600});
  for (const uint16_t signal : {kWqSigma1, kLogitMax, kEntropyMean}) {
    scenario.AllHeads(signal, [](double t) -> std::optional<double> {
      if (std::fmod(t, 50) != 0) return std::nullopt;
      return 20.0;
    });
  }
  EXPECT_EQ(FirstFiring(scenario.Play(), "unmonitored"), nullptr) << Dump(scenario.Play());
}

TEST(TwoWriters, WarnsWhileBothWrite) {
  Scenario scenario;
  scenario.Event(1000, Kind::kTwoWriters, -1, "two processes write as rank 3").Event(1500, Kind::kOneWriter);
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "two_writers", Severity::kWarning);
  ASSERT_NE(fired, nullptr);
  EXPECT_EQ(fired->step, 1000);
  EXPECT_EQ(fired->alert.summary, "two processes write as rank 3");
  EXPECT_FALSE(FiresAtEnd(events, "two_writers"));
  EXPECT_EQ(FirstFiring(Scenario().Event(1000, Kind::kOneWriter).Play(), "two_writers"), nullptr);
}

TEST(GuardMissing, ResumedWithoutItsStateIsCriticalUntilItIsOn) {
  Scenario scenario;
  scenario.Event(1000, Kind::kGuardMissing).Event(1500, Kind::kGuardOn);
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "guard_missing", Severity::kCritical);
  ASSERT_NE(fired, nullptr);
  EXPECT_EQ(fired->step, 1000);
  EXPECT_FALSE(FiresAtEnd(events, "guard_missing"));
  EXPECT_EQ(FirstFiring(Scenario().Event(1000, Kind::kGuardOn).Play(), "guard_missing"), nullptr);
}

TEST(GuardActive, IsForTheRecordWhileALayerIsSwitched) {
  Scenario scenario;
  scenario.Event(1000, Kind::kGuardOn, 1).Event(1200, Kind::kGuardOn, 0);
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "guard_active", Severity::kInfo);
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_EQ(fired->step, 1000);
  EXPECT_EQ(fired->alert.layer, 1);
  EXPECT_TRUE(FiresAtEnd(events, "guard_active"));
  scenario.Event(1400, Kind::kGuardOff, 1).Event(1600, Kind::kGuardOff, 0);
  const auto ended = scenario.Play();
  EXPECT_FALSE(FiresAtEnd(ended, "guard_active")) << Dump(ended);
  EXPECT_EQ(ended.back().step, 1600) << Dump(ended);
  EXPECT_EQ(FirstFiring(Scenario({.qk_norm = true}).Play(), "guard_active"), nullptr);
}

TEST(GuardActive, HoldsNoIncidentOpen) {
  Scenario scenario;
  scenario.Event(500, Kind::kGuardOn, 0);
  scenario.Scalar(kLoss, [](double t) { return t < 2000 ? 1.5 + 0.05 * Noise(24, t) : kNan; });
  const auto events = scenario.Play();
  const AlertEvent* fired = FirstFiring(events, "non_finite");
  ASSERT_NE(fired, nullptr) << Dump(events);
  EXPECT_EQ(fired->alert.incident, fired->alert.id);
}

TEST(Restart, RebuiltEngineGoesOnExactlyAsTheOldOne) {
  Scenario scenario({.steps = 4000});
  scenario.Scalar(kLoss, Then(1.2, 2000, 20, {1.5, 3, 5}));
  const auto samples = scenario.Samples();
  const detect::RunInfo info{
      .layers = 2, .heads = 4, .kv_heads = 0, .head_dim = 16, .sample_every_steps = 20};
  std::vector<std::string> whole, halves;
  AlertEngine one("r", "1", info);
  for (const auto& sample : samples) {
    for (const auto& event : one.Observe(sample)) whole.push_back(AlertToJson(event.alert));
  }
  std::string state;
  {
    AlertEngine first("r", "1", info);
    for (size_t i = 0; i < samples.size() * 11 / 20; ++i) {
      for (const auto& event : first.Observe(samples[i])) halves.push_back(AlertToJson(event.alert));
    }
    state = first.SaveState();
  }
  AlertEngine second("r", "1", info);
  ASSERT_TRUE(second.RestoreState(state).ok());
  for (const auto& sample : samples) {
    for (const auto& event : second.Observe(sample)) halves.push_back(AlertToJson(event.alert));
  }
  EXPECT_EQ(whole, halves);
  EXPECT_GE(whole.size(), 3u);
}

}  // namespace
}  // namespace foreshock::alert
