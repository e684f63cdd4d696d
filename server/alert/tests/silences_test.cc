// Silences over a real store and a real alert service.
#include "foreshock/server/alert/silences.h"

#include <gtest/gtest.h>

#include <limits>

#include "foreshock/tests/history.h"
#include "silence_archive.h"

namespace foreshock::alert {
namespace {

using tests::History;
using tests::Loss;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kHour = 3'600'000'000'000;

class SilencesTest : public testing::Test {
 protected:
  SilencesTest() { Start(); }
  ~SilencesTest() override { Stop(); }

  void Start() {
    AlertOptions options;
    options.tick_interval = std::chrono::hours(1);
    alerts_ = *AlertService::Start(options, &history_.store(), &history_.clock());
    audit_ = *AuditLog::Open(&history_.store(), &history_.clock());
    silences_ = *Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
  }
  void Stop() {
    silences_.reset();
    audit_.reset();
    alerts_.reset();
  }
  // As after kill -9: only what was durable is there.
  void Restart() {
    Stop();
    history_.Reopen();
    Start();
  }
  Silence Wanted(const std::string& run, int64_t length = kHour) {
    Silence s;
    s.run = run;
    s.author = "ada";
    s.comment = "a new data mix";
    s.ends_unix_ns = history_.clock().WallNanos() + length;
    return s;
  }
  Alert AlertOf(const std::string& run, const std::string& rule = "qk_runaway", int32_t layer = -1,
                int32_t head = -1) {
    Alert a;
    a.id = run + "/1/" + rule + "/critical/7";
    a.run = run;
    a.rule = rule;
    a.severity = detect::Severity::kCritical;
    a.layer = layer;
    a.head = head;
    return a;
  }
  void Fire(const std::string& run) {
    history_.Put(history_.Hello(run), Loss(1, kNotANumber));
    alerts_->Flush();
  }
  void Resolve(const std::string& run) {
    const auto source = history_.Hello(run);
    for (int64_t step = 2; step < 5; ++step) history_.Put(source, Loss(step, 4));
    alerts_->Flush();
  }
  std::vector<std::string> Trail() {
    std::vector<std::string> lines;
    for (const AuditEntry& e : *audit_->Read("", 100)) lines.push_back(e.who + " " + e.what + " " + e.run);
    return lines;
  }

