// The real program: killed in mid-stream, starved of disk, stopped in good order.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon.h"
#include "foreshock/server/store/store.h"
#include "foreshock/tests/history.h"

namespace foreshock::app {
namespace {

using tests::TempFolder;
using wire::RecordType;

std::vector<int64_t> StepsIn(const std::string& data) {
  std::vector<int64_t> steps;
  auto store = store::Store::Open({.folder = data});
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  if (!store.ok()) return steps;
  EXPECT_TRUE((*store)
                  ->ReadFrames({.run = "run", .every_incarnation = true},
                               [&](const store::StoredFrame& frame) {
                                 EXPECT_EQ(frame.frame.series.at(0).values.at(0), frame.frame.step);
                                 steps.push_back(frame.frame.step);
                                 return true;
                               })
                  .ok());
  return steps;
}

// Reads acknowledgements until the stream ends or `until` is reached.
uint64_t ReadAcks(rpc::IngestStream& stream, std::atomic<uint64_t>* acknowledged, uint64_t until) {
  while (acknowledged->load() < until) {
    const auto reply = stream.Read();
    if (!reply.ok() || !reply->has_value()) break;
    *acknowledged = std::max<uint64_t>(*acknowledged, (*reply)->durable_seq);
  }
  return *acknowledged;
}

TEST(Foreshockd, KilledInMidStreamItHasEveryAcknowledgedFrameOnceAndInOrder) {
  TempFolder folder;
  const std::string data = folder.path() + "/data";
  uint64_t highest_sent = 0;
  std::atomic<uint64_t> acknowledged{0};
  for (int life = 0; life < 4; ++life) {
    test::Daemon daemon(folder.path(), {"--data", data});
    ASSERT_TRUE(daemon.listens()) << daemon.log();
    test::Link link = test::Connect(daemon.grpc_port(), "run");
    ASSERT_NE(link.stream, nullptr) << daemon.log();
    ASSERT_GE(link.durable_seq, acknowledged);
    ASSERT_LE(link.durable_seq, highest_sent);
    std::thread sender([&] {
      for (uint64_t seq = link.durable_seq + 1;; ++seq) {
        if (!link.stream->Write(RecordType::kFrame, test::FrameOf(seq, 500)).ok()) return;
        highest_sent = std::max(highest_sent, seq);
      }
    });
    ReadAcks(*link.stream, &acknowledged, link.durable_seq + 200);
    EXPECT_EQ(daemon.Kill(SIGKILL), -SIGKILL);
    ReadAcks(*link.stream, &acknowledged, ~uint64_t{0});  // what was on its way
    link.stream->Cancel();
    sender.join();
  }
  const std::vector<int64_t> steps = StepsIn(data);
  ASSERT_GE(steps.size(), acknowledged.load());
  EXPECT_GE(acknowledged.load(), 800u);
  EXPECT_LE(steps.size(), highest_sent);
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int64_t>(i) + 1);
}

TEST(Foreshockd, StopsInGoodOrderOnSigterm) {
  TempFolder folder;
  test::Daemon daemon(folder.path(), {"--data", folder.path() + "/data"});
  ASSERT_TRUE(daemon.listens()) << daemon.log();
  EXPECT_EQ(daemon.Health().code, 200);
  test::Link link = test::Connect(daemon.grpc_port(), "run");
  ASSERT_NE(link.stream, nullptr);
  ASSERT_TRUE(link.stream->Write(RecordType::kFrame, test::FrameOf(1, 1)).ok());
  std::atomic<uint64_t> acknowledged{0};
  EXPECT_EQ(ReadAcks(*link.stream, &acknowledged, 1), 1u);
  EXPECT_EQ(daemon.Kill(SIGTERM), 0) << daemon.log();
  EXPECT_EQ(StepsIn(folder.path() + "/data"), std::vector<int64_t>{1});
}

TEST(Foreshockd, BadArgumentsEndItWithAClearLine) {
  TempFolder folder;
  std::ofstream(folder.path() + "/config.yaml") << "grpc_adress: 127.0.0.1:0\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--config", folder.path() + "/config.yaml"}, "grpc_adress: unknown option"},
      {{"--config", folder.path() + "/none.yaml"}, "none.yaml"},
      {{"--log-level", "loud"}, "--log-level"},
      {{"--data", "/proc/no/such"}, "/proc/no"},
      {{"--rules", folder.path() + "/config.yaml"}, "config.yaml:1:1: 'grpc_adress'"},
  };
  for (const auto& [arguments, expected] : cases) {
    test::Daemon daemon(folder.path(), arguments);
    EXPECT_FALSE(daemon.listens());
    EXPECT_NE(daemon.log().find(expected), std::string::npos) << daemon.log();
  }
}

// Waits until the page holds the text.
void WaitFor(const test::Daemon& daemon, const std::string& path, const std::string& text) {
  std::string body = daemon.Get(path).body;
  while (body.find(text) == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    body = daemon.Get(path).body;
  }
}

