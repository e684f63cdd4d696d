// The stages against a real HTTP receiver, on a clock that the test moves.
#include "foreshock/server/notify/notifier.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "notifier_fixture.h"

namespace foreshock::notify {
namespace {

using nlohmann::json;

using std::chrono::seconds;

TEST_F(NotifierTest, AWebhookHearsOfTheFiringAndOfTheEndOnce) {
  Start(TargetKind::kWebhook);
  Fire("team/run");
  EXPECT_TRUE(After(seconds(1)).empty()) << "waits for more of the group";
  auto got = After(seconds(1));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["status"], "firing");
  EXPECT_EQ(got[0]["run"], "team/run");
  EXPECT_EQ(got[0]["url"], "http://here/report?run=team%2Frun");
  const json alert = got[0]["alerts"][0];
  EXPECT_EQ(alert["labels"]["alertname"], "non_finite");
  EXPECT_EQ(alert["labels"]["severity"], "critical");
  EXPECT_FALSE(alert["annotations"]["advice"].get<std::string>().empty());
  EXPECT_TRUE(alert["endsAt"].is_null());
  EXPECT_EQ(receiver_.authorization(), "Bearer secret");
  EXPECT_TRUE(After(seconds(600)).empty());
  Resolve("team/run");
  got = After(seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["status"], "resolved");
  EXPECT_EQ(got[0]["alerts"][0]["annotations"]["resolved_step"], "4");
  EXPECT_TRUE(After(seconds(600)).empty());
}

TEST_F(NotifierTest, ARestartRepeatsNothingAndForgetsNothing) {
  Start(TargetKind::kWebhook);
  Fire("told");
  EXPECT_EQ(After(seconds(3)).size(), 1u);
  Fire("not told");
  Restart(TargetKind::kWebhook);
  auto got = After(seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["run"], "not told");
  notifier_.reset();
  Resolve("told");  // while nobody notified
  Start(TargetKind::kWebhook);
  got = After(seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["run"], "told");
  EXPECT_EQ(got[0]["status"], "resolved");
  Restart(TargetKind::kWebhook);
  EXPECT_TRUE(After(seconds(3)).empty());
}

TEST_F(NotifierTest, AReceiverThatIsAwayGetsEverythingInOrderLater) {
  receiver_.code = 503;
  Start(TargetKind::kWebhook);
  Fire("run");
  EXPECT_TRUE(After(seconds(3)).empty());
  Resolve("run");
  EXPECT_TRUE(After(seconds(30)).empty());
  EXPECT_EQ(notifier_->counters().pending, 2u);
  receiver_.code = 200;
  const auto got = After(seconds(300));
  ASSERT_EQ(got.size(), 1u);
  ASSERT_EQ(got[0]["alerts"].size(), 2u);
  EXPECT_EQ(got[0]["alerts"][0]["status"], "firing");
  EXPECT_EQ(got[0]["alerts"][1]["status"], "resolved");
  EXPECT_EQ(notifier_->counters().pending, 0u);
  EXPECT_GE(notifier_->counters().failed, 2u);
}

TEST_F(NotifierTest, RetriesAreBounded) {
  receiver_.code = 500;
  NotifyOptions options;
  options.max_attempts = 5;
  Start(TargetKind::kWebhook, options);
  Fire("run");
  for (int i = 0; i < 100; ++i) After(seconds(100));
  EXPECT_EQ(receiver_.calls(), 5);
  EXPECT_EQ(notifier_->counters().given_up, 1u);
  EXPECT_EQ(notifier_->counters().pending, 0u);
}

TEST_F(NotifierTest, PausesBetweenRetriesGrow) {
  receiver_.code = 500;
  Start(TargetKind::kWebhook);
  Fire("run");
  for (int i = 0; i < 600; ++i) After(std::chrono::milliseconds(100));
  EXPECT_GE(receiver_.calls(), 5) << "1, 2, 4, 8, ... seconds, or down to half of it";
  EXPECT_LE(receiver_.calls(), 8);
}

TEST_F(NotifierTest, ARefusalIsNotRepeated) {
  receiver_.code = 400;
  Start(TargetKind::kWebhook);
  Fire("run");
  for (int i = 0; i < 10; ++i) After(seconds(100));
  EXPECT_EQ(receiver_.calls(), 1);
  EXPECT_EQ(notifier_->counters().given_up, 1u);
}

TEST_F(NotifierTest, SlackGetsAText) {
  Start(TargetKind::kSlack);
  Fire("a<b>&c");
  const auto got = After(seconds(3));
  ASSERT_EQ(got.size(), 1u);
  const std::string text = got[0]["text"];
  EXPECT_NE(text.find("*CRITICAL* non_finite at step 1"), std::string::npos) << text;
  EXPECT_NE(text.find("a&lt;b&gt;&amp;c"), std::string::npos) << text;
  EXPECT_NE(text.find("What to do:"), std::string::npos) << text;
}

TEST_F(NotifierTest, AlertmanagerIsToldAgainAndAgainWithAnEndFarEnoughAhead) {
  Start(TargetKind::kAlertmanager);
  Fire("run");
  auto got = After(seconds(0));
  ASSERT_EQ(got.size(), 1u) << "at once: Alertmanager groups by itself";
  const std::string starts = got[0][0]["startsAt"];
  EXPECT_EQ(starts, "2023-11-14T22:13:20.000000000Z");
  EXPECT_EQ(got[0][0]["endsAt"], "2023-11-14T22:17:20.000000000Z") << "four intervals";
  EXPECT_TRUE(After(seconds(30)).empty());
  got = After(seconds(30));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0][0]["startsAt"], starts);
  EXPECT_EQ(got[0][0]["endsAt"], "2023-11-14T22:18:20.000000000Z");
  Resolve("run");
  got = After(seconds(1));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0][0]["endsAt"], "2023-11-14T22:14:20.000000000Z");
  EXPECT_EQ(got[0][0]["labels"], json::parse(R"({"alertname":"non_finite","severity":"critical","run":"run",
      "attempt":"1","source":"foreshock"})"));
  EXPECT_TRUE(After(seconds(600)).empty()) << "one resolved";
}

