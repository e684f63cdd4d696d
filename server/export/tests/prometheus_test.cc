// A real Prometheus scrapes /metrics and answers a query.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "foreshock/base/percent.h"
#include "foreshock/server/export/exporter.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"
#include "foreshock/tests/history.h"
#include "foreshock/tests/program.h"

namespace foreshock::exporter {
namespace {

// The first value of an instant query, as Prometheus writes it; empty while there is none.
std::string Query(int port, const std::string& expression) {
  const auto got = http::Get("http://127.0.0.1:" + std::to_string(port) +
                             "/api/v1/query?query=" + PercentEncode(expression));
  if (!got.ok() || got->code != 200) return "";
  const auto result = nlohmann::json::parse(got->body)["data"]["result"];
  return result.empty() ? "" : result[0]["value"][1].get<std::string>();
}

TEST(Prometheus, ScrapesARunAndAnswers) {
  tests::History history;
  auto alerts = *alert::AlertService::Start({}, &history.store(), &history.clock());
  auto exporter =
      Exporter::Create({.store = &history.store(), .alerts = alerts.get(), .clock = &history.clock()});
  http::Routes routes;
  routes.Get("/metrics", [&](const http::Request&) {
    return http::Response{200, "text/plain; version=0.0.4; charset=utf-8", exporter->Scrape()};
  });
  auto server = *http::Server::Start({}, std::move(routes));
  const auto source = history.Hello("run");
  history.Put(source,
              tests::Step(42, {tests::Scalar(kLoss, 2.25f), tests::Heads(kLogitMax, 3, {1, 64, 5, 7})}));

  const std::string config = history.folder() + "/prometheus.yml";
  std::ofstream(config) << "scrape_configs:\n- job_name: foreshock\n  scrape_interval: 1s\n"
                           "  static_configs:\n  - targets: ['127.0.0.1:"
                        << server->port() << "']\n";
  tests::Program prometheus({"prometheus", "--config.file=" + config,
                             "--storage.tsdb.path=" + history.folder() + "/tsdb",
                             "--web.listen-address=127.0.0.1:0"});
  const int port = tests::PortOf(prometheus.WaitForLine("Listening on"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  std::string value;
  while (value.empty() && std::chrono::steady_clock::now() < end) {
    value = Query(port, "foreshock_logit_max{run=\"run\",layer=\"3\",stat=\"max\"}");
    if (value.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(value, "64") << prometheus.output();
  EXPECT_EQ(Query(port, "foreshock_loss"), "2.25");
  EXPECT_EQ(Query(port, "foreshock_step"), "42");
  EXPECT_EQ(Query(port, "foreshock_logit_max_worst_head"), "1");
  EXPECT_EQ(Query(port, "process_resident_memory_bytes > bool 1e6"), "1");
  EXPECT_EQ(Query(port, "process_open_fds < bool process_max_fds"), "1");
  EXPECT_NE(Query(port, "foreshock_store_buffer_bytes"), "");
}

}  // namespace
}  // namespace foreshock::exporter
