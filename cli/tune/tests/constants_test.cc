#include "constants.h"

#include <gtest/gtest.h>

namespace foreshock::cli {
namespace {

LabelledRun CollapseAt(int64_t step) {
  LabelledRun run;
  run.truth.label = Truth::Label::kCollapse;
  run.truth.onset = 0;
  run.truth.collapse = step;
  return run;
}

LabelledRun Healthy() {
  LabelledRun run;
  run.truth.label = Truth::Label::kHealthy;
  return run;
}

Spoke At(int64_t step) { return {.step = step, .false_alarm = false, .head = std::nullopt}; }
Spoke False() { return {.step = std::nullopt, .false_alarm = true, .head = std::nullopt}; }

// What every variant said, but the one at `index`.
std::vector<Spoke> Said(const Spoke& all, size_t index, const Spoke& other) {
  std::vector<Spoke> said(Variants().size(), all);
  said[index] = other;
  return said;
}

TEST(Constants, OneOfThemDiffersInEachVariant) {
  ASSERT_GT(Variants().size(), 10u);
  const detect::QkRunawayConstants usual = Variants()[0].constants;
  for (size_t v = 1; v < Variants().size(); ++v) {
    const detect::QkRunawayConstants& c = Variants()[v].constants;
    EXPECT_EQ((c.window_steps != usual.window_steps) + (c.growth_share != usual.growth_share) +
                  (c.young_windows != usual.young_windows) + (c.grown_up_windows != usual.grown_up_windows) +
                  (c.agreement != usual.agreement) + (c.directed != usual.directed) +
                  (c.used_to_it != usual.used_to_it),
              1)
        << Variants()[v].name;
  }
}

TEST(Constants, ARunIsJudgedByWhatIsBestForTheOthers) {
  // Variant 3 is early on both collapses, and falsely alarmed by the healthy run alone.
  const std::vector<LabelledRun> runs = {CollapseAt(100), CollapseAt(100), Healthy()};
  const std::vector<std::vector<Spoke>> tried = {Said(At(50), 3, At(10)), Said(At(50), 3, At(10)),
                                                 Said({}, 3, False())};
  const auto each = JudgeConstants(runs, tried);
  ASSERT_EQ(each.size(), Variants().size());
  EXPECT_EQ(each[0].leads, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(each[3].leads, (std::vector<double>{0.9, 0.9}));
  EXPECT_EQ(each[3].false_alarms, 1);
  const Verdicts left_out = LeaveOneOutConstants(runs, tried);
  EXPECT_EQ(left_out.leads,
            (std::vector<double>{0.5, 0.5}));  // the healthy run was among the others: variant 3 is out
  EXPECT_EQ(left_out.false_alarms, 1);         // of it alone nobody knew
}

}  // namespace
}  // namespace foreshock::cli