TEST_F(NotifierTest, AnEndThatAlertmanagerMissedIsToldAfterTheRestart) {
  Start(TargetKind::kAlertmanager);
  Fire("run");
  EXPECT_EQ(After(seconds(0)).size(), 1u);
  receiver_.code = 503;
  Resolve("run");
  EXPECT_TRUE(After(seconds(60)).empty());
  receiver_.code = 200;
  Restart(TargetKind::kAlertmanager);
  const auto got = After(seconds(120));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0][0]["endsAt"], "2023-11-14T22:13:20.001000000Z");
  Restart(TargetKind::kAlertmanager);
  EXPECT_TRUE(After(seconds(120)).empty());
}

TEST_F(NotifierTest, TheHeartbeatGoesOut) {
  Start(TargetKind::kHeartbeat);
  After(seconds(0));
  After(seconds(30));
  After(seconds(30));
  EXPECT_EQ(receiver_.calls(), 2);
}

TEST_F(NotifierTest, BadTargetsAreNamed) {
  NotifyOptions options;
  options.store = &history_.store();
  options.alerts = alerts_.get();
  options.clock = &history_.clock();
  options.targets = {{.kind = TargetKind::kWebhook, .url = "ftp://x"}};
  EXPECT_EQ(Notifier::Start(options).status().message().substr(0, 14), "targets[0].url");
  options.targets = {{.kind = TargetKind::kWebhook, .url = "http://x"},
                     {.kind = TargetKind::kSlack, .url = "http://x"}};
  EXPECT_EQ(Notifier::Start(options).status().message().substr(0, 15), "targets[1].name");
  options.targets = {};
  options.resend_interval = std::chrono::milliseconds(10);
  EXPECT_EQ(Notifier::Start(options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseTargetKind("pigeon").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace foreshock::notify
