#include "foreshock/server/alert/alert_service.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <mutex>

#include "foreshock/server/detect/rule_info.h"
#include "foreshock/tests/history.h"

namespace foreshock::alert {
namespace {

using tests::History;
using tests::Loss;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Writes down what it hears: "firing non_finite 3".
class Ear final : public AlertListener {
 public:
  void OnAlert(const AlertRecord& record) override {
    std::lock_guard lock(mutex_);
    const bool firing = record.alert.state == AlertState::kFiring;
    heard_.push_back((firing ? "firing " : "resolved ") + record.alert.rule + " " +
                     std::to_string(firing ? record.alert.fired_step : record.alert.resolved_step));
  }
  std::vector<std::string> heard() const {
    std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> heard_;
};

using Heard = std::vector<std::string>;

class AlertServiceTest : public testing::Test {
 protected:
  void Start(AlertOptions options = {}) {
    options.tick_interval = std::chrono::hours(1);  // the tests call Tick
    options.listener = &ear_;
    // Three rules with plain conditions are enough here, whatever the others are tuned to.
    for (const detect::RuleInfo& rule : detect::BuiltInRules()) {
      const bool used = rule.name == "non_finite" || rule.name == "stalled" || rule.name == "two_writers";
      if (!used) options.detector.disabled_rules.emplace_back(rule.name);
    }
    auto service = AlertService::Start(options, &history_.store(), &history_.clock());
    ASSERT_TRUE(service.ok()) << service.status().ToString();
    service_ = *std::move(service);
  }
  void Stop() { service_.reset(); }
  void Restart() {
    Stop();
    history_.Reopen();
    Start();
  }
  std::vector<AlertRecord> Alerts(const std::string& run) {
    service_->Flush();
    auto records = service_->OfRun(run);
    EXPECT_TRUE(records.ok()) << records.status().ToString();
    return records.ok() ? *records : std::vector<AlertRecord>();
  }

  History history_;
  Ear ear_;
  std::unique_ptr<AlertService> service_;
};

TEST_F(AlertServiceTest, FiresAndResolvesFromDurableFrames) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  history_.Checkpoint(source, 1);  // saved after the step, as trainers do
  history_.Put(source, Loss(2, kNan));
  auto alerts = Alerts("run");
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].alert.rule, "non_finite");
  EXPECT_EQ(alerts[0].alert.last_checkpoint_step, 1);
  EXPECT_EQ(alerts[0].last_checkpoint, "ckpt/1");
  EXPECT_EQ(alerts[0].fired_unix_ns, history_.clock().WallNanos());
  EXPECT_EQ(service_->Firing().size(), 1u);
  for (int64_t step = 3; step < 10; ++step) history_.Put(source, Loss(step, 4));
  alerts = Alerts("run");
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].alert.state, AlertState::kResolved);
  EXPECT_TRUE(service_->Firing().empty());
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 2", "resolved non_finite 5"}));
}

// Killed at 60 after a checkpoint at 50, resumed from the one at 40: what happens at 45 is rolled back to 40.
TEST_F(AlertServiceTest, AResumedAttemptKnowsTheCheckpointItBeganWith) {
  Start();
  auto source = history_.Hello("run", "1");
  for (int64_t step = 0; step <= 60; step += 5) {
    history_.Put(source, Loss(step, 4));
    if (step == 30 || step == 40 || step == 50) history_.Checkpoint(source, step);
  }
  source = history_.Hello("run", "2");
  history_.Put(source, Loss(41, 4));
  history_.Put(source, Loss(45, kNan));
  service_->Flush();
  ASSERT_EQ(service_->Firing().size(), 1u);
  EXPECT_EQ(service_->Firing()[0].alert.last_checkpoint_step, 40);
  EXPECT_EQ(service_->Firing()[0].last_checkpoint, "ckpt/40");
  Restart();
  service_->Flush();
  history_.Put(source, Loss(46, 4));
  for (int64_t step = 47; step < 52; ++step) history_.Put(source, Loss(step, 4));
  history_.Checkpoint(source, 51);
  history_.Put(source, Loss(60, kNan));
  const auto alerts = Alerts("run");
  ASSERT_EQ(alerts.size(), 2u);
  EXPECT_EQ(alerts[0].alert.last_checkpoint_step, 51) << "its own";
  EXPECT_EQ(alerts[1].alert.last_checkpoint_step, 40);
}

