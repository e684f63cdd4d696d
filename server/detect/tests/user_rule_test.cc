// What a user's rule computes, unit by unit, and what it leaves alone.
#include "foreshock/server/detect/user_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/detect/detector.h"
#include "foreshock/tests/not_finite.h"

namespace foreshock::detect {
namespace {

using tests::kInf;
using tests::kNan;

UserRule On(uint16_t signal, WindowFunction function, Comparison comparison, double threshold) {
  UserRule rule;
  rule.name = "mine";
  rule.signal = signal;
  rule.function = function;
  rule.function_name = "f";
  rule.comparison = comparison;
  rule.threshold = threshold;
  return rule;
}

// A model of 2 layers of 3 heads, and one rule over it.
class UserRuleTest : public testing::Test {
 protected:
  void Use(const UserRule& rule) {
    DetectorOptions options;
    options.user_rules = std::make_shared<UserRules>(UserRules{rule});
    detector_.emplace(RunInfo{.layers = 2, .heads = 3}, options);
    step_ = -1;
  }
  std::optional<std::vector<Finding>> Take(StepSample sample) {
    for (Verdict& verdict : detector_->Observe(sample)) {
      if (verdict.rule == "mine") return std::move(verdict.findings);
    }
    return std::nullopt;
  }
  std::optional<std::vector<Finding>> Loss(double value, bool skipped = false) {
    StepSample sample;
    sample.step = ++step_;
    sample.skipped = skipped;
    sample.scalars.push_back({kLoss, value});
    return Take(sample);
  }
  std::optional<std::vector<Finding>> Nothing() {
    StepSample sample;
    sample.step = ++step_;
    return Take(sample);
  }
  std::optional<std::vector<Finding>> Heads(std::vector<std::vector<double>> values) {
    StepSample sample;
    sample.step = ++step_;
    for (uint32_t layer = 0; layer < values.size(); ++layer) {
      SeriesSample series;
      series.signal = kLogitMax;
      series.layer = layer;
      for (uint32_t head = 0; head < values[layer].size(); ++head) {
        series.heads.push_back(head);
        series.values.push_back(values[layer][head]);
      }
      sample.series.push_back(series);
    }
    return Take(sample);
  }
  // The value judged at the last of these losses; NaN when nothing fires.
  double After(const std::vector<double>& losses) {
    double value = kNan;
    for (const double loss : losses) {
      const auto findings = Loss(loss);
      value = findings && !findings->empty() ? (*findings)[0].value : kNan;
    }
    return value;
  }

