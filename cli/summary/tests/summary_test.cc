#include "foreshock/cli/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kOnset = 1000;

void AddLoss(RunRecord* record, int64_t step, float loss) {
  v1::SeriesPoint* point = record->loss.add_points();
  point->set_step(step);
  point->mutable_series()->set_signal(1);
  point->mutable_series()->add_values(loss);
}

// A run that learns to 1.7 by step 1000 and stays at `end` from step 1300 to 2000.
RunRecord Record(const std::string& name, float end) {
  RunRecord record;
  record.run.set_run(name);
  record.run.set_state(v1::RUN_STATE_FINISHED);
  record.run.add_attempts()->set_attempt("a1");
  record.run.mutable_attempts(0)->set_last_step(2000);
  AddLoss(&record, 0, 5.5f);
  for (int64_t step = 10; step <= 2000; step += 10) {
    AddLoss(&record, step, step < 1300 ? 1.7f : end);
    AddLoss(&record, step + 5, 90.f);  // no sample: between the sampled steps
  }
  return record;
}

void WithFault(RunRecord* record) {
  (*record->run.mutable_labels())["fault"] = "delta:0.01";
  (*record->run.mutable_labels())["fault_step"] = std::to_string(kOnset);
}

// As the trainer tells it.
void NoteFault(RunRecord* record, const std::string& detail, int64_t step) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_NOTE);
  event.set_detail(detail);
  event.set_step(step);
  record->events.push_back(event);
}

void AddAlert(RunRecord* record, v1::Severity severity, int64_t fired, int64_t resolved) {
  v1::Alert alert;
  alert.set_attempt("a1");
  alert.set_rule("qk_runaway");
  alert.set_severity(severity);
  alert.set_layer(1);
  alert.set_head(2);
  alert.set_state(resolved > 0 ? v1::ALERT_STATE_RESOLVED : v1::ALERT_STATE_FIRING);
  alert.set_fired_step(fired);
  alert.set_resolved_step(resolved);
  record->alerts.push_back(alert);
}

void GuardOn(RunRecord* record, int64_t step) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_GUARD);
  event.set_detail("on");
  event.set_step(step);
  record->events.push_back(event);
}

TEST(Summarise, TheThreeRunsOfTheQuickstart) {
  RunRecord healthy = Record("healthy", 1.7f);
  RunRecord faulty = Record("faulty", 3.7f);
  WithFault(&faulty);
  AddAlert(&faulty, v1::SEVERITY_WARNING, 1080, 1120);
  AddAlert(&faulty, v1::SEVERITY_CRITICAL, 1120, 0);
  RunRecord guarded = Record("guarded", 1.8f);
  WithFault(&guarded);
  AddAlert(&guarded, v1::SEVERITY_CRITICAL, 1120, 1160);
  GuardOn(&guarded, 1130);

  const auto s = Summarise({healthy, faulty, guarded});
  EXPECT_EQ(s[0].verdict, Verdict::kHealthy);
  EXPECT_EQ(s[1].verdict, Verdict::kCollapsed);
  EXPECT_EQ(s[1].collapse_step, 1320);
  EXPECT_EQ(s[1].first_warning_step, 1080);
  EXPECT_EQ(s[1].lasting_critical_step, 1120);
  EXPECT_EQ(s[1].lead_steps(), 200);
  EXPECT_DOUBLE_EQ(*s[1].lead_share(), 200.0 / 320);
  EXPECT_EQ(s[2].verdict, Verdict::kContained) << s[2].why;
  EXPECT_EQ(s[2].guard_step, 1130);
  EXPECT_FALSE(s[2].critical_at_end);

  const std::string text = RenderSummaries(s, Style{});
  EXPECT_THAT(text, HasSubstr("200 steps (63 % of onset to collapse)"));
  EXPECT_THAT(text, HasSubstr("delta:0.01 from step 1000"));
  EXPECT_THAT(SummariesToJson(s), HasSubstr("\"collapse_step\":1320"));
}

TEST(Summarise, ACriticalThatCameAndWentIsNoLead) {
  RunRecord faulty = Record("faulty", 3.7f);
  WithFault(&faulty);
  AddAlert(&faulty, v1::SEVERITY_CRITICAL, 1100, 1200);
  const auto s = Summarise({faulty});
  EXPECT_EQ(s[0].verdict, Verdict::kCollapsed);
  EXPECT_FALSE(s[0].lead_steps());
  EXPECT_THAT(RenderSummaries(s, Style{}), HasSubstr("step 1100 (did not last)"));
}

