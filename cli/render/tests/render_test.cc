#include "foreshock/cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/cli/values.h"

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Series Heads(uint32_t signal, uint32_t layer, std::vector<float> values) {
  v1::Series series;
  series.set_signal(signal);
  series.set_layer(layer);
  series.set_head_count(static_cast<uint32_t>(values.size()));
  for (const float value : values) series.add_values(value);
  return series;
}

v1::Series Loss(float value) {
  v1::Series series;
  series.set_signal(1);
  series.add_values(value);
  return series;
}

TEST(HeadValues, MissingIsNotZeroAndNanStays) {
  v1::Series series = Heads(96, 0, {1.5f, NAN});
  series.set_head_count(3);
  series.set_presence("\x05");  // heads 0 and 2
  const auto values = HeadValues(series);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].value, 1.5);
  EXPECT_FALSE(values[1].value);
  ASSERT_TRUE(values[2].value);
  EXPECT_TRUE(std::isnan(*values[2].value));
}

TEST(HeadValues, ARatioIsItsQuotientAndMissingWithoutDenominator) {
  v1::Series series = Heads(98, 0, {3, 2});  // tied_row_fraction
  series.add_weights(12);
  series.add_weights(0);
  const auto values = HeadValues(series);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].value, 0.25);
  EXPECT_FALSE(values[1].value);
}

TEST(HeadValues, PartsThatDoNotFitGiveNothing) {
  v1::Series series = Heads(96, 0, {1, 2});
  series.set_head_count(5);
  EXPECT_TRUE(HeadValues(series).empty());
}

TEST(ScalarValue, ByName) {
  v1::Frame frame;
  *frame.add_series() = Loss(1.25f);
  EXPECT_EQ(ScalarValue(frame, "loss"), 1.25);
  EXPECT_FALSE(ScalarValue(frame, "grad_norm"));
  EXPECT_FALSE(ScalarValue(frame, "no_such_signal"));
}