  History history_;
  std::unique_ptr<AlertService> alerts_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Silences> silences_;
};

TEST_F(SilencesTest, CoversWhatFitsEveryFieldThatIsGiven) {
  Silence s = Wanted("gpt-*");
  s.rule = "qk_*";
  s.layer = 3;
  s.severity = detect::Severity::kCritical;
  ASSERT_TRUE(silences_->Create(s).ok());
  EXPECT_TRUE(silences_->Silenced(AlertOf("gpt-7", "qk_runaway", 3, 1)));
  EXPECT_FALSE(silences_->Silenced(AlertOf("bert", "qk_runaway", 3, 1)));
  EXPECT_FALSE(silences_->Silenced(AlertOf("gpt-7", "loss_spike", 3, 1)));
  EXPECT_FALSE(silences_->Silenced(AlertOf("gpt-7", "qk_runaway", 2, 1)));
  EXPECT_FALSE(silences_->Silenced(AlertOf("gpt-7", "qk_runaway")))
      << "an alert of the whole run has no layer";
  Alert warning = AlertOf("gpt-7", "qk_runaway", 3, 1);
  warning.severity = detect::Severity::kWarning;
  EXPECT_FALSE(silences_->Silenced(warning));
}

TEST_F(SilencesTest, BeginsAndEndsByTheClock) {
  Silence s = Wanted("run", 3 * kHour);
  s.starts_unix_ns = history_.clock().WallNanos() + kHour;
  ASSERT_TRUE(silences_->Create(s).ok());
  EXPECT_FALSE(silences_->Silenced(AlertOf("run")));
  EXPECT_EQ(silences_->List(false).size(), 1u);
  history_.clock().Advance(std::chrono::hours(1));
  EXPECT_TRUE(silences_->Silenced(AlertOf("run")));
  history_.clock().Advance(std::chrono::hours(2));
  EXPECT_FALSE(silences_->Silenced(AlertOf("run")));
  EXPECT_TRUE(silences_->List(false).empty());
  EXPECT_EQ(silences_->List(true).size(), 1u);
}

TEST_F(SilencesTest, HoldsAfterKillNineAndIsOnTheTrail) {
  const Silence made = *silences_->Create(Wanted("run"));
  Restart();
  EXPECT_TRUE(silences_->Silenced(AlertOf("run")));
  ASSERT_EQ(silences_->List(false).size(), 1u);
  EXPECT_EQ(silences_->List(false)[0].comment, "a new data mix");
  ASSERT_TRUE(silences_->Expire(made.id, "bob").ok());
  EXPECT_FALSE(silences_->Silenced(AlertOf("run")));
  Restart();
  EXPECT_FALSE(silences_->Silenced(AlertOf("run")));
  EXPECT_EQ(silences_->List(true)[0].ended_by, "bob");
  EXPECT_EQ(Trail(), (std::vector<std::string>{"bob silence_expired run", "ada silence_created run"}));
}

TEST_F(SilencesTest, IdsStayApartWithinOneInstant) {
  EXPECT_NE(silences_->Create(Wanted("a"))->id, silences_->Create(Wanted("b"))->id);
}

TEST_F(SilencesTest, AnAcknowledgementEndsWithItsAlert) {
  AcknowledgeOptions ask;
  ask.run = "run";
  ask.author = "ada";
  EXPECT_EQ(silences_->Acknowledge(ask).status().code(), Code::kNotFound) << "nothing fires";
  Fire("run");
  const auto made = silences_->Acknowledge(ask);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  ASSERT_EQ(made->size(), 1u);
  EXPECT_EQ((*made)[0].rule, "non_finite");
  const Alert alert = alerts_->Firing()[0].alert;
  EXPECT_TRUE(silences_->Silenced(alert));
  EXPECT_TRUE(silences_->Acknowledge(ask)->empty()) << "it is taken already";
  Restart();
  EXPECT_TRUE(silences_->Silenced(alert));
  Resolve("run");
  EXPECT_TRUE(silences_->List(false).empty());
  EXPECT_EQ(silences_->List(true)[0].ended_by, "resolved");
}

TEST_F(SilencesTest, AnAcknowledgementEndsAtTheStartWhenItsAlertResolvedMeanwhile) {
  Fire("run");
  AcknowledgeOptions ask;
  ask.run = "run";
  ASSERT_TRUE(silences_->Acknowledge(ask).ok());
  silences_.reset();
  Resolve("run");
  silences_ = *Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
  EXPECT_TRUE(silences_->List(false).empty());
}

TEST_F(SilencesTest, BadOnesAreRefusedNamingTheField) {
  const auto refused = [&](const Silence& s) {
    const auto made = silences_->Create(s);
    return made.ok() ? "" : made.status().message().substr(0, made.status().message().find(':'));
  };
  EXPECT_EQ(refused(Wanted("")), "run") << "covers nothing";
  EXPECT_EQ(refused(Wanted("run", 0)), "ends");
  EXPECT_EQ(refused(Wanted("run", 400 * 24 * kHour)), "ends");
  EXPECT_EQ(refused(Wanted(std::string(300, 'x'))), "run");
  Silence long_comment = Wanted("run");
  long_comment.comment = std::string(2000, 'x');
  EXPECT_EQ(refused(long_comment), "comment");
  EXPECT_EQ(silences_->Expire("nothing", "ada").status().code(), Code::kNotFound);
  AcknowledgeOptions forever;
  forever.run = "run";
  forever.seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(silences_->Acknowledge(forever).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Trail().empty());
}

TEST_F(SilencesTest, TheNumberIsBounded) {
  for (size_t i = 0; i < Silences::kMostActive; ++i) ASSERT_TRUE(silences_->Create(Wanted("run")).ok());
  EXPECT_EQ(silences_->Create(Wanted("run")).status().code(), Code::kResourceExhausted);
}

TEST_F(SilencesTest, OldOnesAreForgotten) {
  ASSERT_TRUE(silences_->Create(Wanted("run")).ok());
  history_.clock().Advance(std::chrono::hours(24 * 32));
  Restart();
  EXPECT_TRUE(silences_->List(true).empty());
}

TEST_F(SilencesTest, TheTrailIsBoundedAndByRun) {
  auto small = *AuditLog::Open(&history_.store(), &history_.clock(), 3);
  for (int i = 0; i < 5; ++i)
    small->Add({0, "ada", "did", i % 2 == 0 ? "even" : "odd", std::to_string(i), ""});
  auto again = *AuditLog::Open(&history_.store(), &history_.clock(), 3);
  again->Add({0, "ada", "did", "odd", "5", ""});
  const auto all = *again->Read("", 100);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].subject, "5");
  EXPECT_EQ(all[2].subject, "3");
  EXPECT_EQ(again->Read("even", 100)->size(), 1u);
  EXPECT_EQ(again->Read("", 1)->size(), 1u);
}

