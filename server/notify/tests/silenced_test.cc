// What silences do to notifications, and how incidents are grouped, against real HTTP receivers.
#include <nlohmann/json.hpp>

#include "incidents.h"
#include "notifier_fixture.h"
#include "payload.h"
#include "silence_copies.h"

namespace foreshock::notify {
namespace {

class SilencedTest : public NotifierTest {
 protected:
  alert::Silence Silence(const std::string& run, std::chrono::seconds length = std::chrono::hours(1)) {
    alert::Silence s;
    s.run = run;
    s.author = "ada";
    s.ends_unix_ns = history_.clock().WallNanos() + std::chrono::nanoseconds(length).count();
    return *silences_->Create(s);
  }
};

TEST_F(SilencedTest, NobodyHearsOfWhatIsSilencedAndOfItsEnd) {
  Start(TargetKind::kWebhook);
  Silence("run");
  Fire("run");
  Fire("other");
  auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["run"], "other");
  EXPECT_EQ(notifier_->counters().silenced, 1u);
  EXPECT_EQ(notifier_->counters().pending, 0u);
  Resolve("run");
  EXPECT_TRUE(After(std::chrono::seconds(600)).empty());
  EXPECT_EQ(notifier_->counters().silenced, 0u);
}

TEST_F(SilencedTest, WhatStillFiresIsToldWhenTheSilenceIsOver) {
  Start(TargetKind::kWebhook);
  Silence("run", std::chrono::minutes(10));
  Fire("run");
  EXPECT_TRUE(After(std::chrono::seconds(3)).empty());
  Restart(TargetKind::kWebhook);  // it holds over kill -9
  EXPECT_TRUE(After(std::chrono::seconds(3)).empty());
  EXPECT_TRUE(After(std::chrono::minutes(10)).empty()) << "released, waits for its group";
  const auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["status"], "firing");
}

TEST_F(SilencedTest, TheEndOfWhatWasToldBeforeIsTold) {
  Start(TargetKind::kWebhook);
  Fire("run");
  EXPECT_EQ(After(std::chrono::seconds(3)).size(), 1u);
  Silence("run");
  Resolve("run");
  const auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["status"], "resolved");
}

TEST_F(SilencedTest, AnAcknowledgedAlertIsNotToldAgainAfterARetry) {
  receiver_.code = 503;
  Start(TargetKind::kWebhook);
  Fire("run");
  EXPECT_TRUE(After(std::chrono::seconds(3)).empty());
  alert::AcknowledgeOptions ask;
  ask.run = "run";
  ASSERT_EQ(silences_->Acknowledge(ask)->size(), 1u);
  receiver_.code = 200;
  EXPECT_TRUE(After(std::chrono::seconds(600)).empty());
}

TEST_F(SilencedTest, TheRunsLabelsGoAlongAndCannotStandInForOurs) {
  Start(TargetKind::kWebhook);
  wire::Hello hello = tests::SmallHello("run");
  hello.labels = {{"team", "nlp"}, {"cost-center", "7"}, {"severity", "none"}, {"layer", "9"}, {"empty", ""}};
  history_.Put(history_.Hello(hello), tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
  alerts_->Flush();
  const auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["alerts"][0]["labels"],
            nlohmann::json::parse(R"({"alertname":"non_finite","severity":"critical",
      "run":"run","attempt":"1","source":"foreshock","team":"nlp","cost_center":"7"})"));
}

TEST(LabelNames, AreWhatPrometheusTakes) {
  EXPECT_EQ(LabelName("team"), "team");
  EXPECT_EQ(LabelName("cost-center/x"), "cost_center_x");
  EXPECT_EQ(LabelName("7up"), "label_7up");
  EXPECT_EQ(LabelName("__name__"), "label___name__");
}

alert::Alert Of(const std::string& id, detect::Severity severity, alert::AlertState state) {
  alert::Alert a;
  a.id = id;
  a.run = "run";
  a.severity = severity;
  a.state = state;
  return a;
}

