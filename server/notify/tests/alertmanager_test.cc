// A real Alertmanager between the notifier and a webhook: one firing, one resolved.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"
#include "foreshock/server/notify/notifier.h"
#include "foreshock/tests/history.h"
#include "foreshock/tests/program.h"

namespace foreshock::notify {
namespace {

// What Alertmanager's webhook notifier sends: "firing non_finite run".
class Hook {
 public:
  Hook() {
    http::Routes routes;
    routes.Post("/hook", [this](const http::Request& request) {
      const auto message = nlohmann::json::parse(request.body);
      std::lock_guard lock(mutex_);
      for (const auto& alert : message["alerts"]) {
        got_.push_back(alert["status"].get<std::string>() + " " +
                       alert["labels"]["alertname"].get<std::string>() + " " +
                       alert["labels"].value("run", ""));
      }
      changed_.notify_all();
      return http::Response{200, "text/plain", ""};
    });
    server_ = *http::Server::Start({}, std::move(routes));
  }
  int port() const { return server_->port(); }
  // Everything so far, once `text` is among it (or two minutes have passed).
  std::vector<std::string> WaitFor(const std::string& text) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(2),
                      [&] { return std::find(got_.begin(), got_.end(), text) != got_.end(); });
    return got_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> got_;
  std::unique_ptr<http::Server> server_;
};

// Debian's Alertmanager, which passes on at once whatever it is told.
class RealAlertmanager {
 public:
  RealAlertmanager(const std::string& folder, int hook_port, bool send_resolved) {
    const std::string config = folder + "/alertmanager.yml";
    std::ofstream(config)
        << "route:\n  receiver: hook\n  group_by: ['...']\n  group_wait: 0s\n  group_interval: 1s\n"
           "  repeat_interval: 24h\nreceivers:\n- name: hook\n  webhook_configs:\n"
           "  - url: http://127.0.0.1:"
        << hook_port << "/hook\n"
        << (send_resolved ? "    send_resolved: true\n" : "");
    program_ = std::make_unique<tests::Program>(std::vector<std::string>{
        "prometheus-alertmanager", "--config.file=" + config, "--storage.path=" + folder + "/alertmanager",
        "--cluster.listen-address=", "--web.listen-address=127.0.0.1:0"});
    url_ = "http://127.0.0.1:" + std::to_string(tests::PortOf(program_->WaitForLine("Listening on")));
  }
  const std::string& url() const { return url_; }
  std::string output() { return program_->output(); }