detect::UserRulesPtr HighLoss(double threshold) {
  detect::UserRule rule;
  rule.name = "high_loss";
  rule.signal = 1;  // the loss
  rule.threshold = threshold;
  return std::make_shared<detect::UserRules>(detect::UserRules{rule});
}

TEST_F(AlertServiceTest, UserRulesAreReplacedWhileRunsGoOn) {
  AlertOptions options;
  options.detector.user_rules = HighLoss(5);
  Start(options);
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 6));
  EXPECT_EQ(Alerts("run").size(), 1u);
  service_->SetUserRules(HighLoss(5));
  EXPECT_EQ(service_->Firing().size(), 1u) << "the same rule goes on";
  service_->SetUserRules(HighLoss(7));
  EXPECT_EQ(Alerts("run")[0].resolved_because, "rule removed or changed");
  history_.Put(source, Loss(2, 6));
  EXPECT_TRUE(Alerts("run").size() == 1 && service_->Firing().empty());
  history_.Put(source, Loss(3, 8));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing high_loss 1", "resolved high_loss 1", "firing high_loss 3"}));
  // A run that begins afterwards is judged by the new rules.
  const auto other = history_.Hello("other");
  history_.Put(other, Loss(1, 8));
  EXPECT_EQ(Alerts("other").size(), 1u);
}

TEST_F(AlertServiceTest, ARuleThatWentWhileNoServerRanLeavesNothingOpen) {
  AlertOptions options;
  options.detector.user_rules = HighLoss(5);
  Start(options);
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 6));
  service_->Flush();
  EXPECT_EQ(service_->Firing().size(), 1u);
  Restart();
  const auto alerts = Alerts("run");
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].alert.state, AlertState::kResolved);
  EXPECT_EQ(alerts[0].resolved_because, "rule removed or changed");
  EXPECT_EQ(ear_.heard(), (Heard{"firing high_loss 1", "resolved high_loss 1"}));
}

TEST_F(AlertServiceTest, ARunThatNobodyKnowsIsNotFound) {
  Start();
  EXPECT_EQ(service_->OfRun("nobody").status().code(), Code::kNotFound);
}

TEST_F(AlertServiceTest, AfterARestartNothingFiresTwiceAndNothingIsLost) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  history_.Put(source, Loss(2, kNan));
  service_->Flush();
  // Made durable while nobody judged: the server was killed in between.
  Stop();
  history_.Put(source, Loss(3, 4));
  history_.Put(source, Loss(4, 4));
  Restart();
  EXPECT_EQ(service_->Firing().size(), 1u) << "there at once, from the store";
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 2"}));
  const auto again = history_.Hello("run");
  history_.Put(again, Loss(5, 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 2", "resolved non_finite 5"}));
}

// A run of a million steps must not cost a restart a million reads.
TEST_F(AlertServiceTest, OfALongHistoryABoundedPartIsReadAgain) {
  AlertOptions options;
  options.rebuild = {.head_steps = 50, .tail_steps = 100, .blocks = 10, .block_steps = 5};
  Start(options);
  const auto source = history_.Hello("run");
  for (int64_t step = 1; step <= 3000; ++step) history_.Put(source, Loss(step, step == 3000 ? kNan : 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), Heard{"firing non_finite 3000"});
  Stop();
  for (int64_t step = 3001; step <= 3002; ++step) history_.Put(source, Loss(step, 4));
  history_.Reopen();
  Start(options);
  service_->Flush();
  EXPECT_EQ(service_->counters().steps, 50u + 100u + 10u * 5u + 2u);
  EXPECT_EQ(service_->Firing().size(), 1u);
  const auto again = history_.Hello("run");
  history_.Put(again, Loss(3003, 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 3000", "resolved non_finite 3003"}));
}

TEST_F(AlertServiceTest, AnAlertOfTheTimeWhenTheServerWasDownFiresAfterTheRestart) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  service_->Flush();
  Stop();
  history_.Put(source, Loss(2, kNan));
  Start();
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 2"}));
}

TEST_F(AlertServiceTest, AGoodbyeResolvesWhatIsOpenOnceAndForAll) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, kNan));
  history_.Goodbye(source, 1);
  auto alerts = Alerts("run");
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].alert.state, AlertState::kResolved);
  EXPECT_EQ(alerts[0].resolved_because, "run finished");
  EXPECT_EQ(service_->counters().open_attempts, 0u);
  Restart();
  service_->Flush();
  history_.clock().Advance(std::chrono::hours(10));
  service_->Tick();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 1", "resolved non_finite 1"}));
  EXPECT_EQ(service_->counters().open_attempts, 0u);
}

