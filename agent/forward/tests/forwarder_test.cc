// A real spool, a real gRPC server on loopback. The server's memory outlives its restarts, as a disk would.
#include "foreshock/agent/forward.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "foreshock/base/logging.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/rpc/server.h"
#include "foreshock/wire/codec.h"

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

// What arrived, by incarnation. Thread-safe.
struct ServerMemory {
  struct Source {
    std::string run;
    std::vector<wire::RecordHead> heads;  // new ones, in order
    uint64_t durable = 0;
    uint64_t repeated = 0;
    uint64_t hellos = 0;
  };
  std::mutex mutex;
  std::map<uint64_t, Source> sources;
  std::map<uint64_t, std::shared_ptr<rpc::ReplySink>> sinks;
  bool acknowledge = true;
  uint64_t close_after = 0;  // records of one stream, 0: never
  uint64_t max_message_bytes = 0;
  bool answer_hello = true;
  int64_t clock_ahead_ns = 0;  // of the server's clock; 0: its replies bring no time
  Status refusal;              // of every Hello; ok: taken
};

class Handler final : public rpc::IngestHandler {
 public:
  Handler(ServerMemory& memory, std::shared_ptr<rpc::ReplySink> sink)
      : memory_(memory), sink_(std::move(sink)) {}

  void OnRecord(wire::Record record) override {
    std::lock_guard lock(memory_.mutex);
    // What arrived behind the last one of a closed stream counts for nothing.
    if (memory_.close_after != 0 && records_ >= memory_.close_after) return;
    wire::Reply reply;
    if (memory_.clock_ahead_ns != 0) {
      reply.time_unix_ns =
          static_cast<uint64_t>(SystemClock::Instance().WallNanos() + memory_.clock_ahead_ns);
    }
    if (record.type == wire::RecordType::kHello) {
      const auto hello = wire::DecodeHello(record.payload).value();
      incarnation_ = hello.incarnation;
      auto& source = memory_.sources[incarnation_];
      source.run = hello.run;
      ++source.hellos;
      if (!memory_.refusal.ok()) return sink_->Close(memory_.refusal);
      memory_.sinks[incarnation_] = sink_;
      reply.durable_seq = source.durable;
      reply.hello =
          wire::HelloAck{hello.attempt, hello.attempt_source, source.durable, memory_.max_message_bytes};
      if (memory_.answer_hello) sink_->Send(reply);
      return;
    }
    const auto head = wire::PeekHead(record.payload).value();
    auto& source = memory_.sources[incarnation_];
    if (head.seq <= source.durable) {
      ++source.repeated;
    } else {
      source.heads.push_back(head);
      source.durable = head.seq;
    }
    reply.durable_seq = source.durable;
    if (memory_.acknowledge) sink_->Send(reply);
    if (++records_ == memory_.close_after) sink_->Close(Status(Code::kUnavailable, "closed by the test"));
  }
  void OnEnd() override { sink_->Close(OkStatus()); }

 private:
  ServerMemory& memory_;
  const std::shared_ptr<rpc::ReplySink> sink_;
  uint64_t incarnation_ = 0;
  uint64_t records_ = 0;
};

class Factory final : public rpc::IngestHandlerFactory {
 public:
  explicit Factory(ServerMemory& memory) : memory_(memory) {}
  std::unique_ptr<rpc::IngestHandler> NewStream(const rpc::PeerInfo&,
                                                std::shared_ptr<rpc::ReplySink> sink) override {
    return std::make_unique<Handler>(memory_, std::move(sink));
  }

 private:
  ServerMemory& memory_;
};

class ForwarderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel, std::string_view line) {
      std::lock_guard lock(lines_mutex_);
      lines_.emplace_back(line);
    });
    SpoolRecovery recovery;
    spool_ = Spool::Open(fs_, "spool", {}, &recovery).value();
    options_.backoff_initial_ms = 5;
    options_.backoff_max_ms = 50;
    options_.seed = 1;
    StartServer();
    options_.address = "127.0.0.1:" + std::to_string(port_);
  }
  void TearDown() override {
    forwarder_.reset();
    server_.reset();
    spool_.reset();
    SetLogSink(nullptr);
  }

  void StartServer() {
    rpc::ServerOptions options;
    options.address = "127.0.0.1:" + std::to_string(port_);
    auto started = rpc::Server::Start(options, &factory_, {});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = std::move(started).value();
    port_ = server_->port();
  }
  void StopServer() {
    server_->Stop(0);
    {
      std::lock_guard lock(memory_.mutex);
      memory_.sinks.clear();
    }
    server_.reset();
  }
  void StartForwarder() {
    auto started =
        Forwarder::Start(*spool_, options_, [this](const SourceKey& key, const wire::Reply& reply) {
          std::lock_guard lock(memory_.mutex);
          down_.emplace_back(key, reply);
        });
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    forwarder_ = std::move(started).value();
  }
  static SourceKey Key(uint64_t incarnation) { return {"run", "a", 0, incarnation}; }
  void Open(uint64_t incarnation) {
    wire::Hello hello;
    hello.run = "run";
    hello.attempt = "a";
    hello.incarnation = incarnation;
    ASSERT_TRUE(spool_->OpenSource(Key(incarnation), wire::Encode(hello)).ok());
  }
  void Append(uint64_t incarnation, uint64_t first, uint64_t last, size_t padding = 0,
              uint64_t dropped_before = 0) {
    for (uint64_t seq = first; seq <= last; ++seq) {
      wire::Event event;
      event.seq = seq;
      event.dropped_before = dropped_before;
      event.detail = std::string(padding, 'x');
      const std::string payload = wire::Encode(event);
      const SpoolItem item{seq, static_cast<uint8_t>(wire::RecordType::kEvent), payload};
      ASSERT_TRUE(spool_->Append(Key(incarnation), {&item, 1}).ok());
    }
  }
  static void WaitUntil(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(1ms);
  }
  bool AllAcknowledged() { return spool_->Stats().pending == 0; }
  // The server has every seq from 1 to last of a source, once, in order.
  void ExpectArrived(uint64_t incarnation, uint64_t last) {
    std::lock_guard lock(memory_.mutex);
    const auto& heads = memory_.sources[incarnation].heads;
    ASSERT_EQ(heads.size(), last);
    for (uint64_t i = 0; i < last; ++i) ASSERT_EQ(heads[i].seq, i + 1);
  }
  int LinesWith(const std::string& text) {
    std::lock_guard lock(lines_mutex_);
    int count = 0;
    for (const std::string& line : lines_) count += line.find(text) != std::string::npos ? 1 : 0;
    return count;
  }

  ServerMemory memory_;
  Factory factory_{memory_};
  int port_ = 0;
  std::unique_ptr<rpc::Server> server_;
  PowerCutFileSystem fs_;
  std::unique_ptr<Spool> spool_;
  ForwarderOptions options_;
  std::vector<std::pair<SourceKey, wire::Reply>> down_;  // guarded by memory_.mutex
  std::mutex lines_mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(ForwarderTest, MeasuresItsClockAgainstTheServers) {
  memory_.clock_ahead_ns = 1'000'000'000'000;
  StartForwarder();
  EXPECT_FALSE(forwarder_->Stats().clock_skew_seconds.has_value());
  Open(1);
  Append(1, 1, 3);
  WaitUntil([&] { return AllAcknowledged(); });
  const auto skew = forwarder_->Stats().clock_skew_seconds;
  ASSERT_TRUE(skew.has_value());
  EXPECT_GE(*skew, -1000.0) << "a reply's way makes it larger, never smaller";
  EXPECT_LT(*skew, -900.0);
}

TEST_F(ForwarderTest, ATokenFileThatIsMissingIsAnErrorAtTheStart) {
  options_.token_file = "/nowhere/token";
  const auto started = Forwarder::Start(*spool_, options_, [](const SourceKey&, const wire::Reply&) {});
  EXPECT_EQ(started.status().code(), Code::kInvalidArgument);
  EXPECT_NE(started.status().message().find("token_file: /nowhere/token"), std::string::npos);
}

