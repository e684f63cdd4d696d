// The real binary, real sockets, a real gRPC server; killed, restarted, starved.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "foreshock/rpc/server.h"
#include "foreshock/wire/codec.h"
#include "test_trainer.h"

extern char** environ;

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

std::string Binary() { return std::string(std::getenv("FORESHOCK_BUILD_DIR")) + "/bin/foreshock-agent"; }

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void WaitUntil(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(2ms);
}

// One child process; killed at the end if it still runs.
class Process {
 public:
  Process(std::vector<std::string> arguments, const std::string& output) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ > 0) Kill(SIGKILL);
  }
  void Signal(int signal) { ::kill(pid_, signal); }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Kill(int signal) {
    Signal(signal);
    return Wait();
  }

 private:
  pid_t pid_ = -1;
};

// A server that keeps what arrives, and acknowledges it.
class KeepingServer final : public rpc::IngestHandlerFactory {
 public:
  void Start(int port = 0) {
    rpc::ServerOptions options;
    options.address = "127.0.0.1:" + std::to_string(port);
    server_ = rpc::Server::Start(options, this, {}).value();
    port_ = server_->port();
  }
  void Stop() {
    server_->Stop(0);
    server_.reset();
  }
  int port() const { return port_; }
  std::vector<uint64_t> Seqs(uint64_t incarnation) {
    std::lock_guard lock(mutex_);
    return seqs_[incarnation];
  }
  void SendAction(const std::string& id) {
    wire::Reply reply;
    reply.actions.push_back({id, "checkpoint", "a", "someone", 0, 0, {}, 0, ""});
    std::lock_guard lock(mutex_);
    sink_->Send(reply);
  }
  bool HasStream() {
    std::lock_guard lock(mutex_);
    return sink_ != nullptr;
  }

  std::unique_ptr<rpc::IngestHandler> NewStream(const rpc::PeerInfo&,
                                                std::shared_ptr<rpc::ReplySink> sink) override {
    return std::make_unique<Handler>(*this, std::move(sink));
  }

 private:
  class Handler final : public rpc::IngestHandler {
   public:
    Handler(KeepingServer& server, std::shared_ptr<rpc::ReplySink> sink)
        : server_(server), sink_(std::move(sink)) {}
    void OnRecord(wire::Record record) override {
      std::lock_guard lock(server_.mutex_);
      wire::Reply reply;
      if (record.type == wire::RecordType::kHello) {
        const auto hello = wire::DecodeHello(record.payload).value();
        incarnation_ = hello.incarnation;
        server_.sink_ = sink_;
        reply.hello = wire::HelloAck{hello.attempt, hello.attempt_source, 0, 0};
      } else {
        auto& seqs = server_.seqs_[incarnation_];
        const uint64_t seq = wire::PeekHead(record.payload)->seq;
        if (seqs.empty() || seq > seqs.back()) seqs.push_back(seq);
      }
      const auto& seqs = server_.seqs_[incarnation_];
      reply.durable_seq = seqs.empty() ? 0 : seqs.back();
      if (reply.hello.has_value()) reply.hello->durable_seq = reply.durable_seq;
      sink_->Send(reply);
    }
    void OnEnd() override { sink_->Close(OkStatus()); }

   private:
    KeepingServer& server_;
    const std::shared_ptr<rpc::ReplySink> sink_;
    uint64_t incarnation_ = 0;
  };

  std::mutex mutex_;  // guards seqs_ and sink_
  std::map<uint64_t, std::vector<uint64_t>> seqs_;
  std::shared_ptr<rpc::ReplySink> sink_;
  std::unique_ptr<rpc::Server> server_;
  int port_ = 0;
};

class AgentProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/fs_proc_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    socket_ = dir_ + "/agent.sock";
    output_ = dir_ + "/output";
  }
  void TearDown() override {
    agent_.reset();
    if (HasFailure()) std::cerr << ReadText(output_);
    std::filesystem::remove_all(dir_);
  }
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {Binary(), "--socket", socket_, "--spool", dir_ + "/spool"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void StartAgent(std::vector<std::string> more = {}) {
    agent_ = std::make_unique<Process>(Arguments(std::move(more)), output_);
    WaitUntil([&] { return Trainer(socket_).connected(); });
  }
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Binary());
    std::filesystem::remove(dir_ + "/command");
    return Process(std::move(arguments), dir_ + "/command").Wait();
  }
  std::string CommandOutput() const { return ReadText(dir_ + "/command"); }
  nlohmann::json SpoolContents() {
    EXPECT_EQ(Run({"spool", "--json", "--spool", dir_ + "/spool"}), 0);
    return nlohmann::json::parse(CommandOutput());
  }
  nlohmann::json AgentStatus() const {
    return nlohmann::json::parse(ReadText(socket_ + ".status.json"), nullptr, false);
  }
  static std::vector<uint64_t> UpTo(uint64_t last) {
    std::vector<uint64_t> seqs;
    for (uint64_t seq = 1; seq <= last; ++seq) seqs.push_back(seq);
    return seqs;
  }

  std::string dir_;
  std::string socket_;
  std::string output_;
  std::unique_ptr<Process> agent_;
};

TEST_F(AgentProcessTest, EveryAcknowledgedRecordOutlivesKillMinusNine) {
  uint64_t acknowledged = 0;
  for (int life = 0; life < 4; ++life) {
    StartAgent();
    Trainer trainer(socket_);
    EXPECT_EQ(trainer.Greet().durable_seq, acknowledged);
    for (uint64_t seq = acknowledged + 1; seq <= acknowledged + 25; ++seq)
      ASSERT_TRUE(trainer.SendFrame(seq, 300));
    ASSERT_TRUE(trainer.ReceiveAck(acknowledged + 25));
    acknowledged += 25;
    EXPECT_EQ(agent_->Kill(SIGKILL), -SIGKILL);
  }
  const auto contents = SpoolContents();
  EXPECT_EQ(contents["pending"], 100);
  EXPECT_EQ(contents["sources"][0]["durable_seq"], 100);
  // A server comes at last: all of it arrives, once and in order.
  KeepingServer server;
  server.Start();
  StartAgent({"--server", "127.0.0.1:" + std::to_string(server.port())});
  WaitUntil([&] { return server.Seqs(7).size() == 100; });
  EXPECT_EQ(server.Seqs(7), UpTo(100));
  agent_.reset();
  server.Stop();
}

TEST_F(AgentProcessTest, AgentAndServerDieInTurnAndNothingIsMissing) {
  KeepingServer server;
  server.Start();
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  uint64_t sent = 0;
  for (int round = 0; round < 3; ++round) {
    StartAgent({"--server", address});
    Trainer trainer(socket_);
    trainer.Greet();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(trainer.SendFrame(++sent));
    ASSERT_TRUE(trainer.ReceiveAck(sent));
    if (round == 1) server.Stop();
    agent_->Kill(SIGKILL);
    if (round == 1) server.Start(server.port());
  }
  StartAgent({"--server", address});
  WaitUntil([&] { return server.Seqs(7).size() == sent; });
  EXPECT_EQ(server.Seqs(7), UpTo(sent));
  // What the server has is deleted here.
  WaitUntil([&] { return AgentStatus().is_object() && AgentStatus()["spool"]["pending"] == 0; });
  EXPECT_EQ(agent_->Kill(SIGTERM), 0);
  EXPECT_EQ(SpoolContents()["pending"], 0);
  server.Stop();
}

TEST_F(AgentProcessTest, SigtermIsAClearEnd) {
  StartAgent();
  Trainer trainer(socket_);
  trainer.Greet();
  ASSERT_TRUE(trainer.SendFrame(1));
  ASSERT_TRUE(trainer.ReceiveAck(1));
  EXPECT_EQ(agent_->Kill(SIGTERM), 0);
  EXPECT_FALSE(trainer.Receive().has_value());
  EXPECT_FALSE(std::filesystem::exists(socket_));
  EXPECT_EQ(AgentStatus()["state"], "stopped");
  EXPECT_EQ(SpoolContents()["pending"], 1);
  EXPECT_NE(ReadText(output_).find("no server configured"), std::string::npos);
}

