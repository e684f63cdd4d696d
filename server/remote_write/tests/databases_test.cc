// Real receivers: Prometheus and VictoriaMetrics as Debian has them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "foreshock/base/percent.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"
#include "foreshock/server/remote_write/remote_writer.h"
#include "foreshock/tests/history.h"
#include "foreshock/tests/program.h"

namespace foreshock::remote_write {
namespace {

bool Installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
}

// The value of an instant query at a time; empty while there is none.
std::string ValueAt(const std::string& base, const std::string& expression, int64_t unix_ms) {
  const auto got = http::Get(base + "/api/v1/query?query=" + PercentEncode(expression) +
                             "&time=" + std::to_string(unix_ms / 1000));
  if (!got.ok() || got->code != 200) return "";
  const auto result = nlohmann::json::parse(got->body)["data"]["result"];
  return result.empty() ? "" : result[0]["value"][1].get<std::string>();
}

// Sends 50 steps, a second apart, while the receiver may still be starting, and reads them back.
void SendAndRead(const std::string& base, const std::string& path) {
  tests::History history;
  RemoteWriteOptions options{.url = base + path, .per_head = true};
  options.relabel = {{.source_labels = {"run"}, .target_label = "job"}};
  auto writer = *RemoteWriter::Start(options, history.store(), history.clock());
  const auto source = history.Hello("gpt");
  const int64_t now_ms = SystemClock::Instance().WallNanos() / 1'000'000'000 * 1000;
  for (int i = 0; i < 50; ++i) {
    wire::Frame frame = tests::Step(i, {tests::Scalar(kLoss, 0.5f * static_cast<float>(i)),
                                        tests::Heads(kLogitMax, 1, {1, static_cast<float>(i), 5, 7})});
    frame.time_unix_ns = static_cast<uint64_t>(now_ms - 1000 * (50 - i)) * 1'000'000;
    history.Put(source, std::move(frame));
  }
  ASSERT_TRUE(writer->Drain(std::chrono::seconds(120))) << writer->health().ToString();
  EXPECT_EQ(writer->stats().samples, 50u * (2 + 3 + 4)) << writer->health().ToString();
  EXPECT_EQ(writer->stats().refused, 0u);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const int64_t last = now_ms - 1000;
  while (ValueAt(base, "foreshock_step{job=\"gpt\"}", last) != "49" &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(ValueAt(base, "foreshock_step{job=\"gpt\"}", last), "49");
  EXPECT_EQ(ValueAt(base, "foreshock_loss{run=\"gpt\"}", now_ms - 10'000), "20");
  EXPECT_EQ(ValueAt(base, "foreshock_logit_max{layer=\"1\",stat=\"max\"}", last), "49");
  EXPECT_EQ(ValueAt(base, "foreshock_logit_max_head{layer=\"1\",head=\"1\"}", now_ms - 20'000), "30");
}

int FreePort() {
  auto server = *http::Server::Start({}, http::Routes());
  return server->port();
}

TEST(Databases, PrometheusTakesWhatIsSent) {
  if (!Installed("prometheus")) GTEST_SKIP() << "needs Prometheus (apt-get install prometheus)";
  tests::TempFolder folder;
  const std::string config = folder.path() + "/prometheus.yml";
  FILE* file = std::fopen(config.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("global: {}\n", file);
  std::fclose(file);
  tests::Program prometheus({"prometheus", "--config.file=" + config,
                             "--storage.tsdb.path=" + folder.path() + "/data",
                             "--web.enable-remote-write-receiver", "--web.listen-address=127.0.0.1:0"});
  const int port = tests::PortOf(prometheus.WaitForLine("Listening on"));
  SendAndRead("http://127.0.0.1:" + std::to_string(port), "/api/v1/write");
}

TEST(Databases, VictoriaMetricsTakesWhatIsSent) {
  if (!Installed("victoria-metrics"))
    GTEST_SKIP() << "needs VictoriaMetrics (apt-get install victoria-metrics)";
  tests::TempFolder folder;
  const int port = FreePort();
  tests::Program victoria({"victoria-metrics", "-storageDataPath=" + folder.path() + "/data",
                           "-httpListenAddr=127.0.0.1:" + std::to_string(port), "-search.latencyOffset=0s",
                           "-search.disableCache"});
  SendAndRead("http://127.0.0.1:" + std::to_string(port), "/api/v1/write");
}

}  // namespace
}  // namespace foreshock::remote_write
