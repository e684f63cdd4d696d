// Real streams over loopback into a real store.
#include "foreshock/server/ingest/ingest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "foreshock/base/catalogue.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"

namespace foreshock::ingest {
namespace {

using wire::RecordType;

Result<std::shared_ptr<rpc::Channel>> ChannelTo(int port) {
  rpc::ChannelOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  return rpc::Channel::Create(options);
}

class Sender {
 public:
  Sender(int port, const wire::Hello& hello) {
    auto channel = ChannelTo(port);
    EXPECT_TRUE(channel.ok());
    auto stream = rpc::OpenIngestStream(*channel, std::chrono::seconds(20));
    EXPECT_TRUE(stream.ok()) << stream.status().ToString();
    stream_ = std::move(stream).value();
    Send(RecordType::kHello, wire::Encode(hello));  // fails where the server refuses at once; End() tells
  }
  wire::Reply Read() {
    auto reply = stream_->Read();
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    if (!reply.ok() || !reply->has_value()) return {};
    return **reply;
  }
  // How the stream ended.
  Status End() {
    for (;;) {
      auto reply = stream_->Read();
      if (!reply.ok()) return reply.status();
      if (!reply->has_value()) return OkStatus();
      last_ = **reply;
    }
  }
  Status Finish() {
    EXPECT_TRUE(stream_->WritesDone().ok());
    return End();
  }
  // Reads until a reply satisfies `wanted`.
  template <typename Wanted>
  wire::Reply Await(Wanted wanted) {
    for (;;) {
      auto reply = stream_->Read();
      if (!reply.ok() || !reply->has_value()) {
        ADD_FAILURE() << "the stream ended: " << reply.status().ToString();
        return {};
      }
      if (wanted(**reply)) return **reply;
    }
  }
  void AwaitAck(uint64_t seq) {
    Await([&](const wire::Reply& reply) { return reply.durable_seq >= seq; });
  }
  void Send(RecordType type, const std::string& payload) { stream_->Write(type, payload).IgnoreError(); }
  void Frame(uint64_t seq, int64_t step, float loss = 1) {
    wire::Series series;
    series.signal = kLoss;
    series.values = {loss};
    wire::Frame frame;
    frame.seq = seq;
    frame.step = step;
    frame.series.push_back(series);
    Send(RecordType::kFrame, wire::Encode(frame));
  }
  const wire::Reply& last() const { return last_; }

 private:
  std::unique_ptr<rpc::IngestStream> stream_;
  wire::Reply last_;
};

wire::Hello HelloOf(const std::string& run, const std::string& attempt = "1", uint64_t incarnation = 1) {
  wire::Hello hello;
  hello.run = run;
  hello.attempt = attempt;
  hello.incarnation = incarnation;
  hello.model.layers.push_back({.layer = 0, .name = {}, .query_heads = 4, .kv_heads = 2});
  return hello;
}

class IngestTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_ingest_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    Start({});
  }
  void TearDown() override {
    Stop();
    std::filesystem::remove_all(folder_);
  }
  void Stop() {
    server_.reset();
    ingest_.reset();
    store_.reset();
  }
  void Start(const IngestOptions& options) {
    Stop();
    auto store = store::Store::Open({.folder = folder_});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(store).value();
    ingest_ = Ingest::Start(*store_, SystemClock::Instance(), options);
    auto server = rpc::Server::Start({}, &ingest_->handlers(), {});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }
  Sender Connect(const wire::Hello& hello) { return Sender(server_->port(), hello); }
  std::vector<int64_t> Steps(const std::string& run) {
    std::vector<int64_t> steps;
    EXPECT_TRUE(store_
                    ->ReadFrames({.run = run},
                                 [&](const store::StoredFrame& frame) {
                                   steps.push_back(frame.frame.step);
                                   return true;
                                 })
                    .ok());
    return steps;
  }