TEST(Foreshockd, SighupReadsTheRulesAgainAndRefusesBadOnesWhole) {
  TempFolder folder;
  const std::string path = folder.path() + "/rules.yaml";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("rules:\n  - {name: high_loss, signal: loss, condition: '> 2.5', labels: {team: a}}\n");
  test::Daemon daemon(folder.path(), {"--data", folder.path() + "/data", "--rules", path});
  ASSERT_TRUE(daemon.listens()) << daemon.log();
  test::Link link = test::Connect(daemon.grpc_port(), "run");
  ASSERT_NE(link.stream, nullptr);
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    ASSERT_TRUE(link.stream->Write(RecordType::kFrame, test::FrameOf(seq, 1)).ok());
  }
  WaitFor(daemon, "/api/v1/runs/run/alerts", "high_loss");
  WaitFor(daemon, "/metrics", "foreshock_user_rules 1\n");

  write("rules:\n  - {name: other, signal: los, condition: '> 1'}\n");
  ::kill(daemon.pid(), SIGHUP);
  WaitFor(daemon, "/metrics", "foreshock_rule_reload_failures_total 1\n");
  EXPECT_NE(daemon.log().find("rules.yaml:2:27: signal: 'los'"), std::string::npos) << daemon.log();
  WaitFor(daemon, "/metrics", "foreshock_user_rules 1\n");

  write("rules: []\n");
  ::kill(daemon.pid(), SIGHUP);
  WaitFor(daemon, "/metrics", "foreshock_rule_reloads_total 1\n");
  WaitFor(daemon, "/api/v1/runs/run/alerts", "\"state\":\"resolved\"");
  EXPECT_EQ(daemon.Kill(SIGTERM), 0) << daemon.log();
}

// A small disk of its own, which only this process and its children see; needs user namespaces.
std::vector<std::string> OnSmallDisk(const std::string& disk) {
  return {"unshare",
          "--user",
          "--map-root-user",
          "--mount",
          "sh",
          "-c",
          "mount -t tmpfs -o size=48m none '" + disk + "' && exec \"$@\"",
          "sh"};
}

bool SmallDisksWork(const std::string& disk) {
  const std::string command =
      "unshare --user --map-root-user --mount sh -c \"mount -t tmpfs -o size=1m none '" + disk +
      "'\" 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

// Frames upon frames until health is bad; that answer. A stream that ends while health is still (or again)
// good is opened anew: a full disk can heal by itself for a while when the database gives up a file it could
// not finish.
http::ClientResponse WriteUntilIll(const test::Daemon& daemon, std::atomic<uint64_t>* acknowledged) {
  http::ClientResponse health = daemon.Health();
  while (health.code == 200) {
    test::Link link = test::Connect(daemon.grpc_port(), "run");
    std::thread reader;
    if (link.stream != nullptr) {
      reader = std::thread([&] { ReadAcks(*link.stream, acknowledged, ~uint64_t{0}); });
      uint64_t next = link.durable_seq;
      while (health.code == 200 &&
             link.stream->Write(RecordType::kFrame, test::FrameOf(++next, 60'000)).ok()) {
        health = daemon.Health();
      }
      link.stream->Cancel();
      reader.join();
    }
    if (health.code == 200) health = daemon.Health();
  }
  return health;
}

TEST(Foreshockd, AFullDiskIsSaidAndIngestionResumesByItself) {
  TempFolder folder;
  const std::string disk = folder.path() + "/disk";
  std::filesystem::create_directory(disk);
  if (!SmallDisksWork(disk)) GTEST_SKIP() << "no user namespaces with mounts here";
  std::ofstream(folder.path() + "/config.yaml") << "write_buffer_bytes: 4194304\n";
  test::Daemon daemon(folder.path(), {"--config", folder.path() + "/config.yaml", "--data", disk + "/data"},
                      OnSmallDisk(disk));
  ASSERT_TRUE(daemon.listens()) << daemon.log();
  // The daemon's own view of the disk, from outside its namespace.
  const std::string inside = "/proc/" + std::to_string(daemon.pid()) + "/root" + disk;
  const std::string filler = inside + "/filler";
  std::ofstream(filler) << std::string(24 << 20, 'x');
  ASSERT_EQ(std::filesystem::file_size(filler), uint64_t{24} << 20);

  std::atomic<uint64_t> acknowledged{0};
  const http::ClientResponse ill = WriteUntilIll(daemon, &acknowledged);
  EXPECT_NE(ill.body.find("No space left"), std::string::npos) << ill.body;
  EXPECT_GT(acknowledged.load(), 0u);

  std::filesystem::remove(filler);
  while (daemon.Health().code != 200) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  test::Link link = test::Connect(daemon.grpc_port(), "run");
  ASSERT_NE(link.stream, nullptr) << daemon.log();
  EXPECT_GE(link.durable_seq, acknowledged);
  const uint64_t last = link.durable_seq + 5;
  for (uint64_t seq = link.durable_seq + 1; seq <= last; ++seq) {
    ASSERT_TRUE(link.stream->Write(RecordType::kFrame, test::FrameOf(seq, 1'000)).ok());
  }
  EXPECT_EQ(ReadAcks(*link.stream, &acknowledged, last), last);
  // The disk goes with its namespace: copy the folder out before the last process in it ends.
  link.stream->Cancel();
  ::kill(daemon.pid(), SIGSTOP);
  std::filesystem::copy(inside + "/data", folder.path() + "/copy", std::filesystem::copy_options::recursive);
  daemon.Kill(SIGKILL);
  const std::vector<int64_t> steps = StepsIn(folder.path() + "/copy");
  ASSERT_EQ(steps.size(), last);
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int64_t>(i) + 1);
}

}  // namespace
}  // namespace foreshock::app
