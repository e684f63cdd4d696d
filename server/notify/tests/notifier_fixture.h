// What the notifier's tests share: a real HTTP receiver, and a notifier on a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "foreshock/server/http/server.h"
#include "foreshock/server/notify/notifier.h"
#include "foreshock/tests/history.h"

namespace foreshock::notify {

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
  std::vector<nlohmann::json> Take() {
    std::lock_guard lock(mutex_);
    std::vector<nlohmann::json> out;
    for (const std::string& body : bodies_) out.push_back(nlohmann::json::parse(body));
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
    audit_ = *alert::AuditLog::Open(&history_.store(), &history_.clock());
    silences_ = *alert::Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
  }
  void Start(TargetKind kind, NotifyOptions options = {}, const std::string& message_template = "") {
    Target target;
    target.message_template = message_template;
    target.kind = kind;
    target.url = receiver_.url(kind == TargetKind::kAlertmanager ? "" : "/hook");
    target.token = "secret";
    target.name = "receiver";
    options.targets = {target};
    options.store = &history_.store();
    options.alerts = alerts_.get();
    options.silences = silences_.get();
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
    silences_.reset();
    audit_.reset();
    alerts_.reset();
    history_.Reopen();
    StartAlerts();
    Start(kind);
  }
  void Fire(const std::string& run) {
    const auto source = history_.Hello(run);
    history_.Put(source, tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
    alerts_->Flush();
  }
  void Resolve(const std::string& run) {
    const auto source = history_.Hello(run);
    for (int64_t step = 2; step < 5; ++step) history_.Put(source, tests::Loss(step, 4));
    alerts_->Flush();
  }
  std::vector<nlohmann::json> After(std::chrono::milliseconds time) {
    history_.clock().Advance(time);
    notifier_->Tick();
    return receiver_.Take();
  }

  tests::History history_;
  Receiver receiver_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<alert::AuditLog> audit_;
  std::unique_ptr<alert::Silences> silences_;
  std::unique_ptr<Notifier> notifier_;
};

}  // namespace foreshock::notify