TEST_F(ForwarderTest, SendsEverySourceInOrderAndEmptiesTheSpool) {
  StartForwarder();
  for (uint64_t incarnation : {1, 2, 3}) Open(incarnation);
  for (uint64_t incarnation : {1, 2, 3}) Append(incarnation, 1, 50);
  WaitUntil([&] { return AllAcknowledged(); });
  for (uint64_t incarnation : {1, 2, 3}) ExpectArrived(incarnation, 50);
  EXPECT_EQ(forwarder_->Stats().acknowledged, 150u);
  EXPECT_TRUE(forwarder_->Stats().connected);
  // Its trainer gone, a source is forgotten and its stream ends in good order.
  for (uint64_t incarnation : {1, 2, 3}) spool_->CloseSource(Key(incarnation));
  WaitUntil([&] { return forwarder_->Stats().streams == 0; });
  EXPECT_EQ(forwarder_->Stats().failures, 0u);
}

TEST_F(ForwarderTest, BrokenStreamsAreResumedWithoutLossOrRepetitionInTheStore) {
  memory_.close_after = 7;
  StartForwarder();
  Open(1);
  Append(1, 1, 60);
  WaitUntil([&] { return AllAcknowledged(); });
  ExpectArrived(1, 60);
  EXPECT_GE(forwarder_->Stats().failures, 8u) << "each stream carries 7 of the 60";
  EXPECT_GE(memory_.sources[1].hellos, 9u);
}

TEST_F(ForwarderTest, WhatWasNotAcknowledgedIsSentAgain) {
  memory_.acknowledge = false;
  StartForwarder();
  Open(1);
  Append(1, 1, 10);
  WaitUntil([&] {
    std::lock_guard lock(memory_.mutex);
    return memory_.sources[1].heads.size() == 10;
  });
  EXPECT_EQ(spool_->Stats().pending, 10u);
  {
    // The server forgets: it had not promised anything.
    std::lock_guard lock(memory_.mutex);
    memory_.sources.clear();
    memory_.acknowledge = true;
    memory_.sinks[1]->Close(Status(Code::kUnavailable, "restart"));
  }
  WaitUntil([&] { return AllAcknowledged(); });
  ExpectArrived(1, 10);
}

TEST_F(ForwarderTest, ServerAwayKeepsEverythingSaysSoOnceAndComesBack) {
  StopServer();
  options_.connect_timeout_ms = 50;
  StartForwarder();
  Open(1);
  Open(2);
  Append(1, 1, 30);
  Append(2, 1, 30);
  WaitUntil([&] { return forwarder_->Stats().failures >= 2; });
  EXPECT_FALSE(forwarder_->Stats().connected);
  EXPECT_EQ(spool_->Stats().pending, 60u);
  EXPECT_EQ(LinesWith("server away"), 1);
  StartServer();
  WaitUntil([&] { return AllAcknowledged(); });
  ExpectArrived(1, 30);
  ExpectArrived(2, 30);
  EXPECT_EQ(LinesWith("server is back"), 1);
}

TEST_F(ForwarderTest, ARestartedServerIsGivenOnlyWhatItLacks) {
  StartForwarder();
  Open(1);
  Append(1, 1, 20);
  WaitUntil([&] { return AllAcknowledged(); });
  StopServer();
  Append(1, 21, 40);
  StartServer();
  WaitUntil([&] { return AllAcknowledged(); });
  ExpectArrived(1, 40);
  EXPECT_EQ(memory_.sources[1].repeated, 0u);
}

TEST_F(ForwarderTest, AServerThatHasMoreThanTheSpoolKnowsIsBelieved) {
  memory_.sources[1].durable = 5;
  Open(1);
  Append(1, 1, 8);
  StartForwarder();
  WaitUntil([&] { return AllAcknowledged(); });
  std::lock_guard lock(memory_.mutex);
  ASSERT_EQ(memory_.sources[1].heads.size(), 3u);
  EXPECT_EQ(memory_.sources[1].heads[0].seq, 6u);
}