 private:
  std::unique_ptr<tests::Program> program_;
  std::string url_;
};

TEST(Alertmanager, PassesOnOneFiringAndOneResolvedAcrossARestart) {
  tests::History history;
  Hook hook;
  RealAlertmanager alertmanager(history.folder(), hook.port(), true);

  std::unique_ptr<alert::AlertService> alerts;
  std::unique_ptr<Notifier> notifier;
  const auto start = [&] {
    alerts = *alert::AlertService::Start({}, &history.store(), &SystemClock::Instance());
    NotifyOptions options;
    Target target;
    target.kind = TargetKind::kAlertmanager;
    target.url = alertmanager.url();
    target.heartbeat = true;
    options.targets = {target};
    options.store = &history.store();
    options.alerts = alerts.get();
    options.clock = &SystemClock::Instance();
    options.resend_interval = std::chrono::seconds(5);  // a slow restart must not look like an absence
    auto started = Notifier::Start(options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    notifier = *std::move(started);
  };
  start();
  auto source = history.Hello("run");
  history.Put(source, tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
  hook.WaitFor("firing non_finite run");
  // Several resends, and a restart of the server in between.
  const uint64_t sent = notifier->counters().sent;
  while (notifier->counters().sent < sent + 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  notifier.reset();
  alerts.reset();
  history.Reopen();
  start();
  source = history.Hello("run");
  for (int64_t step = 2; step < 5; ++step) history.Put(source, tests::Loss(step, 4));
  hook.WaitFor("resolved non_finite run");
  // The end is told once; a second alert shows that everything before it has arrived.
  history.Put(history.Hello("last"), tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
  std::vector<std::string> got = hook.WaitFor("firing non_finite last");
  std::erase_if(got, [](const std::string& line) { return line.find("Heartbeat") != std::string::npos; });
  EXPECT_EQ(got, (std::vector<std::string>{"firing non_finite run", "resolved non_finite run",
                                           "firing non_finite last"}))
      << alertmanager.output();
  EXPECT_EQ(hook.WaitFor("firing ForeshockHeartbeat ").size(), got.size() + 1) << "the heartbeat, once";
}

// A silence made here holds there; lifted here, it is lifted there.
TEST(Alertmanager, SilencesAreCopiedAndEnded) {
  tests::History history;
  Hook hook;
  RealAlertmanager alertmanager(history.folder(), hook.port(), false);
  const std::string& url = alertmanager.url();
  const Clock& clock = SystemClock::Instance();
  auto alerts = *alert::AlertService::Start({}, &history.store(), &clock);
  auto audit = *alert::AuditLog::Open(&history.store(), &clock);
  auto silences = *alert::Silences::Start({&history.store(), alerts.get(), audit.get(), &clock});
  NotifyOptions options;
  options.targets = {{.kind = TargetKind::kAlertmanager, .url = url, .name = "am"}};
  options.store = &history.store();
  options.alerts = alerts.get();
  options.silences = silences.get();
  options.clock = &clock;
  options.own_threads = false;
  auto notifier = *Notifier::Start(options);
  alert::Silence wanted;
  wanted.run = "qui?t";
  wanted.author = "ada";
  wanted.comment = "known";
  wanted.ends_unix_ns = clock.WallNanos() + 3'600'000'000'000;
  const std::string id = silences->Create(wanted)->id;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  history.Put(history.Hello("quiet"), tests::Loss(1, nan));
  history.Put(history.Hello("loud"), tests::Loss(1, nan));
  alerts->Flush();
  notifier->Tick();
  EXPECT_TRUE(silences->List(false)[0].copies.at("am").starts_with("active "));
  const auto state_there = [&] {
    std::map<std::string, std::string> states;  // by comment
    const auto list = nlohmann::json::parse(http::Get(url + "/api/v2/silences")->body);
    for (const auto& one : list) states[one["comment"]] = one["status"]["state"];
    return states;
  };
  EXPECT_EQ(state_there(), (std::map<std::string, std::string>{{"known [foreshock " + id + "]", "active"}}));
  // Both alerts are there, one of them silenced.
  std::map<std::string, std::string> seen;
  for (const auto& one : nlohmann::json::parse(http::Get(url + "/api/v2/alerts")->body)) {
    seen[one["labels"]["run"]] = one["status"]["silencedBy"].empty() ? "told" : "silenced";
  }
  EXPECT_EQ(seen, (std::map<std::string, std::string>{{"quiet", "silenced"}, {"loud", "told"}}));
  // A copy that was made before a crash is found again, not made twice.
  silences->SetCopy(id, "am", "waiting");
  notifier.reset();
  notifier = *Notifier::Start(options);
  notifier->Tick();
  EXPECT_EQ(state_there().size(), 1u);
  EXPECT_EQ(hook.WaitFor("firing non_finite loud"), (std::vector<std::string>{"firing non_finite loud"}));
  // One of the same id that came to another server with an archive is a silence of its own: its end is not
  // ours.
  {
    tests::History other_history;
    auto other_alerts = *alert::AlertService::Start({}, &other_history.store(), &clock);
    auto other_audit = *alert::AuditLog::Open(&other_history.store(), &clock);
    auto others =
        *alert::Silences::Start({&other_history.store(), other_alerts.get(), other_audit.get(), &clock});
    store::MetaEntry told = silences->EntriesOf("qui?t").at(0);
    told.value.replace(told.value.find("qui?t"), 5, "other");
    ASSERT_TRUE(*others->Adopt("other", told));
    NotifyOptions theirs = options;
    theirs.store = &other_history.store();
    theirs.alerts = other_alerts.get();
    theirs.silences = others.get();
    auto other_notifier = *Notifier::Start(theirs);
    other_notifier->Tick();
    EXPECT_NE(others->List(false)[0].copies.at("am"), silences->List(false)[0].copies.at("am"));
    ASSERT_TRUE(others->Expire(id, "eve").ok());
    other_notifier->Tick();
    EXPECT_EQ(others->List(true)[0].copies.at("am"), "ended");
    const auto ours = nlohmann::json::parse(
        http::Get(url + "/api/v2/silence/" + silences->List(false)[0].copies.at("am").substr(7))->body);
    EXPECT_EQ(ours["status"]["state"], "active");
  }
  ASSERT_TRUE(silences->Expire(id, "bob").ok());
  notifier->Tick();
  EXPECT_EQ(silences->List(true)[0].copies.at("am"), "ended");
  EXPECT_EQ(state_there().begin()->second, "expired");
  const auto got = hook.WaitFor("firing non_finite quiet");
  EXPECT_EQ(got.size(), 2u) << alertmanager.output();
}

}  // namespace
}  // namespace foreshock::notify