  std::string folder_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Ingest> ingest_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(IngestTest, AcknowledgesWhatIsDurableAndEndsInGoodOrder) {
  Sender sender = Connect(HelloOf("run"));
  const wire::Reply hello = sender.Read();
  ASSERT_TRUE(hello.hello.has_value());
  EXPECT_EQ(hello.hello->attempt, "1");
  EXPECT_EQ(hello.hello->durable_seq, 0u);
  EXPECT_EQ(hello.hello->max_message_bytes, 16u << 20);
  EXPECT_GT(hello.time_unix_ns, 0u);
  for (uint64_t seq = 1; seq <= 100; ++seq) sender.Frame(seq, static_cast<int64_t>(seq));
  EXPECT_TRUE(sender.Finish().ok());
  EXPECT_EQ(sender.last().durable_seq, 100u);
  EXPECT_EQ(Steps("run").size(), 100u);
  EXPECT_EQ(ingest_->stats().values, 100u);
}

TEST_F(IngestTest, ARestartedServerSaysWhereToGoOn) {
  {
    Sender sender = Connect(HelloOf("run"));
    for (uint64_t seq = 1; seq <= 7; ++seq) sender.Frame(seq, static_cast<int64_t>(seq));
    sender.AwaitAck(7);
  }
  Start({});
  Sender again = Connect(HelloOf("run"));
  EXPECT_EQ(again.Read().hello->durable_seq, 7u);
  for (uint64_t seq = 5; seq <= 9; ++seq) again.Frame(seq, static_cast<int64_t>(seq));
  EXPECT_TRUE(again.Finish().ok());
  EXPECT_EQ(again.last().durable_seq, 9u);
  EXPECT_EQ(Steps("run"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(store_->GetAttempt("run", "")->sources.at(0).duplicates, 3u);
}

TEST_F(IngestTest, ABadHelloEndsTheStreamWithTheReason) {
  wire::Hello hello = HelloOf("run");
  hello.rank = 5;
  const Status status = Connect(hello).End();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("rank: 5, must be less than world_size, 1"), std::string::npos)
      << status.message();
  EXPECT_EQ(ingest_->stats().refused_hellos, 1u);
  EXPECT_FALSE(store_->GetRun("run").ok());
}

TEST_F(IngestTest, AWildStepIsQuarantinedAcknowledgedAndToldOf) {
  Sender sender = Connect(HelloOf("run"));
  sender.Frame(1, 10);
  sender.Frame(2, 1'000'000'010);
  sender.Frame(3, 11);
  const wire::Reply complaint =
      sender.Await([](const wire::Reply& reply) { return reply.error.has_value(); });
  EXPECT_EQ(complaint.error->seq, 2u);
  EXPECT_EQ(complaint.error->field, "step");
  EXPECT_TRUE(complaint.error->final);
  EXPECT_TRUE(sender.Finish().ok());
  EXPECT_EQ(sender.last().durable_seq, 3u);
  EXPECT_EQ(Steps("run"), (std::vector<int64_t>{10, 11}));
  EXPECT_EQ(store_->ReadQuarantine("run", 10)->size(), 1u);
}

TEST_F(IngestTest, RecordsOfALaterTypeAreKeptApartAndAcknowledged) {
  Sender sender = Connect(HelloOf("run"));
  sender.Frame(1, 1);
  wire::Goodbye later;
  later.seq = 2;
  sender.Send(static_cast<RecordType>(6), wire::Encode(later));
  sender.Frame(3, 2);
  EXPECT_TRUE(sender.Finish().ok());
  EXPECT_EQ(sender.last().durable_seq, 3u);
  EXPECT_EQ(Steps("run"), (std::vector<int64_t>{1, 2}));
  const auto kept = store_->ReadQuarantine("run", 10);
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_EQ(static_cast<int>(kept->at(0).type), 6);
  EXPECT_EQ(store_->GetAttempt("run", "")->sources.at(0).gaps, 0u);
}

TEST_F(IngestTest, WrongShapesAndUnknownLayersAreKeptApart) {
  Sender sender = Connect(HelloOf("run"));
  wire::Frame frame;
  frame.seq = 1;
  frame.step = 1;
  wire::Series series;
  series.signal = kLogitMax;
  series.layer = 77;
  series.heads = {0};
  series.values = {1};
  frame.series.push_back(series);
  sender.Send(RecordType::kFrame, wire::Encode(frame));
  frame.seq = 2;
  frame.series[0].layer = 0;
  frame.series[0].heads = {4};
  sender.Send(RecordType::kFrame, wire::Encode(frame));
  // Seq 3, step 1 and a series (field 9) of five heads without values: its number can be read.
  sender.Send(RecordType::kFrame, std::string("\x08\x03\x10\x01\x4A\x02\x20\x05", 8));
  sender.Send(RecordType::kFrame, "\xFF\xFF\xFF");
  sender.Frame(4, 2);
  EXPECT_TRUE(sender.Finish().ok());
  EXPECT_EQ(sender.last().durable_seq, 4u);
  EXPECT_EQ(Steps("run"), std::vector<int64_t>{2});
  const auto stats = ingest_->stats();
  EXPECT_EQ(stats.unreadable, 1u);
  EXPECT_EQ(stats.quarantined, 3u);
  const auto kept = store_->ReadQuarantine("run", 10);
  ASSERT_EQ(kept->size(), 3u);
  EXPECT_NE(kept->at(0).reason.find("layer 77"), std::string::npos);
}

TEST_F(IngestTest, NanEverywhereIsJustData) {
  Sender sender = Connect(HelloOf("run"));
  for (uint64_t seq = 1; seq <= 20; ++seq) sender.Frame(seq, static_cast<int64_t>(seq), std::nanf(""));
  EXPECT_TRUE(sender.Finish().ok());
  EXPECT_EQ(Steps("run").size(), 20u);
}

TEST_F(IngestTest, ARecordBeforeTheHelloIsRefused) {
  auto channel = ChannelTo(server_->port());
  auto stream = rpc::OpenIngestStream(*channel, std::chrono::seconds(20));
  ASSERT_TRUE(stream.ok());
  (*stream)->Write(RecordType::kFrame, "").IgnoreError();
  EXPECT_EQ((*stream)->Read().status().code(), Code::kInvalidArgument);
}

TEST_F(IngestTest, AMessageAboveTheLimitFailsClearlyAndIsNotHalfTaken) {
  Sender sender = Connect(HelloOf("run"));
  sender.Frame(1, 1);
  sender.AwaitAck(1);
  sender.Send(RecordType::kFrame, std::string(17u << 20, 'x'));
  EXPECT_EQ(sender.End().code(), Code::kResourceExhausted);
  EXPECT_EQ(Steps("run").size(), 1u);
}

TEST_F(IngestTest, AttemptsWithoutANameAreMintedOnceAProcess) {
  const auto attempt_of = [&](uint64_t incarnation, uint32_t rank, uint32_t world) {
    wire::Hello hello = HelloOf(world == 1 ? "one" : "many", "", incarnation);
    hello.rank = rank;
    hello.world_size = world;
    return Connect(hello).Read().hello->attempt;
  };
  const std::string first = attempt_of(11, 0, 1);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(attempt_of(11, 0, 1), first) << "the same process again";
  EXPECT_NE(attempt_of(12, 0, 1), first) << "a new process";
  const std::string gathered = attempt_of(21, 0, 2);
  EXPECT_EQ(attempt_of(22, 1, 2), gathered) << "the other rank of the same start";
  EXPECT_NE(attempt_of(23, 0, 2), gathered) << "rank 0 was started again";
  EXPECT_EQ(store_->GetAttempt("many", gathered)->source, wire::AttemptSource::kUnknown);
}

TEST_F(IngestTest, ActionsGoToThoseConnectedAndToThoseWhoComeLater) {
  Sender early = Connect(HelloOf("run"));
  early.Read();
  wire::Action action;
  action.id = "a1";
  action.kind = "checkpoint";
  ingest_->outbox().PutAction("run", "1", action);
  EXPECT_EQ(early.Await([](const auto& r) { return !r.actions.empty(); }).actions.at(0).id, "a1");
  EXPECT_EQ(ingest_->outbox().Connected("run", "1"), 1u);
  ingest_->outbox().SetSampling("run", "1", {.attention_every_steps = 5});
  EXPECT_EQ(early.Await([](const auto& r) { return r.sampling.has_value(); }).sampling->attention_every_steps,
            5u);
  {
    Sender late = Connect(HelloOf("run", "1", 2));
    const wire::Reply hello = late.Read();
    ASSERT_TRUE(hello.hello.has_value());
    EXPECT_EQ(hello.actions.size(), 1u);
    EXPECT_TRUE(hello.sampling.has_value());
  }
  ingest_->outbox().WithdrawAction("run", "1", "a1");
  EXPECT_TRUE(Connect(HelloOf("run", "1", 3)).Read().actions.empty());
  EXPECT_TRUE(Connect(HelloOf("run", "2", 4)).Read().actions.empty()) << "another attempt";
}

TEST_F(IngestTest, ProposalsBecomeActionsOfTheSameId) {
  Sender early = Connect(HelloOf("run"));
  early.Read();
  wire::Action action;
  action.id = "a1";
  action.kind = "enable_qk_norm";
  ingest::Outbox& outbox = ingest_->outbox();
  outbox.PutProposal("run", "1", action);
  const wire::Reply proposal = early.Await([](const auto& r) { return !r.proposals.empty(); });
  EXPECT_EQ(proposal.proposals.at(0).id, "a1");
  EXPECT_TRUE(proposal.actions.empty());
  {
    Sender late = Connect(HelloOf("run", "1", 2));
    EXPECT_EQ(late.Read().proposals.size(), 1u);
  }
  action.committed = true;
  outbox.PutAction("run", "1", action);
  EXPECT_TRUE(early.Await([](const auto& r) { return !r.actions.empty(); }).actions.at(0).committed);
  outbox.PutProposal("run", "1", action);  // too late
  {
    const wire::Reply hello = Connect(HelloOf("run", "1", 3)).Read();
    EXPECT_EQ(hello.actions.size(), 1u);
    EXPECT_TRUE(hello.proposals.empty());
  }
  outbox.WithdrawAction("run", "1", "a1");
  outbox.PutProposal("run", "1", action);
  outbox.WithdrawAction("run", "1", "a1");
  const wire::Reply hello = Connect(HelloOf("run", "1", 4)).Read();
  EXPECT_TRUE(hello.actions.empty() && hello.proposals.empty());
}

TEST_F(IngestTest, TooManyStreamsAreRefused) {
  Start({.max_streams = 1});
  Sender first = Connect(HelloOf("run"));
  first.Read();
  EXPECT_EQ(Connect(HelloOf("other")).End().code(), Code::kResourceExhausted);
  first.Frame(1, 1);
  first.AwaitAck(1);
}

TEST_F(IngestTest, ManyStreamsShareSyncedWrites) {
  constexpr int kStreams = 8, kFrames = 50;
  std::vector<std::thread> threads;
  const uint64_t before = store_->stats().synced_writes;
  for (int i = 0; i < kStreams; ++i) {
    threads.emplace_back([&, i] {
      Sender sender = Connect(HelloOf("run" + std::to_string(i)));
      for (uint64_t seq = 1; seq <= kFrames; ++seq) sender.Frame(seq, static_cast<int64_t>(seq));
      EXPECT_TRUE(sender.Finish().ok());
      EXPECT_EQ(sender.last().durable_seq, static_cast<uint64_t>(kFrames));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kStreams; ++i) EXPECT_EQ(Steps("run" + std::to_string(i)).size(), size_t{kFrames});
  EXPECT_LT(store_->stats().synced_writes - before, uint64_t{kStreams * kFrames});
}

TEST_F(IngestTest, ADeletedRunEndsItsStreams) {
  Sender sender = Connect(HelloOf("run"));
  sender.Frame(1, 1);
  sender.AwaitAck(1);
  ASSERT_TRUE(store_->DeleteRun("run").ok());
  sender.Frame(2, 2);
  EXPECT_EQ(sender.End().code(), Code::kNotFound);
}

}  // namespace
}  // namespace foreshock::ingest