TEST(Summarise, AHealthyRunWithACriticalIsNotHealthy) {
  RunRecord record = Record("a", 1.7f);
  AddAlert(&record, v1::SEVERITY_CRITICAL, 500, 600);
  EXPECT_EQ(Summarise({record})[0].verdict, Verdict::kCritical);
}

TEST(Summarise, ContainedOnlyWhenEveryConditionHolds) {
  const RunRecord healthy = Record("healthy", 1.7f);
  RunRecord worse = Record("worse", 2.05f);
  GuardOn(&worse, 1100);
  auto s = Summarise({healthy, worse});
  EXPECT_EQ(s[1].verdict, Verdict::kNotContained);
  EXPECT_THAT(s[1].why, HasSubstr("more than 0.25"));

  RunRecord firing = Record("firing", 1.7f);
  GuardOn(&firing, 1100);
  AddAlert(&firing, v1::SEVERITY_CRITICAL, 1150, 0);
  EXPECT_EQ(Summarise({healthy, firing})[1].verdict, Verdict::kNotContained);
  // The announced end of a run resolves what still fires: it fired to the end all the same.
  firing.alerts[0].set_state(v1::ALERT_STATE_RESOLVED);
  firing.alerts[0].set_resolved_step(2000);
  EXPECT_EQ(Summarise({healthy, firing})[1].verdict, Verdict::kNotContained);
  firing.alerts[0].set_resolved_step(1900);
  EXPECT_EQ(Summarise({healthy, firing})[1].verdict, Verdict::kContained);

  RunRecord early = Record("early", 1.7f);
  WithFault(&early);
  GuardOn(&early, 200);
  EXPECT_EQ(Summarise({healthy, early})[1].verdict, Verdict::kNotContained);

  RunRecord collapsed = Record("collapsed", 3.7f);
  GuardOn(&collapsed, 1100);
  EXPECT_EQ(Summarise({healthy, collapsed})[1].verdict, Verdict::kCollapsed);
}

TEST(Summarise, AlertsOfAnOlderAttemptDoNotCount) {
  RunRecord record = Record("a", 1.7f);
  AddAlert(&record, v1::SEVERITY_CRITICAL, 500, 0);
  record.run.add_attempts()->set_attempt("a2");
  EXPECT_EQ(Summarise({record})[0].verdict, Verdict::kHealthy);
}

TEST(Summarise, AFaultIsToldByANoteOrByTheCaller) {
  RunRecord record = Record("a", 3.7f);
  AddAlert(&record, v1::SEVERITY_WARNING, 500, 600);
  AddAlert(&record, v1::SEVERITY_CRITICAL, 1100, 0);
  EXPECT_EQ(Summarise({record})[0].first_warning_step, 500);
  EXPECT_EQ(Summarise({record}, {.onset_step = 1000})[0].first_warning_step, 1100);
  v1::Event note;
  note.set_kind(v1::EVENT_KIND_NOTE);
  note.set_step(1050);
  note.set_detail("fault delta:0.01");
  record.events.push_back(note);
  const RunSummary summary = Summarise({record})[0];
  EXPECT_EQ(summary.fault, "delta:0.01");
  EXPECT_EQ(summary.onset_step, 1050);
}

TEST(Summarise, WithoutDataNothingIsCalledHealthy) {
  RunRecord record;
  record.run.set_run("empty");
  const auto s = Summarise({record});
  EXPECT_EQ(s[0].verdict, Verdict::kNotLearned);
  EXPECT_FALSE(s[0].final_loss);
}

TEST(Verdict, NamesReadBack) {
  for (const Verdict v : {Verdict::kHealthy, Verdict::kNotLearned, Verdict::kCollapsed, Verdict::kContained,
                          Verdict::kNotContained, Verdict::kCritical}) {
    EXPECT_EQ(ParseVerdict(VerdictName(v)), v);
  }
  EXPECT_FALSE(ParseVerdict("fine"));
}

TEST(Summary, AFaultThatANoteTellsIsShownWithItsFirstStep) {
  RunRecord faulty = Record("faulty", 3.7f);
  NoteFault(&faulty, "learning rate halved", 900);
  NoteFault(&faulty, "fault delta:0.01", kOnset);
  const auto s = Summarise({faulty});
  EXPECT_EQ(s[0].fault, "delta:0.01");
  EXPECT_EQ(s[0].onset_step, kOnset);
  const std::string text = RenderSummaries(s, Style{});
  EXPECT_NE(text.find("delta:0.01 from step " + std::to_string(kOnset)), std::string::npos) << text;
  EXPECT_EQ(text.find("not told"), std::string::npos);
}

}  // namespace
}  // namespace foreshock::cli