TEST_F(AlertServiceTest, AFailedRunKeepsItsAlertsForAWhile) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, kNan));
  history_.Goodbye(source, 1, wire::GoodbyeStatus::kFailed);
  service_->Tick();
  EXPECT_EQ(service_->Firing().size(), 1u);
  history_.clock().Advance(std::chrono::minutes(61));
  service_->Tick();
  EXPECT_TRUE(service_->Firing().empty());
  EXPECT_EQ(Alerts("run")[0].resolved_because, "run failed a while ago");
}

TEST_F(AlertServiceTest, ANewerAttemptEndsTheQuietOldOne) {
  Start();
  const auto first = history_.Hello("run", "1");
  history_.Put(first, Loss(212, kNan));
  const auto second = history_.Hello("run", "2");
  history_.Put(second, Loss(200, 4));
  service_->Tick();
  EXPECT_EQ(service_->Firing().size(), 1u);
  history_.clock().Advance(std::chrono::seconds(61));
  history_.Put(second, Loss(201, 4));
  service_->Tick();
  EXPECT_TRUE(service_->Firing().empty());
  EXPECT_EQ(Alerts("run")[0].resolved_because, "newer attempt");
  history_.Put(second, Loss(202, kNan));
  service_->Flush();
  ASSERT_EQ(service_->Firing().size(), 1u) << "the newer one is judged by itself";
  EXPECT_EQ(service_->Firing()[0].alert.attempt, "2");
}

TEST_F(AlertServiceTest, ARestartUnderTheSameAttemptAfterItsEndIsJudgedAgain) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  history_.Goodbye(source, 1, wire::GoodbyeStatus::kStopped);
  service_->Flush();
  EXPECT_EQ(service_->counters().open_attempts, 0u);
  auto hello = tests::SmallHello("run");
  hello.incarnation = 77;
  const auto again = history_.Hello(hello);
  history_.Put(again, Loss(2, kNan));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 2"}));
}

TEST_F(AlertServiceTest, WhatAnEndResolvedFiresAgainWhenTheAttemptGoesOn) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, kNan));
  history_.Goodbye(source, 1, wire::GoodbyeStatus::kStopped);
  service_->Flush();
  auto hello = tests::SmallHello("run");
  hello.incarnation = 77;
  const auto again = history_.Hello(hello);
  history_.Put(again, Loss(2, kNan));
  for (int64_t step = 3; step < 6; ++step) history_.Put(again, Loss(step, 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 1", "resolved non_finite 1", "firing non_finite 1",
                                 "resolved non_finite 5"}));
}

TEST_F(AlertServiceTest, ASilentRunIsStalledUntilItGoesOn) {
  Start();
  const auto source = history_.Hello("run");
  for (int64_t step = 1; step <= 30; ++step) {
    history_.Put(source, Loss(step, 4));
    history_.clock().Advance(std::chrono::seconds(1));
  }
  service_->Tick();
  EXPECT_TRUE(service_->Firing().empty());
  history_.clock().Advance(std::chrono::seconds(400));
  for (int i = 0; i < 5; ++i) service_->Tick();
  ASSERT_EQ(service_->Firing().size(), 1u);
  EXPECT_EQ(service_->Firing()[0].alert.rule, "stalled");
  for (int64_t step = 31; step <= 60; ++step) history_.Put(source, Loss(step, 4));
  service_->Flush();
  EXPECT_TRUE(service_->Firing().empty());
}