TEST(RenderRuns, TableAndForeignTextMadeSafe) {
  v1::ListRunsReply reply;
  EXPECT_EQ(RenderRuns(reply, Style{}), "no runs\n");
  v1::Run* run = reply.add_runs();
  run->set_run("gpt\x1b[2J");
  run->set_state(v1::RUN_STATE_RUNNING);
  run->set_last_step(1200);
  run->set_last_loss(1.7f);
  run->set_firing_criticals(1);
  run->set_firing_warnings(2);
  const std::string text = RenderRuns(reply, Style{});
  EXPECT_THAT(text, HasSubstr("gpt?[2J  running  1200   1.7"));
  EXPECT_THAT(text, HasSubstr("1 critical, 2 warning"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(RenderRun, SaysWhatIsNotMonitored) {
  v1::Run run;
  run.set_run("gpt");
  auto* part = run.add_unmonitored();
  part->set_name("layer 3");
  part->set_reason("linear attention");
  auto* attempt = run.add_attempts();
  attempt->set_attempt("a1");
  attempt->set_source(v1::ATTEMPT_SOURCE_SLURM);
  attempt->set_first_step(0);
  attempt->set_last_step(212);
  attempt->add_sources()->set_dropped(7);
  const std::string text = RenderRun(run, Style{});
  EXPECT_THAT(text, HasSubstr("unmonitored layer 3: linear attention"));
  EXPECT_THAT(text, HasSubstr("a1       slurm      0  0..212"));
  EXPECT_THAT(text, HasSubstr("dropped"));
}

v1::Alert Critical() {
  v1::Alert alert;
  alert.set_run("gpt");
  alert.set_rule("qk_runaway");
  alert.set_severity(v1::SEVERITY_CRITICAL);
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_layer(1);
  alert.set_head(0);
  alert.set_first_step(1100);
  alert.set_fired_step(1180);
  alert.set_summary("runs away");
  alert.set_last_checkpoint_step(1000);
  alert.set_advice("roll back");
  auto* evidence = alert.add_evidence();
  evidence->set_name("qk_sigma1");
  evidence->set_value(9.5);
  evidence->set_baseline(2);
  evidence->set_has_baseline(true);
  return alert;
}

TEST(AlertLine, FiringAndResolved) {
  v1::Alert alert = Critical();
  EXPECT_EQ(AlertLine(alert, Style{}), "CRITICAL  step 1180  qk_runaway  layer 1 head 0  runs away\n");
  alert.set_state(v1::ALERT_STATE_RESOLVED);
  alert.set_resolved_step(1300);
  EXPECT_THAT(AlertLine(alert, Style{}), HasSubstr("step 1300  resolved: qk_runaway"));
}

TEST(RenderAlertDetail, EvidenceCheckpointAdvice) {
  const std::string text = RenderAlertDetail(Critical(), Style{});
  EXPECT_THAT(text, HasSubstr("qk_sigma1 = 9.5 (usual: 2)"));
  EXPECT_THAT(text, HasSubstr("last checkpoint before it: step 1000"));
  EXPECT_THAT(text, HasSubstr("do: roll back"));
}

TEST(RenderSeries, ScalarsAsColumnAndSparklineOnATerminalOnly) {
  v1::SeriesPoints points;
  for (int i = 0; i < 3; ++i) {
    v1::SeriesPoint* point = points.add_points();
    point->set_step(i * 10);
    *point->mutable_series() = Loss(static_cast<float>(i));
  }
  EXPECT_EQ(RenderSeries(points, std::nullopt, Style{}),
            "loss\nstep  loss\n   0     0\n  10     1\n  20     2\n");
  EXPECT_THAT(RenderSeries(points, std::nullopt, Style{.terminal = true}), HasSubstr("▁▅█"));
  EXPECT_EQ(RenderSeries({}, std::nullopt, Style{}), "no points\n");
}

TEST(RenderSeries, SpreadOfHeadsShowsNanAsTheWorst) {
  v1::SeriesPoints points;
  v1::SeriesPoint* point = points.add_points();
  point->set_step(10);
  *point->mutable_series() = Heads(96, 2, {1, NAN, 3});
  const std::string text = RenderSeries(points, std::nullopt, Style{});
  EXPECT_THAT(text, HasSubstr("logit_max layer 2"));
  EXPECT_THAT(text, HasSubstr("  10    1       3  NaN        1"));
  EXPECT_THAT(RenderSeries(points, 2, Style{}), HasSubstr("  10          3"));
}

TEST(RenderHeads, RowsOfLayersWithDifferentHeadCounts) {
  v1::StepReply reply;
  reply.set_step(40);
  *reply.mutable_frame()->add_series() = Heads(40, 1, {1, 2, 3});
  *reply.mutable_frame()->add_series() = Heads(40, 0, {7});
  *reply.mutable_frame()->add_series() = Heads(96, 0, {99});
  EXPECT_EQ(RenderHeads(reply, "qk_sigma1", Style{}),
            "qk_sigma1 at step 40 (layer x head)\n"
            "layer  h0  h1  h2\n"
            "0       7\n"
            "1       1   2   3\n");
  EXPECT_EQ(RenderHeads(reply, "entropy_mean", Style{}), "no entropy_mean at step 40\n");
}

TEST(EventLine, ActionsTellTheirEffect) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_ACTION);
  event.set_step(1290);
  event.set_action("enable_qk_norm");
  event.set_action_state(v1::ACTION_STATE_EFFECTIVE);
  event.set_logit_before(120);
  event.set_logit_after(4);
  EXPECT_EQ(EventLine(event, Style{}),
            "event     step 1290  enable_qk_norm effective, largest logit 120 -> 4\n");
}

TEST(RenderStatus, CountersByName) {
  v1::ServerStatus status;
  status.set_health("disk full: appending stops");
  (*status.mutable_counters())["frames"] = 5;
  (*status.mutable_counters())["duplicates"] = 0;
  const std::string text = RenderStatus(status, Style{});
  EXPECT_THAT(text, HasSubstr("health: disk full: appending stops\n"));
  EXPECT_THAT(text, HasSubstr("duplicates      0\nframes          5\n"));
}

TEST(RenderCatalogue, HoldsEverySignal) {
  const std::string text = RenderCatalogue(Style{});
  EXPECT_THAT(text, HasSubstr("qk_sigma1"));
  EXPECT_THAT(text, HasSubstr("delta_error"));
}

}  // namespace
}  // namespace foreshock::cli