TEST_F(ForwarderTest, RepliesGoDown) {
  StartForwarder();
  Open(1);
  WaitUntil([&] { return forwarder_->Stats().streams == 1; });
  {
    std::lock_guard lock(memory_.mutex);
    wire::Reply reply;
    reply.actions.push_back({"id-1", "stop", "a", "someone", 0, 0, {}, 0, ""});
    EXPECT_TRUE(memory_.sinks[1]->Send(reply));
  }
  WaitUntil([&] {
    std::lock_guard lock(memory_.mutex);
    return !down_.empty();
  });
  EXPECT_EQ(down_[0].first, Key(1));
  EXPECT_EQ(down_[0].second.actions.at(0).id, "id-1");
}

TEST_F(ForwarderTest, ARecordTheServerCanNeverTakeIsLeftOutAndDeclared) {
  memory_.max_message_bytes = 2000;
  Open(1);
  Append(1, 1, 2);
  Append(1, 3, 3, 5000);
  Append(1, 4, 5);
  StartForwarder();
  WaitUntil([&] { return AllAcknowledged(); });
  std::lock_guard lock(memory_.mutex);
  const auto& heads = memory_.sources[1].heads;
  ASSERT_EQ(heads.size(), 4u);
  EXPECT_EQ(heads[2].seq, 4u);
  EXPECT_EQ(heads[2].dropped_before, 1u);
  EXPECT_EQ(forwarder_->Stats().undeliverable, 1u);
}

// The record that is left out had itself declared that three are missing.
TEST_F(ForwarderTest, AGapOfARecordThatIsLeftOutIsDeclaredByTheNext) {
  memory_.max_message_bytes = 2000;
  Open(1);
  Append(1, 1, 2);
  Append(1, 6, 6, 5000, 3);
  Append(1, 9, 9, 0, 2);
  StartForwarder();
  WaitUntil([&] { return AllAcknowledged(); });
  std::lock_guard lock(memory_.mutex);
  const auto& heads = memory_.sources[1].heads;
  ASSERT_EQ(heads.size(), 3u);
  EXPECT_EQ(heads[2].seq, 9u);
  EXPECT_EQ(heads[2].dropped_before, 6u);
}

// With nothing behind it, no acknowledgement of the server would ever cover it.
TEST_F(ForwarderTest, TheLastRecordThatTheServerCanNeverTakeIsGivenUp) {
  memory_.max_message_bytes = 2000;
  Open(1);
  Append(1, 1, 2);
  Append(1, 3, 4, 5000);
  StartForwarder();
  WaitUntil([&] { return AllAcknowledged(); });
  EXPECT_EQ(forwarder_->Stats().undeliverable, 2u);
  {
    std::lock_guard lock(memory_.mutex);
    EXPECT_EQ(memory_.sources[1].durable, 2u);
    memory_.sinks[1]->Close(Status(Code::kUnavailable, "restart"));
  }
  // What comes later, on another stream, declares it.
  WaitUntil([&] {
    std::lock_guard lock(memory_.mutex);
    return memory_.sources[1].hellos == 2;
  });
  Append(1, 5, 5);
  WaitUntil([&] { return AllAcknowledged(); });
  std::lock_guard lock(memory_.mutex);
  ASSERT_EQ(memory_.sources[1].heads.size(), 3u);
  EXPECT_EQ(memory_.sources[1].heads[2].seq, 5u);
  EXPECT_EQ(memory_.sources[1].heads[2].dropped_before, 2u);
}

// Given up only when everything before it is the server's: the spool may not skip what is not acknowledged.
TEST_F(ForwarderTest, ARecordIsNotGivenUpBeforeThoseBeforeItAreDurable) {
  memory_.max_message_bytes = 2000;
  memory_.acknowledge = false;
  Open(1);
  Append(1, 1, 2);
  Append(1, 3, 3, 5000);
  StartForwarder();
  WaitUntil([&] { return forwarder_->Stats().undeliverable == 1; });
  EXPECT_EQ(spool_->Stats().pending, 3u);
}

