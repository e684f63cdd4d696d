#include "foreshock/server/alert_core/alert_engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/tests/not_finite.h"

namespace foreshock::alert {
namespace {

using tests::kNan;

constexpr uint16_t kLossId = 1;  // the catalogue's loss

detect::StepSample Loss(int64_t step, double loss) {
  detect::StepSample sample;
  sample.step = step;
  sample.scalars.push_back({kLossId, loss});
  return sample;
}

AlertEngine Engine() { return AlertEngine("run", "1", {.layers = 1, .heads = 2}); }

TEST(AlertEngine, FiresOnceAndResolvesAfterTheNamedNumberOfCleanSteps) {
  AlertEngine engine = Engine();
  EXPECT_TRUE(engine.Observe(Loss(0, 4)).empty());
  const auto fired = engine.Observe(Loss(1, kNan));
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_EQ(fired[0].kind, AlertEvent::Kind::kFiring);
  EXPECT_EQ(fired[0].alert.rule, "non_finite");
  EXPECT_TRUE(engine.Observe(Loss(2, kNan)).empty());
  EXPECT_TRUE(engine.Observe(Loss(3, 4)).empty());
  EXPECT_TRUE(engine.Observe(Loss(4, 4)).empty());
  const auto resolved = engine.Observe(Loss(5, 4));
  ASSERT_EQ(resolved.size(), 1u);
  EXPECT_EQ(resolved[0].kind, AlertEvent::Kind::kResolved);
  EXPECT_EQ(resolved[0].alert.id, fired[0].alert.id);
  EXPECT_TRUE(engine.Open().empty());
}

TEST(AlertEngine, NamesTheLastCheckpointBeforeTheEvidence) {
  AlertEngine engine = Engine();
  for (int64_t step = 0; step < 10; ++step) {
    auto sample = Loss(step, 4);
    if (step == 3 || step == 7) sample.events.push_back({detect::StepEvent::Kind::kCheckpoint, -1, ""});
    engine.Observe(sample);
  }
  EXPECT_EQ(engine.Observe(Loss(10, kNan))[0].alert.last_checkpoint_step, 7);
}

TEST(AlertEngine, RestoredStateFiresNothingTwice) {
  AlertEngine first = Engine();
  first.Observe(Loss(0, 4));
  const auto fired = first.Observe(Loss(1, kNan));
  AlertEngine second = Engine();
  ASSERT_TRUE(second.RestoreState(first.SaveState()).ok());
  ASSERT_EQ(second.Open().size(), 1u);
  EXPECT_EQ(second.Open()[0].id, fired[0].alert.id);
  EXPECT_TRUE(second.Observe(Loss(0, 4)).empty());
  EXPECT_TRUE(second.Observe(Loss(1, kNan)).empty());
  EXPECT_TRUE(second.Observe(Loss(2, kNan)).empty());
  EXPECT_EQ(second.Open().size(), 1u);
}

TEST(AlertEngine, RefusesAnotherRunsStateAndBrokenText) {
  AlertEngine engine = Engine();
  EXPECT_EQ(engine.RestoreState("{}").code(), Code::kDataLoss);
  EXPECT_EQ(engine.RestoreState("nonsense").code(), Code::kDataLoss);
  AlertEngine other("other", "1", {.layers = 1, .heads = 2});
  EXPECT_EQ(engine.RestoreState(other.SaveState()).code(), Code::kInvalidArgument);
}

detect::UserRule HighLoss() {
  detect::UserRule rule;
  rule.name = "high_loss";
  rule.signal = kLossId;
  rule.run = "ru*";
  rule.threshold = 5;
  rule.severity = detect::Severity::kCritical;
  rule.labels = {{"team", "a"}};
  rule.annotations = {{"runbook", "x"}};
  rule.advice = "look";
  rule.action = "checkpoint";
  rule.keep_firing_samples = 2;
  return rule;
}

AlertEngine EngineWith(const detect::UserRule& rule, const std::string& run = "run") {
  detect::DetectorOptions options;
  options.user_rules = std::make_shared<detect::UserRules>(detect::UserRules{rule});
  return AlertEngine(run, "1", {.layers = 1, .heads = 2}, options);
}

TEST(UserRules, FireAndResolveAsTheBuiltInOnesDo) {
  AlertEngine engine = EngineWith(HighLoss());
  const auto fired = engine.Observe(Loss(1, 6));
  ASSERT_EQ(fired.size(), 1u);
  const Alert& alert = fired[0].alert;
  EXPECT_EQ(alert.rule, "high_loss");
  EXPECT_EQ(alert.severity, detect::Severity::kCritical);
  EXPECT_EQ(alert.advice, "look");
  const auto back = AlertFromJson(AlertToJson(alert));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->labels.at("team"), "a");
  EXPECT_EQ(back->annotations.at("runbook"), "x");
  EXPECT_EQ(back->action, "checkpoint");
  EXPECT_TRUE(engine.Observe(Loss(2, 4)).empty());
  EXPECT_EQ(engine.Observe(Loss(3, 4)).size(), 1u);
}

TEST(UserRules, RunOnlyWhereTheirPatternMatches) {
  EXPECT_TRUE(EngineWith(HighLoss(), "other").Observe(Loss(1, 6)).empty());
}

TEST(UserRules, ReloadedOnesThatAreTheSameKeepTheirAlert) {
  AlertEngine engine = EngineWith(HighLoss());
  const auto fired = engine.Observe(Loss(1, 6));
  EXPECT_TRUE(
      engine.SetUserRules(std::make_shared<detect::UserRules>(detect::UserRules{HighLoss()})).empty());
  ASSERT_EQ(engine.Open().size(), 1u);
  detect::UserRule changed = HighLoss();
  changed.threshold = 5.5;
  const auto ended = engine.SetUserRules(std::make_shared<detect::UserRules>(detect::UserRules{changed}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].kind, AlertEvent::Kind::kResolved);
  EXPECT_EQ(ended[0].alert.id, fired[0].alert.id);
  EXPECT_EQ(engine.Observe(Loss(2, 6)).size(), 1u);
  EXPECT_EQ(engine.SetUserRules(nullptr).size(), 1u);
  EXPECT_TRUE(engine.Observe(Loss(3, 6)).empty());
}

TEST(UserRules, GoneWhileNoServerRanTheyEndWithTheRestoredState) {
  AlertEngine first = EngineWith(HighLoss());
  first.Observe(Loss(1, 6));
  AlertEngine second = Engine();
  ASSERT_TRUE(second.RestoreState(first.SaveState()).ok());
  EXPECT_EQ(second.Open().size(), 1u);
  EXPECT_EQ(second.SetUserRules(nullptr).size(), 1u);
  EXPECT_TRUE(second.Open().empty());
  AlertEngine third = EngineWith(HighLoss());
  ASSERT_TRUE(third.RestoreState(first.SaveState()).ok());
  EXPECT_TRUE(third.Observe(Loss(1, 6)).empty());
  EXPECT_TRUE(third.Observe(Loss(2, 6)).empty());
  EXPECT_EQ(third.Open().size(), 1u);
}

TEST(AlertJson, RoundTripsWithNanAndStrangeText) {
  AlertEngine engine("r\xff\"un", "1", {.layers = 1, .heads = 2});
  const Alert alert = engine.Observe(Loss(1, kNan))[0].alert;
  const auto back = AlertFromJson(AlertToJson(alert));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_TRUE(std::isnan(back->value));
  EXPECT_EQ(back->rule, alert.rule);
  EXPECT_EQ(back->fired_step, 1);
}

TEST(AlertJson, LineHasTheFieldsOfTheContract) {
  AlertEngine engine = Engine();
  const std::string line = AlertEventToJsonLine(engine.Observe(Loss(3, kNan))[0]);
  EXPECT_EQ(
      line,
      "{\"event\":\"firing\",\"rule\":\"non_finite\",\"severity\":\"critical\",\"run\":\"run\",\"step\":3,"
      "\"layer\":null,\"head\":null,\"value\":\"NaN\",\"summary\":\"loss is NaN\"}");
}

}  // namespace
}  // namespace foreshock::alert
