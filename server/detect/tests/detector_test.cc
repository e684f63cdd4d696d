#include "foreshock/server/detect/detector.h"

#include <gtest/gtest.h>

#include <limits>

#include "foreshock/base/catalogue.h"

namespace foreshock::detect {
namespace {

StepSample Loss(int64_t step, double loss) {
  StepSample sample;
  sample.step = step;
  sample.scalars.push_back({kLoss, loss});
  return sample;
}

const Verdict* Of(const std::vector<Verdict>& verdicts, std::string_view rule) {
  for (const Verdict& verdict : verdicts) {
    if (verdict.rule == rule) return &verdict;
  }
  return nullptr;
}

TEST(Detector, NanLossIsCriticalAtOnce) {
  Detector detector({.layers = 1, .heads = 2});
  EXPECT_TRUE(Of(detector.Observe(Loss(0, 4.0)), "non_finite")->findings.empty());
  const auto verdicts = detector.Observe(Loss(1, std::numeric_limits<double>::quiet_NaN()));
  ASSERT_EQ(Of(verdicts, "non_finite")->findings.size(), 1u);
  EXPECT_EQ(Of(verdicts, "non_finite")->findings[0].severity, Severity::kCritical);
}

TEST(Detector, StepThatDoesNotRiseIsIgnored) {
  Detector detector({.layers = 1, .heads = 2});
  detector.Observe(Loss(5, 4.0));
  EXPECT_TRUE(detector.Observe(Loss(5, std::numeric_limits<double>::quiet_NaN())).empty());
  EXPECT_EQ(detector.last_step(), 5);
}

TEST(Detector, DisabledRuleGivesNoVerdict) {
  Detector detector({.layers = 1, .heads = 2}, {.disabled_rules = {"non_finite"}});
  EXPECT_EQ(Of(detector.Observe(Loss(0, std::numeric_limits<double>::infinity())), "non_finite"), nullptr);
}

TEST(Detector, HeadOutsideTheShapeIsIgnored) {
  Detector detector({.layers = 1, .heads = 2});
  StepSample sample = Loss(0, 4.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  sample.series.push_back(
      {.signal = kLogitMax, .layer = 3, .heads = {0}, .values = {nan}, .weights = {}, .errors = {}});
  sample.series.push_back(
      {.signal = kLogitMax, .layer = 0, .heads = {2}, .values = {nan}, .weights = {}, .errors = {}});
  EXPECT_TRUE(Of(detector.Observe(sample), "non_finite")->findings.empty());
  sample.step = 1;
  sample.series.push_back(
      {.signal = kLogitMax, .layer = 0, .heads = {1}, .values = {nan}, .weights = {}, .errors = {}});
  const auto verdicts = detector.Observe(sample);
  ASSERT_EQ(Of(verdicts, "non_finite")->findings.size(), 1u);
  EXPECT_EQ(Of(verdicts, "non_finite")->findings[0].head, 1);
}

}  // namespace
}  // namespace foreshock::detect