  std::optional<Detector> detector_;
  int64_t step_ = -1;
};

TEST_F(UserRuleTest, ValueFiresForTheFirstHeadAndCountsTheOthers) {
  Use(On(kLogitMax, WindowFunction::kValue, Comparison::kGreater, 100));
  EXPECT_TRUE(Heads({{1, 2, 3}, {4, 100, 6}})->empty());
  EXPECT_EQ((*Heads({{1, 2, 3}, {4, 101, 6}}))[0].head, 1);
  const auto findings = Heads({{1, 200, kInf}, {4, 102, 6}});
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_EQ((*findings)[0].layer, 1);
  EXPECT_EQ((*findings)[0].head, 1);
  EXPECT_EQ((*findings)[0].first_step, 1);
  EXPECT_NE((*findings)[0].summary.find("3 heads in all"), std::string::npos) << (*findings)[0].summary;
}

TEST_F(UserRuleTest, NoVerdictWithoutTheSignalOrOnASkippedStep) {
  Use(On(kLoss, WindowFunction::kValue, Comparison::kGreater, 1));
  EXPECT_EQ(Nothing(), std::nullopt);
  EXPECT_EQ(Loss(5, true), std::nullopt);
  EXPECT_EQ(Loss(kNan)->size(), 0u);
  EXPECT_EQ(Loss(5)->size(), 1u);
}

TEST_F(UserRuleTest, SelectorsLeaveTheRestOut) {
  UserRule rule = On(kLogitMax, WindowFunction::kValue, Comparison::kGreater, 100);
  rule.layers = {{1, 1}};
  rule.heads = {{0, 1}};
  Use(rule);
  EXPECT_TRUE(Heads({{200, 200, 200}, {4, 5, 200}})->empty());
  EXPECT_EQ((*Heads({{1, 2, 3}, {200, 5, 6}}))[0].head, 0);
}

TEST_F(UserRuleTest, ReductionsOverHeadsLayersAndAll) {
  UserRule rule = On(kLogitMax, WindowFunction::kValue, Comparison::kGreaterEqual, 0);
  rule.over_heads = Reduction{Reduction::Kind::kMedian};
  Use(rule);
  EXPECT_EQ((*Heads({{1, 9, 3}, {4, 5, 60}}))[0].value, 3);
  rule.over_layers = Reduction{Reduction::Kind::kMax};
  Use(rule);
  const auto run = Heads({{1, 9, 3}, {4, 5, 60}});
  EXPECT_EQ((*run)[0].value, 5);
  EXPECT_EQ((*run)[0].layer, -1);
  rule.over_heads.reset();
  rule.over_layers.reset();
  rule.over_all = Reduction{Reduction::Kind::kQuantile, 0.5};
  Use(rule);
  EXPECT_EQ((*Heads({{1, 9, 3}, {4, 5, 60}}))[0].value, 4.5);
  rule.over_all = Reduction{Reduction::Kind::kSpread};
  Use(rule);
  EXPECT_EQ((*Heads({{1, 9, 3}, {4, kNan, 60}}))[0].value, 59);
}

TEST_F(UserRuleTest, WindowFunctionsGiveWhatTheirNamesSay) {
  UserRule rule = On(kLoss, WindowFunction::kDelta, Comparison::kNotEqual, 1e9);
  rule.window.samples = 4;
  Use(rule);
  EXPECT_EQ(After({10, 1, 2, 4, 8}), 7);
  rule.function = WindowFunction::kSlope;
  Use(rule);
  EXPECT_DOUBLE_EQ(After({10, 1, 3, 5, 7}), 2);
  rule.function = WindowFunction::kRatioToMedian;
  Use(rule);
  EXPECT_DOUBLE_EQ(After({99, 2, 2, 2, 2, 6}), 3);
  rule.function = WindowFunction::kZScore;
  Use(rule);
  EXPECT_NEAR(After({99, 1, 2, 3, 4, 10}), 7.5 / 1.4826, 1e-9);
  rule.function = WindowFunction::kReduce;
  rule.window_reduction = {Reduction::Kind::kQuantile, 0.25};
  Use(rule);
  EXPECT_DOUBLE_EQ(After({99, 4, 1, 2, 3}), 1.75);
}

TEST_F(UserRuleTest, ConstantPastIsNotInfinitelySharp) {
  UserRule rule = On(kLoss, WindowFunction::kZScore, Comparison::kGreater, 6);
  rule.window.samples = 4;
  Use(rule);
  EXPECT_TRUE(std::isnan(After({2, 2, 2, 2, 2.001})));
  EXPECT_DOUBLE_EQ(After({2, 2, 2, 2, 4}), 1000);
}

TEST_F(UserRuleTest, OneNanPoisonsNoWindow) {
  UserRule rule = On(kLoss, WindowFunction::kRatioToMedian, Comparison::kGreater, 2);
  rule.window.samples = 4;
  Use(rule);
  EXPECT_DOUBLE_EQ(After({2, kNan, 2, kInf, 2, 2, 6}), 3);
}

TEST_F(UserRuleTest, WindowInStepsForgetsWhatIsOlder) {
  UserRule rule = On(kLoss, WindowFunction::kDelta, Comparison::kNotEqual, 1e9);
  rule.window.steps = 2;
  Use(rule);
  EXPECT_EQ(After({10, 1, 2, 4, 8}), 6);
}

TEST_F(UserRuleTest, RatioToTheMedianHead) {
  Use(On(kLogitMax, WindowFunction::kRatioToMedianHead, Comparison::kGreater, 3));
  EXPECT_TRUE(Heads({{10, 11, 12}, {13, 14, 30}})->empty());
  EXPECT_EQ((*Heads({{10, 10, 10}, {10, 10, 40}}))[0].value, 4);
}

TEST_F(UserRuleTest, HoldsInOneUnitNotInAnyOfThem) {
  UserRule rule = On(kLogitMax, WindowFunction::kValue, Comparison::kGreater, 100);
  rule.hold = {2, 0};
  Use(rule);
  EXPECT_TRUE(Heads({{200, 1, 1}, {1, 1, 1}})->empty());
  EXPECT_TRUE(Heads({{1, 200, 1}, {1, 1, 1}})->empty());
  EXPECT_EQ((*Heads({{1, 200, 1}, {1, 1, 1}}))[0].first_step, 1);
  rule.hold = {0, 3};
  Use(rule);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Heads({{200, 1, 1}, {1, 1, 1}})->empty());
  EXPECT_EQ(Heads({{200, 1, 1}, {1, 1, 1}})->size(), 1u);
}

TEST_F(UserRuleTest, AbsentCountsFromTheLastValueAndEndsWithTheNext) {
  UserRule rule = On(kLoss, WindowFunction::kAbsent, Comparison::kGreater, 2);
  rule.window.steps = 2;
  Use(rule);
  EXPECT_TRUE(Loss(1)->empty());
  EXPECT_TRUE(Nothing()->empty());
  EXPECT_TRUE(Nothing()->empty());
  const auto findings = Nothing();
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_EQ((*findings)[0].value, 3);
  EXPECT_EQ((*findings)[0].first_step, 1);
  EXPECT_TRUE(Loss(1)->empty());
}

TEST_F(UserRuleTest, ResumeForgetsWhatWasNormal) {
  UserRule rule = On(kLoss, WindowFunction::kRatioToMedian, Comparison::kGreater, 2);
  rule.window.samples = 4;
  Use(rule);
  After({1, 1, 1, 1, 1});
  StepSample sample;
  sample.step = ++step_;
  sample.events.push_back({StepEvent::Kind::kResume, -1, ""});
  sample.scalars.push_back({kLoss, 5});
  EXPECT_TRUE(Take(sample)->empty());
}

TEST_F(UserRuleTest, SummaryFillsItsPlaceholders) {
  UserRule rule = On(kLogitMax, WindowFunction::kValue, Comparison::kGreater, 100);
  rule.summary = "{where} ({layer}/{head}) at {step}: {signal} {value} over {threshold}";
  Use(rule);
  EXPECT_EQ((*Heads({{1, 2, 3}, {4, 5, 200}}))[0].summary,
            "layer 1 head 2 (1/2) at 0: logit_max 200 over 100");
}

TEST_F(UserRuleTest, ReplacedRulesKeepWhatTheyLearnedWhereTheyAreTheSame) {
  UserRule rule = On(kLoss, WindowFunction::kRatioToMedian, Comparison::kGreater, 2);
  rule.window.samples = 4;
  UserRule other = rule;
  other.name = "other";
  Use(rule);
  After({1, 1, 1, 1, 1});
  detector_->SetUserRules(std::make_shared<UserRules>(UserRules{other, rule}));
  EXPECT_EQ(Loss(3)->size(), 1u);
  UserRule changed = rule;
  changed.threshold = 2.5;
  detector_->SetUserRules(std::make_shared<UserRules>(UserRules{changed}));
  EXPECT_EQ(detector_->FindRule("other"), nullptr);
  EXPECT_TRUE(Loss(3)->empty());
}

TEST(MatchesPattern, StarsAndQuestionMarks) {
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("gpt-*", "gpt-7"));
  EXPECT_TRUE(MatchesPattern("*-a*b?", "x-aab-abc"));
  EXPECT_FALSE(MatchesPattern("gpt-?", "gpt-12"));
  EXPECT_FALSE(MatchesPattern("gpt", "gpt-7"));
  EXPECT_FALSE(MatchesPattern("", "x"));
  // Never exponential.
  EXPECT_FALSE(MatchesPattern("*a*a*a*a*a*a*a*a*a*a*b", std::string(20000, 'a')));
}

}  // namespace
}  // namespace foreshock::detect