TEST_F(ForwarderTest, ARefusedHelloIsNotTriedAgainAndEverybodyIsTold) {
  memory_.refusal = Status(Code::kInvalidArgument, "run: 'x', no such luck");
  StartForwarder();
  Open(1);
  Append(1, 1, 3);
  WaitUntil([&] { return forwarder_->Stats().refusals == 1; });
  const auto refused = forwarder_->Stats().refused;
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].key, Key(1));
  EXPECT_EQ(refused[0].reason, "run: 'x', no such luck");
  EXPECT_TRUE(refused[0].final);
  {
    std::lock_guard lock(memory_.mutex);
    ASSERT_EQ(down_.size(), 1u);
    EXPECT_EQ(down_[0].second.error->message,
              "server " + options_.address + " refuses run 'run': run: 'x', no such luck");
    EXPECT_EQ(down_[0].second.error->seq, 0u);
    memory_.refusal = OkStatus();
  }
  // Other sources go on meanwhile; this one is left alone however often the manager looks.
  for (uint64_t other = 2; other < 5; ++other) {
    Open(other);
    Append(other, 1, 1);
    WaitUntil([&] { return spool_->Find(Key(other))->acked_seq == 1; });
  }
  EXPECT_EQ(memory_.sources[1].hellos, 1u);
  EXPECT_EQ(spool_->Stats().pending, 3u);
  // Another Hello is another question.
  wire::Hello hello;
  hello.run = "run";
  hello.attempt = "a";
  hello.incarnation = 1;
  hello.framework = "mended";
  ASSERT_TRUE(spool_->OpenSource(Key(1), wire::Encode(hello)).ok());
  WaitUntil([&] { return AllAcknowledged(); });
  EXPECT_TRUE(forwarder_->Stats().refused.empty());
  EXPECT_EQ(LinesWith("refuses this Hello"), 1);
}

TEST_F(ForwarderTest, ALimitOfTheServerMayPass) {
  memory_.refusal = Status(Code::kResourceExhausted, "run: the server holds 3 runs, its limit");
  options_.refused_retry_ms = 1;
  StartForwarder();
  Open(1);
  Append(1, 1, 3);
  WaitUntil([&] { return forwarder_->Stats().refusals >= 2; });
  EXPECT_FALSE(forwarder_->Stats().refused.at(0).final);
  EXPECT_EQ(LinesWith("refuses this source"), 1) << "one line, however often";
  {
    std::lock_guard lock(memory_.mutex);
    EXPECT_EQ(down_.size(), 1u);
    memory_.refusal = OkStatus();
  }
  WaitUntil([&] { return AllAcknowledged(); });
  EXPECT_TRUE(forwarder_->Stats().refused.empty());
}

TEST_F(ForwarderTest, ANewHelloIsToldToTheServer) {
  StartForwarder();
  Open(1);
  WaitUntil([&] { return forwarder_->Stats().streams == 1; });
  wire::Hello hello;
  hello.run = "run";
  hello.attempt = "a";
  hello.incarnation = 1;
  hello.unmonitored.push_back({"layer 3", "dropout"});
  ASSERT_TRUE(spool_->OpenSource(Key(1), wire::Encode(hello)).ok());
  WaitUntil([&] {
    std::lock_guard lock(memory_.mutex);
    return memory_.sources[1].hellos == 2;
  });
}

TEST_F(ForwarderTest, StopsWhileTheServerIsAwayOrMute) {
  StopServer();
  StartForwarder();
  Open(1);
  forwarder_->Stop();
  StartServer();
  {
    std::lock_guard lock(memory_.mutex);
    memory_.answer_hello = false;
  }
  StartForwarder();
  WaitUntil([&] {
    std::lock_guard lock(memory_.mutex);
    return memory_.sources[1].hellos > 0;
  });
  forwarder_->Stop();
}

TEST_F(ForwarderTest, RefusesAddressesThatMakeNoSense) {
  for (const char* address : {"", "nohost", "host:"}) {
    options_.address = address;
    EXPECT_EQ(Forwarder::Start(*spool_, options_, nullptr).status().code(), Code::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace foreshock::agent
