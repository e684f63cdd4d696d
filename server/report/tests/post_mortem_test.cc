#include "post_mortem.h"

#include <gtest/gtest.h>

namespace foreshock::report {
namespace {

struct Fields {
  std::string rule, incident;
  int64_t evidence = 0, fired = 0;
  int32_t layer = -1, head = -1;
  detect::Severity severity = detect::Severity::kCritical;
  bool resolved = false;
};

alert::AlertRecord RecordOf(const Fields& fields) {
  alert::AlertRecord record;
  record.alert.rule = fields.rule;
  record.alert.incident = fields.incident;
  record.alert.first_evidence_step = fields.evidence;
  record.alert.fired_step = fields.fired;
  record.alert.layer = fields.layer;
  record.alert.head = fields.head;
  record.alert.severity = fields.severity;
  record.alert.state = fields.resolved ? alert::AlertState::kResolved : alert::AlertState::kFiring;
  return record;
}

RunData RunOf(std::vector<Fields> alerts) {
  RunData run;
  run.attempt.run = "run";
  for (const Fields& fields : alerts) run.alerts.push_back(RecordOf(fields));
  return run;
}

bool Has(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }

TEST(PostMortemTest, TellsOfTheIncidentThatEndedInTheCollapse) {
  const auto kWarning = detect::Severity::kWarning;
  RunData run = RunOf({{"delta_error", "first", 900, 1000, 0, 1, detect::Severity::kCritical, true},
                       {"rounding_bias", "second", 49'000, 49'500, 2, 3, kWarning},
                       {"qk_runaway", "second", 49'900, 50'000, 2, 3}});
  run.story.collapse_step = 50'400;
  const std::string page = PostMortems({run});
  EXPECT_TRUE(Has(page, "step <b>49,000</b>, seen by <b>rounding_bias</b> in layer 2, head 3")) << page;
  EXPECT_FALSE(Has(page, "layer 0, head 1")) << "a head of an incident that was over\n" << page;
  EXPECT_TRUE(Has(page, "critical alert 400 steps before")) << page;
}

TEST(PostMortemTest, WhatFiredAlreadyAndElsewhereBeganNothing) {
  const auto kWarning = detect::Severity::kWarning;
  RunData run = RunOf({{"unmonitored", "one", 10, 20, -1, -1, kWarning},
                       {"tied_rows_rising", "one", 100, 200, 5, 0, kWarning},
                       {"loss_spike", "one", 4'800, 4'900, -1, -1, kWarning},
                       {"qk_runaway", "one", 4'900, 5'000, 2, 3}});
  const std::string page = PostMortems({run});
  EXPECT_TRUE(Has(page, "step <b>4,800</b>, seen by <b>loss_spike</b>")) << page;
  EXPECT_TRUE(Has(page, "<b>layer 5, head 0</b> (step 100), then layer 2, head 3 (step 4,900)")) << page;
}

TEST(PostMortemTest, ACriticalAlertAfterTheCollapseIsTheLastToBeAsked) {
  RunData run = RunOf({{"qk_runaway", "one", 900, 1000, 0, 2, detect::Severity::kCritical, true},
                       {"non_finite", "two", 3'000, 3'000}});
  run.story.collapse_step = 1'300;
  EXPECT_TRUE(Has(PostMortems({run}), "seen by <b>qk_runaway</b>"));
  run.alerts.erase(run.alerts.begin());
  EXPECT_TRUE(Has(PostMortems({run}), "seen by <b>non_finite</b>"));
}

TEST(PostMortemTest, AFailedRunWithAnOldWarningBeganWithoutAnAlert) {
  RunData run = RunOf({{"grad_norm_spike", "old", 90, 100, -1, -1, detect::Severity::kWarning, true}});
  EXPECT_EQ(PostMortems({run}), "") << "nothing went wrong";
  run.state = store::RunState::kFailed;
  EXPECT_TRUE(Has(PostMortems({run}), "without an alert"));
  run.alerts[0].resolved_because = "run failed";
  EXPECT_TRUE(Has(PostMortems({run}), "seen by <b>grad_norm_spike</b>")) << "it was open to the end";
}

}  // namespace
}  // namespace foreshock::report
