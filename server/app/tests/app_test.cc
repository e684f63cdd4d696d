#include "foreshock/server/app/app.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "foreshock/server/http/client.h"
#include "foreshock/tests/history.h"

namespace foreshock::app {
namespace {

using tests::TempFolder;

AppOptions OptionsIn(const TempFolder& folder) {
  AppOptions options;
  options.data_folder = folder.path() + "/data";
  options.grpc_address = "127.0.0.1:0";
  options.http_address = "127.0.0.1:0";
  return options;
}

TEST(App, StartsAnswersAndStopsMoreThanOnce) {
  TempFolder folder;
  auto app = App::New(OptionsIn(folder));
  ASSERT_TRUE(app.ok()) << app.status().ToString();
  EXPECT_EQ((*app)->health().code(), Code::kFailedPrecondition);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE((*app)->Start().ok());
    EXPECT_EQ((*app)->Start().code(), Code::kFailedPrecondition) << "it is running";
    EXPECT_GT((*app)->grpc_port(), 0);
    EXPECT_TRUE((*app)->health().ok());
    const std::string base = "http://127.0.0.1:" + std::to_string((*app)->http_port());
    EXPECT_EQ(http::Get(base + "/healthz")->body, "{\"status\":\"ok\"}\n");
    EXPECT_EQ(http::Get(base + "/api/v1/runs")->code, 200);
    EXPECT_NE(http::Get(base + "/metrics")->body.find("foreshock_ingest_records_total 0"), std::string::npos);
    EXPECT_EQ(http::Get(base + "/report?run=none")->code, 404);
    EXPECT_EQ(http::Get(base + "/api/v1/runs/none/actions")->code, 404);
    (*app)->Stop();
    EXPECT_EQ((*app)->http_port(), 0);
    EXPECT_FALSE(http::Get(base + "/healthz").ok());
  }
}

TEST(App, AStartThatFailsHalfWayUndoesItself) {
  TempFolder folder;
  auto first = App::New(OptionsIn(folder));
  ASSERT_TRUE((*first)->Start().ok());
  TempFolder other;
  AppOptions taken = OptionsIn(other);
  taken.grpc_address = "127.0.0.1:" + std::to_string((*first)->grpc_port());
  auto second = App::New(taken);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE((*second)->Start().ok()) << "the port is taken";
  EXPECT_EQ((*second)->http_port(), 0);
  // Its folder is free again.
  auto third = App::New(OptionsIn(other));
  EXPECT_TRUE((*third)->Start().ok());
  // The first one's is not.
  auto fourth = App::New(OptionsIn(folder));
  EXPECT_EQ((*fourth)->Start().code(), Code::kFailedPrecondition);
  (*first)->Stop();
  EXPECT_TRUE((*second)->Start().code() != Code::kOk) << "the third has its folder";
}

TEST(App, BadOptionsAreRefusedWithTheirName) {
  TempFolder folder;
  const auto refusal = [&](auto change) {
    AppOptions options = OptionsIn(folder);
    change(options);
    auto app = App::New(options);
    EXPECT_FALSE(app.ok());
    return app.status().message();
  };
  EXPECT_EQ(refusal([](auto& o) { o.grpc_address = "nowhere"; }),
            "grpc_address: 'nowhere', must be HOST:PORT with a port of 0 to 65535");
  EXPECT_TRUE(
      refusal([](auto& o) { o.http_address = "0.0.0.0:80"; }).starts_with("http_address: '0.0.0.0' can be"));
  EXPECT_EQ(refusal([](auto& o) { o.data_folder = ""; }), "data_folder: empty");
  EXPECT_TRUE(refusal([](auto& o) { o.acknowledge_seconds = 0; }).starts_with("acknowledge_seconds: 0"));
  EXPECT_TRUE(refusal([](auto& o) { o.merge_wait_seconds = -1; }).starts_with("merge_wait_seconds: -1"));
  EXPECT_TRUE(refusal([](auto& o) {
                o.silent_after_seconds = std::nan("");
              }).starts_with("silent_after_seconds: nan"));
}

// Each good file beside a bad one that differs in one thing.
TEST(ConfigFile, GoodAndBad) {
  TempFolder folder;
  const std::string path = folder.path() + "/config.yaml";
  const auto read = [&](const std::string& text, AppOptions* options) {
    std::ofstream(path) << text;
    return ReadConfigFile(path, options);
  };
  AppOptions options;
  EXPECT_TRUE(read("", &options).ok());
  EXPECT_TRUE(read("http_address: 127.0.0.1:1\nmerge_wait_seconds: 2.5\nlog_level: debug\n", &options).ok());
  EXPECT_EQ(options.http_address, "127.0.0.1:1");
  EXPECT_EQ(options.merge_wait_seconds, 2.5);
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.grpc_address, AppOptions{}.grpc_address) << "what is not named stays";
  const auto refusal = [&](const std::string& text) {
    const Status status = read(text, &options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message().substr(path.size() + 2);
  };
  EXPECT_EQ(refusal("http_adress: 127.0.0.1:1\n"), "http_adress: unknown option");
  EXPECT_EQ(refusal("merge_wait_seconds: soon\n"), "merge_wait_seconds: 'soon', not of the right kind");
  EXPECT_EQ(refusal("merge_wait_seconds: [1]\n"),
            "merge_wait_seconds: not a single value, not of the right kind");
  const std::string section =
      "remote_write:\n  url: http://127.0.0.1:9090/api/v1/write\n  per_head: true\n"
      "  labels: {site: a}\n  relabel:\n  - action: drop\n    source_labels: [run]\n    regex: try-.*\n";
  ASSERT_TRUE(read(section, &options).ok());
  EXPECT_EQ(options.remote_write.url, "http://127.0.0.1:9090/api/v1/write");
  EXPECT_TRUE(options.remote_write.per_head);
  EXPECT_EQ(options.remote_write.labels.at("site"), "a");
  ASSERT_EQ(options.remote_write.relabel.size(), 1u);
  EXPECT_EQ(options.remote_write.relabel[0].action, remote_write::RelabelAction::kDrop);
  EXPECT_EQ(options.remote_write.relabel[0].source_labels, std::vector<std::string>{"run"});
  EXPECT_EQ(options.remote_write.relabel[0].regex, "try-.*");
  EXPECT_EQ(refusal("remote_write: http://a\n"), "remote_write: not a map of options");
  EXPECT_EQ(refusal("remote_write: {uri: a}\n"), "remote_write: uri: unknown option");
  EXPECT_EQ(refusal("remote_write: {per_head: many}\n"),
            "remote_write: per_head: 'many', not of the right kind");
  EXPECT_EQ(refusal("remote_write: {relabel: {a: b}}\n"), "remote_write: relabel: must be a list of rules");
  EXPECT_EQ(
      refusal("remote_write: {relabel: [{action: hide}]}\n"),
      "remote_write: relabel: action: 'hide', must be replace, keep, drop, labeldrop, labelkeep or labelmap");
  EXPECT_FALSE(read("- a\n- list\n", &options).ok());
  EXPECT_FALSE(read("a: [unclosed\n", &options).ok());
  EXPECT_FALSE(read("log_level: loud\n", &options).ok());
  EXPECT_EQ(ReadConfigFile(folder.path() + "/none", &options).code(), Code::kNotFound);
}

}  // namespace
}  // namespace foreshock::app