TEST_F(AgentProcessTest, AnUnreachableServerIsOneLineAndTheSpoolKeepsAll) {
  StartAgent({"--server", "127.0.0.1:1"});
  Trainer trainer(socket_);
  trainer.Greet();
  for (uint64_t seq = 1; seq <= 10; ++seq) ASSERT_TRUE(trainer.SendFrame(seq));
  ASSERT_TRUE(trainer.ReceiveAck(10));
  WaitUntil([&] { return ReadText(output_).find("server away") != std::string::npos; });
  WaitUntil([&] { return AgentStatus().is_object() && AgentStatus()["forward"]["failures"] >= 2; });
  const std::string text = ReadText(output_);
  EXPECT_EQ(text.find("server away"), text.rfind("server away"));
  EXPECT_EQ(AgentStatus()["spool"]["pending"], 10);
  EXPECT_NE(AgentStatus()["health"].get<std::string>().find("server away"), std::string::npos);
}

TEST_F(AgentProcessTest, ActionsReachTheTrainer) {
  KeepingServer server;
  server.Start();
  StartAgent({"--server", "127.0.0.1:" + std::to_string(server.port())});
  Trainer trainer(socket_);
  trainer.Greet();
  WaitUntil([&] { return server.HasStream(); });
  server.SendAction("id-1");
  for (;;) {
    const auto reply = trainer.Receive();
    ASSERT_TRUE(reply.has_value());
    if (reply->actions.empty()) continue;
    EXPECT_EQ(reply->actions[0].id, "id-1");
    break;
  }
  agent_.reset();
  server.Stop();
}

TEST_F(AgentProcessTest, DiscardsARunForAReasonAndKeepsARecordOfIt) {
  StartAgent();
  {
    Trainer trainer(socket_);
    trainer.Greet();
    for (uint64_t seq = 1; seq <= 3; ++seq) ASSERT_TRUE(trainer.SendFrame(seq));
    ASSERT_TRUE(trainer.ReceiveAck(3));
  }
  const auto discard = [&](const std::string& run, const std::string& reason) {
    return Run({"spool", "--spool", dir_ + "/spool", "--discard-run", run, "--reason", reason});
  };
  EXPECT_EQ(discard("run", "a test"), 3) << "the agent is at work";
  EXPECT_EQ(agent_->Kill(SIGTERM), 0);
  EXPECT_EQ(discard("run", ""), 2) << "no reason";
  EXPECT_EQ(discard("other", "a test"), 1) << "no such run";
  EXPECT_EQ(SpoolContents()["pending"], 3);
  EXPECT_EQ(discard("run", "a test"), 0) << CommandOutput();
  EXPECT_EQ(SpoolContents()["pending"], 0);
  const auto record = nlohmann::json::parse(ReadText(dir_ + "/spool/discarded.jsonl"));
  EXPECT_EQ(record["run"], "run");
  EXPECT_EQ(record["reason"], "a test");
  EXPECT_EQ(record["records"], 3);
  EXPECT_EQ(record["sources"][0]["to_seq"], 3);
}

TEST_F(AgentProcessTest, OneAgentASocketAndASpool) {
  StartAgent();
  auto arguments = Arguments();
  arguments.erase(arguments.begin());
  EXPECT_EQ(Run(arguments), 3);
  EXPECT_NE(CommandOutput().find("held by process"), std::string::npos);
  EXPECT_TRUE(Trainer(socket_).connected());
}

TEST_F(AgentProcessTest, EndsWhenIdleIfTold) {
  StartAgent({"--idle-exit-s", "1"});
  EXPECT_EQ(agent_->Wait(), 0);
}

TEST_F(AgentProcessTest, UsageAndItsExitCodes) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_NE(CommandOutput().find("--spool-limit-bytes"), std::string::npos);
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(Run({"--no-such-option"}), 2);
  EXPECT_EQ(Run({"--spool-limit-bytes", "lots"}), 2);
  EXPECT_EQ(Run({"--token-file", dir_ + "/none"}), 2);
  EXPECT_EQ(Run({"spool", "--spool", dir_ + "/none"}), 1);
  EXPECT_EQ(Run({"--socket", socket_, "--spool", "/proc/none"}), 1);
  EXPECT_NE(CommandOutput().find("/proc/none"), std::string::npos);
}

}  // namespace
}  // namespace foreshock::agent