// Lines of an archive that share a time stand one behind the other, each once, wherever they come from.
TEST_F(SilencesTest, ManyLinesOfOneTimeAreAdopted) {
  const int64_t now = history_.clock().WallNanos();
  const auto line = [&](int i) {
    const std::string digits = std::to_string(now);
    return store::MetaEntry{
        "audit", "", std::string(20 - digits.size(), '0') + digits,
        R"({"who":"x","what":"did","run":"run","subject":")" + std::to_string(i) + R"(","detail":""})"};
  };
  constexpr int kLines = 3000;
  const auto log = *AuditLog::Open(&history_.store(), &history_.clock(), 10'000);
  for (int i = 0; i < kLines; ++i) EXPECT_TRUE(*log->Adopt("run", line(i)));
  for (int i = 0; i < kLines; i += 100) EXPECT_FALSE(*log->Adopt("run", line(i))) << i;
  log->Add({0, "ada", "did", "run", "here", ""});
  const auto again = *AuditLog::Open(&history_.store(), &history_.clock(), 10'000);
  EXPECT_FALSE(*again->Adopt("run", line(kLines - 1)));
  const auto all = *again->Read("run", 10'000);
  ASSERT_EQ(all.size(), kLines + 1u);
  EXPECT_EQ(all.front().subject, "here");
  EXPECT_EQ(all.front().time_unix_ns, now + kLines);
  EXPECT_EQ(all.back().time_unix_ns, now);
}

// By a copy's id a silence is ended at a target: a server that takes one over asks there what it has.
TEST_F(SilencesTest, CopiesThatAnArchiveClaimsAreNotBelieved) {
  Silence told;
  told.id = "0000000000000001";
  told.run = "run";
  told.ends_unix_ns = history_.clock().WallNanos() + 1'000'000'000;
  told.copies["am"] = "active 6b7c";
  ASSERT_TRUE(*silences_->Adopt("run", ToEntry(told)));
  ASSERT_EQ(silences_->List(true).size(), 1u);
  EXPECT_TRUE(silences_->List(true)[0].copies.empty());
  Restart();
  EXPECT_TRUE(silences_->List(true)[0].copies.empty());
}

// The labels that the trainer gave go with its alerts, from the firing to the end and over a restart.
TEST_F(SilencesTest, AlertsCarryTheRunsLabels) {
  wire::Hello hello = tests::SmallHello("run");
  hello.labels = {{"team", "nlp"}};
  history_.Put(history_.Hello(hello), Loss(1, kNotANumber));
  alerts_->Flush();
  EXPECT_EQ(AllLabels(alerts_->Firing()[0]).at("team"), "nlp");
  Stop();
  history_.Reopen();
  hello.labels = {{"team", "other"}};
  hello.incarnation = 2;
  history_.Hello(hello);
  Start();
  Resolve("run");
  const AlertRecord ended = (*alerts_->OfRun("run"))[0];
  EXPECT_EQ(ended.alert.state, AlertState::kResolved);
  EXPECT_EQ(ended.run_labels.at("team"), "nlp");
}

}  // namespace
}  // namespace foreshock::alert
