// Rules act through the real alert service and controls, over a real store.
#include "foreshock/server/control/rule_actions.h"

#include <gtest/gtest.h>

#include <limits>

#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

using tests::History;
using tests::Loss;

// The trainers' end: nobody is connected.
class Nobody final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action&) override {}
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {}
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
    audit_ = *alert::AuditLog::Open(&history_.store(), &history_.clock());
    control.audit = audit_.get();
    control.allow_rule_actions = mode == RuleActionMode::kOn;
    control.allow_rule_stop = allow_stop;
    controls_ = *Controls::Start(control);
    RuleActionOptions options;
    options.alerts = alerts_.get();
    options.controls = controls_.get();
    options.clock = &history_.clock();
    options.audit = audit_.get();
    options.mode = mode;
    options.most_per_hour = 2;
    options.on_critical = on_critical_;
    actions_ = RuleActions::Start(options);
  }
  void Stop() {
    actions_.reset();
    controls_.reset();
    audit_.reset();
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
  std::vector<std::string> Trail() {
    std::vector<std::string> lines;
    for (const alert::AuditEntry& e : *audit_->Read("run", 100)) lines.push_back(e.who + " " + e.what);
    return lines;
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
  std::map<std::string, std::string> on_critical_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<alert::AuditLog> audit_;
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

TEST_F(RuleActionsTest, ADryRunIsOnTheTrailOnceAlsoOverARestart) {
  Start("checkpoint", RuleActionMode::kDryRun);
  history_.Put(source_, Loss(step_++, 6));
  alerts_->Flush();
  EXPECT_EQ(Trail(), std::vector<std::string>{"rule:high_loss rule_action_dry_run"});
  EXPECT_EQ((*audit_->Read("", 1))[0].subject, "run/1/high_loss/critical/0");
  Stop();
  Start("checkpoint", RuleActionMode::kDryRun);
  EXPECT_EQ(Trail().size(), 1u);
  EXPECT_EQ(actions_->counters().dry, 0u);
}

TEST_F(RuleActionsTest, TheLimitCountsWhatWasDoneBeforeARestart) {
  Start("checkpoint", RuleActionMode::kOn);
  Rise(2);
  EXPECT_EQ(Actions().actions_size(), 2);
  Stop();
  Start("checkpoint", RuleActionMode::kOn);
  Rise(1);
  EXPECT_EQ(Actions().actions_size(), 2);
  EXPECT_EQ(actions_->counters().limited, 1u);
  EXPECT_EQ(Trail()[0], "rule:high_loss rule_action_limited");
}

TEST_F(RuleActionsTest, ABuiltInRuleActsWhenItTurnsCritical) {
  on_critical_ = {{"non_finite", "checkpoint"}};
  Start("", RuleActionMode::kOn);
  history_.Put(source_, Loss(step_++, 6));
  alerts_->Flush();
  EXPECT_EQ(Actions().actions_size(), 0) << "another rule's";
  history_.Put(source_, Loss(step_++, std::numeric_limits<float>::quiet_NaN()));
  alerts_->Flush();
  ASSERT_EQ(Actions().actions_size(), 1);
  EXPECT_EQ(Actions().actions(0).action().issuer(), "rule:non_finite");
}

TEST(OnCritical, IsChecked) {
  EXPECT_TRUE(CheckOnCritical("qk_runaway", "enable_qk_norm").ok());
  EXPECT_TRUE(CheckOnCritical("qk_runaway", "qk_clip 80").ok());
  for (const char* action : {"", "reboot", "qk_clip", "qk_clip -1", "qk_clip nan", "qk_clip 8x"}) {
    EXPECT_EQ(CheckOnCritical("qk_runaway", action).code(), Code::kInvalidArgument) << action;
  }
  EXPECT_EQ(CheckOnCritical("qk_run", "stop").code(), Code::kInvalidArgument);
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
