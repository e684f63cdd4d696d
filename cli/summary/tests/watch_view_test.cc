#include "foreshock/cli/watch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::WatchUpdate Step(int64_t step, float loss) {
  v1::WatchUpdate update;
  update.mutable_step()->set_step(step);
  v1::Series* series = update.mutable_step()->mutable_frame()->add_series();
  series->set_signal(1);
  series->add_values(loss);
  return update;
}

v1::WatchUpdate Critical(int64_t fired, v1::AlertState state = v1::ALERT_STATE_FIRING) {
  v1::WatchUpdate update;
  update.mutable_alert()->set_id("a");
  update.mutable_alert()->set_rule("qk_runaway");
  update.mutable_alert()->set_severity(v1::SEVERITY_CRITICAL);
  update.mutable_alert()->set_state(state);
  update.mutable_alert()->set_fired_step(fired);
  return update;
}

v1::WatchUpdate State(v1::RunState state) {
  v1::WatchUpdate update;
  update.set_state(state);
  return update;
}

v1::StepReply Heads(float a, float b) {
  v1::StepReply reply;
  v1::Series* series = reply.mutable_frame()->add_series();
  series->set_signal(40);
  series->set_layer(1);
  series->set_head_count(3);
  for (const float value : {a, b, 1.f}) series->add_values(value);
  return reply;
}

// A run that has learned: 5.5 to 1.7 at step 600.
void Learn(WatchView* view) {
  view->Take(Step(0, 5.5f), nullptr);
  for (int64_t step = 10; step <= 600; step += 10) view->Take(Step(step, 1.7f), nullptr);
}

TEST(WatchView, ALineEachTimeEnoughStepsHaveGoneBy) {
  WatchView view({}, Style{});
  EXPECT_EQ(view.Take(Step(3, 5.5f), nullptr), "step       3  loss    5.5\n") << "the first one it sees";
  EXPECT_THAT(view.Take(Step(49, 5.4f), nullptr), IsEmpty());
  EXPECT_THAT(view.Take(Step(50, 5.4f), nullptr), HasSubstr("step      50"));
  EXPECT_THAT(view.Take(Step(99, 5.4f), nullptr), IsEmpty());
  EXPECT_THAT(view.Take(Step(103, 5.4f), nullptr), HasSubstr("step     103")) << "step 100 was not seen";
  EXPECT_THAT(view.Take(Step(20, 5.5f), nullptr), HasSubstr("step      20")) << "a resumed run goes back";
}

TEST(WatchView, NamesTheHeadThatGrows) {
  WatchView view({.every_steps = 10}, Style{});
  view.Take(Step(0, 5.5f), [] { return Heads(1, 2); });
  EXPECT_THAT(view.Take(Step(10, 5.4f), [] { return Heads(1, 6); }),
              HasSubstr("layer 1 head 1 qk_sigma1 6, 3x the median head's growth"));
}

TEST(WatchView, TellsTheLeadWhenTheLossFollowsTheCritical) {
  WatchView view({}, Style{});
  Learn(&view);
  EXPECT_THAT(view.Take(Critical(600), nullptr), HasSubstr("CRITICAL  step 600"));
  std::string text;
  for (int64_t step = 610; step <= 700; step += 10) text += view.Take(Step(step, 4.0f), nullptr);
  EXPECT_THAT(text, HasSubstr("COLLAPSE  step 630"));
  EXPECT_THAT(text, HasSubstr("the critical alert of step 600 came 30 steps before"));
  EXPECT_EQ(text.find("COLLAPSE"), text.rfind("COLLAPSE")) << "told once";
  EXPECT_EQ(view.Closing(), "collapsed at step 630\n");
}

TEST(WatchView, ACollapseWithoutWarningIsToldAsSuch) {
  WatchView view({}, Style{});
  Learn(&view);
  view.Take(Critical(500), nullptr);
  view.Take(Critical(500, v1::ALERT_STATE_RESOLVED), nullptr);
  std::string text;
  for (int64_t step = 610; step <= 700; step += 10) text += view.Take(Step(step, 4.0f), nullptr);
  EXPECT_THAT(text, HasSubstr("no critical alert before it"));
}

TEST(WatchView, WhatOnlyInformsIsLeftOutUnlessAskedFor) {
  v1::WatchUpdate info = Critical(50);
  info.mutable_alert()->set_severity(v1::SEVERITY_INFO);
  v1::WatchUpdate eased = Critical(50, v1::ALERT_STATE_RESOLVED);
  eased.mutable_alert()->set_severity(v1::SEVERITY_WARNING);
  WatchView brief({}, Style{}), all({.all_alerts = true}, Style{});
  for (const v1::WatchUpdate& update : {info, eased}) {
    EXPECT_THAT(brief.Take(update, nullptr), IsEmpty());
    EXPECT_THAT(all.Take(update, nullptr), HasSubstr("qk_runaway"));
  }
  EXPECT_THAT(brief.Take(Critical(50, v1::ALERT_STATE_RESOLVED), nullptr), HasSubstr("resolved"));
}

TEST(WatchView, EndsWellOnlyWhenAnnouncedAndNothingFires) {
  WatchView view({}, Style{});
  EXPECT_FALSE(view.EndedWell());
  EXPECT_EQ(view.Closing(), "no loss was seen\n");
  EXPECT_THAT(view.Take(State(v1::RUN_STATE_RUNNING), nullptr), IsEmpty());
  EXPECT_EQ(view.Take(State(v1::RUN_STATE_FINISHED), nullptr), "run is finished\n");
  EXPECT_THAT(view.Take(State(v1::RUN_STATE_FINISHED), nullptr), IsEmpty());
  EXPECT_TRUE(view.EndedWell());
  view.Take(Critical(10), nullptr);
  EXPECT_FALSE(view.EndedWell());
}

}  // namespace
}  // namespace foreshock::cli