// The second process has begun a minute after the first, and both go on.
TEST_F(AlertServiceTest, TwoLiveProcessesOfOneRankAreToldWhileBothWrite) {
  Start();
  const auto process = [&](uint64_t incarnation, uint32_t pid) {
    auto hello = tests::SmallHello("run");
    hello.incarnation = incarnation;
    hello.pid = pid;
    hello.started_unix_ns = static_cast<uint64_t>(history_.clock().WallNanos());
    return history_.Hello(hello);
  };
  const auto first = process(1, 41);
  history_.Put(first, Loss(1, 4));
  history_.clock().Advance(std::chrono::seconds(60));
  const auto second = process(2, 42);
  history_.Put(second, Loss(2, 4));
  service_->Tick();
  history_.Put(second, Loss(3, 4));
  service_->Flush();
  EXPECT_TRUE(ear_.heard().empty()) << "a restart";
  history_.clock().Advance(std::chrono::seconds(10));
  history_.Put(first, Loss(4, 4));
  service_->Tick();
  history_.Put(second, Loss(5, 4));
  service_->Flush();
  ASSERT_EQ(service_->Firing().size(), 1u);
  EXPECT_EQ(service_->Firing()[0].alert.summary,
            "two processes write as rank 0: pid 41 on node1 and pid 42 on node1");
  // After a restart of the server it is found again and not told again.
  Restart();
  service_->Flush();
  service_->Tick();
  history_.clock().Advance(std::chrono::seconds(10));
  history_.Put(first, Loss(6, 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), Heard{"firing two_writers 5"});
  history_.clock().Advance(std::chrono::seconds(61));
  history_.Put(second, Loss(7, 4));
  service_->Tick();
  history_.Put(second, Loss(8, 4));
  service_->Flush();
  EXPECT_EQ(ear_.heard(), (Heard{"firing two_writers 5", "resolved two_writers 8"}));
}

TEST_F(AlertServiceTest, AnAnnouncedEndIsNotStalled) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  history_.Goodbye(source, 1);
  history_.clock().Advance(std::chrono::hours(2));
  for (int i = 0; i < 5; ++i) service_->Tick();
  EXPECT_TRUE(ear_.heard().empty());
}

// Holds the service's thread in the first call until it may go on.
class Gate final : public AlertListener {
 public:
  void OnAlert(const AlertRecord&) override { opened_.wait(); }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

class FullQueue : public AlertServiceTest, public testing::WithParamInterface<bool> {};

TEST_P(FullQueue, IsMadeUpForFromTheStore) {
  AlertOptions options;
  if (GetParam()) {
    options.queue_bytes = 1;
  } else {
    options.queue_capacity = 1;
  }
  Start(options);
  Gate gate;
  const auto held = service_->Subscribe(&gate);
  const auto source = history_.Hello("run");
  for (int64_t step = 1; step <= 300; ++step) {
    const bool bad = step >= 100 && step < 103;
    history_.Put(source, Loss(step, bad ? kNan : 4));
  }
  gate.Open();
  service_->Flush();
  EXPECT_EQ(service_->counters().steps, 300u);
  EXPECT_GT(service_->counters().catch_ups, 0u);
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 100", "resolved non_finite 105"}));
}
INSTANTIATE_TEST_SUITE_P(ByRecordsAndByBytes, FullQueue, testing::Bool());

TEST_F(AlertServiceTest, ADeletedRunLeavesNothing) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, kNan));
  service_->Flush();
  ASSERT_EQ(service_->Firing().size(), 1u);
  ASSERT_TRUE(history_.store().DeleteRun("run").ok());
  service_->Flush();
  EXPECT_TRUE(service_->Firing().empty());
  EXPECT_TRUE(service_->All()->empty());
  EXPECT_EQ(service_->counters().open_attempts, 0u);
}

TEST_F(AlertServiceTest, AStateThatCannotBeReadIsJudgedFromTheStart) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, kNan));
  service_->Flush();
  Stop();
  const store::MetaEntry broken[] = {{"alert_engine", "run", "1", "garbage"}, {"alert", "run", "x", "{"}};
  ASSERT_TRUE(history_.store().PutMeta(broken).ok());
  Start();
  service_->Flush();
  // The same step gives the same id, so that notifiers see that they know it.
  EXPECT_EQ(ear_.heard(), (Heard{"firing non_finite 1", "firing non_finite 1"}));
  EXPECT_EQ(Alerts("run").size(), 1u);
}

TEST_F(AlertServiceTest, ManyRunsAtOnce) {
  Start();
  for (int i = 0; i < 40; ++i) {
    const auto source = history_.Hello("run" + std::to_string(i));
    for (int64_t step = 1; step <= 20; ++step) history_.Put(source, Loss(step, step == 10 ? kNan : 3));
    history_.Goodbye(source, 20);
  }
  service_->Flush();
  EXPECT_EQ(service_->All()->size(), 40u);
  EXPECT_TRUE(service_->Firing().empty());
  EXPECT_EQ(service_->counters().open_attempts, 0u);
}

}  // namespace
}  // namespace foreshock::alert
