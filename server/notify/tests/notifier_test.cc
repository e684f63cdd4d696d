// The stages against a real HTTP receiver, on a clock that the test moves.
#include "foreshock/server/notify/notifier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "foreshock/server/http/server.h"
#include "foreshock/tests/history.h"

namespace foreshock::notify {
namespace {

using nlohmann::json;
using tests::History;
using tests::Loss;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// An HTTP receiver that keeps what it gets and answers with `code`.
class Receiver {
 public:
  Receiver() {
    http::Routes routes;
    const auto take = [this](const http::Request& request) {
      std::lock_guard lock(mutex_);
      if (code == 200 && !request.body.empty()) bodies_.push_back(request.body);
      ++calls_;
      authorization_ = request.authorization;
      return http::Response{code, "text/plain", ""};
    };
    routes.Post("/hook", take);
    routes.Get("/hook", take);
    routes.Post("/api/v2/alerts", take);
    server_ = *http::Server::Start({}, std::move(routes));
  }
  std::string url(const std::string& path = "/hook") const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + path;
  }
  std::vector<json> Take() {
    std::lock_guard lock(mutex_);
    std::vector<json> out;
    for (const std::string& body : bodies_) out.push_back(json::parse(body));
    bodies_.clear();
    return out;
  }
  int calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  std::string authorization() {
    std::lock_guard lock(mutex_);
    return authorization_;
  }
  std::atomic<int> code{200};

 private:
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  std::string authorization_;
  int calls_ = 0;
  std::unique_ptr<http::Server> server_;
};

class NotifierTest : public testing::Test {
 protected:
  void SetUp() override { StartAlerts(); }
  void StartAlerts() {
    alert::AlertOptions alert_options;
    alert_options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(alert_options, &history_.store(), &history_.clock());
  }
  void Start(TargetKind kind, NotifyOptions options = {}) {
    Target target;
    target.kind = kind;
    target.url = receiver_.url(kind == TargetKind::kAlertmanager ? "" : "/hook");
    target.token = "secret";
    target.name = "receiver";
    options.targets = {target};
    options.store = &history_.store();
    options.alerts = alerts_.get();
    options.clock = &history_.clock();
    options.seed = 3;
    options.own_threads = false;
    options.external_url = "http://here";
    auto notifier = Notifier::Start(options);
    ASSERT_TRUE(notifier.ok()) << notifier.status().ToString();
    notifier_ = *std::move(notifier);
  }
  // As after kill -9: nothing is saved that was not durable already.
  void Restart(TargetKind kind) {
    notifier_.reset();
    alerts_.reset();
    history_.Reopen();
    StartAlerts();
    Start(kind);
  }
  void Fire(const std::string& run) {
    const auto source = history_.Hello(run);
    history_.Put(source, Loss(1, kNan));
    alerts_->Flush();
  }
  void Resolve(const std::string& run) {
    const auto source = history_.Hello(run);
    for (int64_t step = 2; step < 5; ++step) history_.Put(source, Loss(step, 4));
    alerts_->Flush();
  }
  std::vector<json> After(std::chrono::milliseconds time) {
    history_.clock().Advance(time);
    notifier_->Tick();
    return receiver_.Take();
  }

  History history_;
  Receiver receiver_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<Notifier> notifier_;
};

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
  options.targets = {{TargetKind::kWebhook, "ftp://x", "", "", false}};
  EXPECT_EQ(Notifier::Start(options).status().message().substr(0, 14), "targets[0].url");
  options.targets = {{TargetKind::kWebhook, "http://x", "", "", false},
                     {TargetKind::kSlack, "http://x", "", "", false}};
  EXPECT_EQ(Notifier::Start(options).status().message().substr(0, 15), "targets[1].name");
  options.targets = {};
  options.resend_interval = std::chrono::milliseconds(10);
  EXPECT_EQ(Notifier::Start(options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseTargetKind("pigeon").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace foreshock::notify
