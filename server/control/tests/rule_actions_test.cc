// Rules act through the real alert service and controls, over a real store.
#include "foreshock/server/control/rule_actions.h"

#include <gtest/gtest.h>

#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

using tests::History;
using tests::Loss;

// The trainers' end: nobody is connected.
class Nobody final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action&) override {}
  void WithdrawAction(const std::string&, const std::string&, const std::string&) override {}
  void SetSampling(const std::string&, const std::string&, const wire::Sampling&) override {}
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
};

class RuleActionsTest : public testing::Test {
 protected:
  ~RuleActionsTest() override { Stop(); }

  // One rule that fires above a loss of 5, and asks for `action`.
  void Start(const std::string& action, RuleActionMode mode, bool allow_stop = false) {
    detect::UserRule rule;
    rule.name = "high_loss";
    rule.signal = 1;  // the loss
    rule.threshold = 5;
    rule.severity = detect::Severity::kCritical;
    rule.action = action;
    alert::AlertOptions alerts;
    alerts.tick_interval = std::chrono::hours(1);
    alerts.detector.user_rules = std::make_shared<detect::UserRules>(detect::UserRules{rule});
    alerts_ = *alert::AlertService::Start(alerts, &history_.store(), &history_.clock());
    ControlOptions control;
    control.store = &history_.store();
    control.outbox = &nobody_;
    control.clock = &history_.clock();
    control.allow_rule_actions = mode == RuleActionMode::kOn;
    control.allow_rule_stop = allow_stop;
    controls_ = *Controls::Start(control);
    RuleActionOptions options;
    options.alerts = alerts_.get();
    options.controls = controls_.get();
    options.clock = &history_.clock();
    options.mode = mode;
    options.most_per_hour = 2;
    actions_ = RuleActions::Start(options);
  }
  void Stop() {
    actions_.reset();
    controls_.reset();
    alerts_.reset();
  }
  // The loss rises above the threshold and falls again, `times` times.
  void Rise(int times) {
    for (int i = 0; i < times; ++i) {
      history_.Put(source_, Loss(step_++, 6));
      history_.Put(source_, Loss(step_++, 4));
    }
    alerts_->Flush();
  }
  v1::ListActionsReply Actions() {
    v1::ListActionsRequest request;
    request.set_run("run");
    return *controls_->ListActions(request);
  }

  History history_;
  Nobody nobody_;
  store::SourceId source_ = history_.Hello("run");
  int64_t step_ = 0;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<Controls> controls_;
  std::unique_ptr<RuleActions> actions_;
};

TEST_F(RuleActionsTest, AFiringRuleActsAndIsOnRecord) {
  Start("qk_clip 80", RuleActionMode::kOn);
  Rise(1);
  const auto reply = Actions();
  ASSERT_EQ(reply.actions_size(), 1);
  const v1::Action& action = reply.actions(0).action();
  EXPECT_EQ(action.kind(), "qk_clip");
  EXPECT_EQ(action.value(), 80);
  EXPECT_EQ(action.issuer(), "rule:high_loss");
  EXPECT_TRUE(action.reason().starts_with("alert run/1/high_loss/critical/0: ")) << action.reason();
  EXPECT_EQ(actions_->counters().proposed, 1u);
}

TEST_F(RuleActionsTest, ADryRunSendsNothing) {
  Start("checkpoint", RuleActionMode::kDryRun);
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 0);
  EXPECT_EQ(actions_->counters().dry, 1u);
}

TEST_F(RuleActionsTest, OffIsOff) {
  Start("checkpoint", RuleActionMode::kOff);
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 0);
  EXPECT_EQ(actions_->counters().dry, 0u);
}

TEST_F(RuleActionsTest, StopNeedsItsOwnConsent) {
  Start("stop", RuleActionMode::kOn);
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 0);
  EXPECT_EQ(actions_->counters().refused, 1u);
  Stop();
  step_ = 100;
  Start("stop", RuleActionMode::kOn, true);
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 1);
}

TEST_F(RuleActionsTest, NoMoreThanAFewWithinAnHour) {
  Start("checkpoint", RuleActionMode::kOn);
  Rise(4);
  EXPECT_EQ(Actions().actions_size(), 2);
  EXPECT_EQ(actions_->counters().limited, 2u);
  history_.clock().Advance(std::chrono::hours(1));
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 3);
}

TEST_F(RuleActionsTest, OneAlertActsOnceAlsoOverARestart) {
  Start("checkpoint", RuleActionMode::kOn);
  history_.Put(source_, Loss(step_++, 6));
  alerts_->Flush();
  EXPECT_EQ(Actions().actions_size(), 1);
  Stop();
  Start("checkpoint", RuleActionMode::kOn);
  history_.Put(source_, Loss(step_++, 7));
  alerts_->Flush();
  EXPECT_EQ(alerts_->Firing().size(), 1u);
  EXPECT_EQ(Actions().actions_size(), 1);
}

}  // namespace
}  // namespace foreshock::control