TEST(IncidentsTest, OnlyARiseAndTheEndAreUrgent) {
  using detect::Severity;
  constexpr auto kFiring = alert::AlertState::kFiring, kResolved = alert::AlertState::kResolved;
  Incidents incidents;
  EXPECT_TRUE(incidents.Take(Of("a", Severity::kWarning, kFiring)));
  incidents.Told("run");
  EXPECT_FALSE(incidents.Take(Of("b", Severity::kWarning, kFiring))) << "the same incident";
  EXPECT_TRUE(incidents.Take(Of("c", Severity::kCritical, kFiring))) << "it got worse";
  EXPECT_FALSE(incidents.Take(Of("d", Severity::kCritical, kFiring)));
  EXPECT_FALSE(incidents.Take(Of("a", Severity::kWarning, kResolved)));
  EXPECT_FALSE(incidents.Take(Of("b", Severity::kWarning, kResolved)));
  EXPECT_FALSE(incidents.Take(Of("c", Severity::kCritical, kResolved)));
  EXPECT_TRUE(incidents.Take(Of("d", Severity::kCritical, kResolved))) << "it is over";
  EXPECT_TRUE(incidents.Open("run"));
  incidents.Told("run");
  EXPECT_FALSE(incidents.Open("run"));
  EXPECT_TRUE(incidents.Take(Of("e", Severity::kWarning, kFiring))) << "a new incident";
}

// A critical and later a warning of the same run: the warning waits, the end does not.
TEST_F(SilencedTest, MoreNewsOfAnIncidentThatWasToldWaits) {
  detect::UserRule rule;
  rule.name = "high_loss";
  rule.signal = kLoss;
  rule.threshold = 5;
  Start(TargetKind::kWebhook);
  alerts_->SetUserRules(std::make_shared<detect::UserRules>(detect::UserRules{rule}));
  const auto source = history_.Hello("run");
  history_.Put(source, tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
  alerts_->Flush();
  EXPECT_EQ(After(std::chrono::seconds(3)).size(), 1u);
  history_.Put(source, tests::Loss(2, 6));
  alerts_->Flush();
  EXPECT_TRUE(After(std::chrono::seconds(30)).empty());
  EXPECT_TRUE(After(std::chrono::seconds(200)).empty());
  const auto got = After(std::chrono::seconds(100));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["alerts"][0]["labels"]["alertname"], "high_loss");
  EXPECT_EQ(got[0]["first"]["rule"], "high_loss");
}

TEST(FirstOfAnIncident, IsTheEarliestEvidence) {
  std::vector<alert::AlertRecord> records(2);
  records[0].alert.rule = "loss_divergence";
  records[0].alert.first_evidence_step = 900;
  records[1].alert.rule = "qk_runaway";
  records[1].alert.layer = 2;
  records[1].alert.head = 5;
  records[1].alert.first_evidence_step = 400;
  EXPECT_EQ(FirstOf(records).alert.rule, "qk_runaway");
  const auto slack = nlohmann::json::parse(SlackPayload("run", records, ""));
  EXPECT_TRUE(slack["text"].get<std::string>().starts_with(
      "Foreshock: run: 2 changes, first qk_runaway, layer 2, head 5, evidence from step 400\n"))
      << slack["text"];
}

TEST(SilencePayloads, MatchTheAlertsOfTheSilence) {
  alert::Silence s;
  s.id = "abc";
  s.run = "gpt.*";
  s.rule = "loss_spike";
  s.layer = 3;
  s.severity = detect::Severity::kWarning;
  s.author = "ada";
  s.comment = "why";
  const auto body = nlohmann::json::parse(SilencePayload(s));
  EXPECT_EQ(body["comment"], "why [foreshock abc]");
  std::map<std::string, std::string> matchers;
  for (const auto& m : body["matchers"]) {
    matchers[m["name"]] = (m["isRegex"].get<bool>() ? "~" : "=") + m["value"].get<std::string>();
  }
  EXPECT_EQ(matchers, (std::map<std::string, std::string>{{"source", "=foreshock"},
                                                          {"run", "~gpt\\..*"},
                                                          {"alertname", "=loss_spike"},
                                                          {"severity", "=warning"},
                                                          {"layer", "=3"}}));
  EXPECT_EQ(PatternToRegex("a?b+(c)"), "a.b\\+\\(c\\)");
}

// A receiver that knows alerts but no silences stands in for an Alertmanager that refuses them.
TEST_F(SilencedTest, AnAlertmanagerThatRefusesTheCopyIsNotToldOfTheAlert) {
  Start(TargetKind::kAlertmanager);
  const auto silence = Silence("run", std::chrono::minutes(5));
  Fire("run");
  EXPECT_TRUE(After(std::chrono::seconds(1)).empty());
  EXPECT_TRUE(silences_->List(false)[0].copies.at("receiver").starts_with("refused"));
  EXPECT_EQ(notifier_->counters().silenced, 1u);
  EXPECT_EQ(After(std::chrono::minutes(5)).size(), 1u) << "the silence is over and it still fires";
  EXPECT_EQ(notifier_->counters().silenced, 0u);
}

}  // namespace
}  // namespace foreshock::notify
