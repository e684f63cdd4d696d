// Who may write what, and how much of it: real streams over loopback into a real store.
#include <gtest/gtest.h>

#include <thread>

#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"
#include "foreshock/server/auth/tokens_file.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/tests/history.h"

namespace foreshock::ingest {
namespace {

using wire::RecordType;

class LimitsTest : public testing::Test {
 protected:
  LimitsTest() : gate_({.tokens_file = folder_.path() + "/tokens"}) {}
  ~LimitsTest() override {
    if (ingest_ != nullptr) ingest_->CloseStreams();
    server_.reset();
  }

  void Start(IngestOptions options = {}) {
    options.gate = &gate_;
    store_ = *store::Store::Open({.folder = folder_.path() + "/store"});
    ingest_ = Ingest::Start(*store_, SystemClock::Instance(), options);
    rpc::ServerOptions server;
    server.max_message_bytes = 1 << 20;
    server_ = *rpc::Server::Start(server, &ingest_->handlers(), {});
  }

  std::string Token(const std::string& name, const std::string& scopes = "write",
                    const std::string& run = "") {
    auth::Token token;
    token.name = name;
    token.scopes = *auth::ParseScopes(scopes);
    token.runs = {run};
    const auto made = auth::CreateToken(folder_.path() + "/tokens", token, SystemClock::Instance());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_TRUE(gate_.Reload().ok());
    return made.ok() ? made->secret : "";
  }

  std::unique_ptr<rpc::IngestStream> Open(const std::string& token) {
    rpc::ChannelOptions options;
    options.address = "127.0.0.1:" + std::to_string(server_->port());
    options.token = token;
    options.max_message_bytes = 64 << 20;
    auto channel = rpc::Channel::Create(options);
    auto stream = rpc::OpenIngestStream(*channel, std::chrono::seconds(30));
    EXPECT_TRUE(stream.ok()) << stream.status().ToString();
    return stream.ok() ? *std::move(stream) : nullptr;
  }

  static Status Greet(rpc::IngestStream& stream, const wire::Hello& hello) {
    stream.Write(RecordType::kHello, wire::Encode(hello)).IgnoreError();  // Read tells why
    FS_ASSIGN_OR_RETURN(const auto reply, stream.Read());
    return reply && reply->hello ? OkStatus() : Status(Code::kUnavailable, "no answer to Hello");
  }
  Status Try(const std::string& token, const std::string& run) {
    const auto stream = Open(token);
    return Greet(*stream, tests::SmallHello(run));
  }
  // How the stream ends.
  static Status End(rpc::IngestStream& stream) {
    for (;;) {
      const auto reply = stream.Read();
      if (!reply.ok()) return reply.status();
      if (!reply->has_value()) return OkStatus();
    }
  }

  tests::TempFolder folder_;
  auth::Gate gate_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Ingest> ingest_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(LimitsTest, ATokenWritesItsRunsAlone) {
  const std::string writer = Token("writer", "write", "team-a/"), reader = Token("reader", "read");
  Start();
  EXPECT_TRUE(Try(writer, "team-a/gpt").ok());
  EXPECT_EQ(Try(writer, "team-b/gpt").message(),
            "authorization: token writer is for runs that begin with team-a/, not for 'team-b/gpt'");
  EXPECT_EQ(Try(reader, "team-a/gpt").message(),
            "authorization: token reader lacks the scope write; it has read");
  EXPECT_EQ(Try("fsk_guess", "team-a/gpt").code(), Code::kPermissionDenied);
  EXPECT_EQ(Try("", "team-a/gpt").code(), Code::kPermissionDenied);
  EXPECT_EQ(store_->CountRuns(), 1u);
}

TEST_F(LimitsTest, ARevokedTokenLosesItsOpenStream) {
  const std::string gone = Token("gone"), stays = Token("stays");
  Start();
  const auto revoked = Open(gone), other = Open(stays);
  ASSERT_TRUE(Greet(*revoked, tests::SmallHello("a")).ok());
  ASSERT_TRUE(Greet(*other, tests::SmallHello("b")).ok());
  ASSERT_TRUE(auth::RevokeToken(folder_.path() + "/tokens", "gone").ok());
  ASSERT_TRUE(gate_.Reload().ok());
  EXPECT_EQ(End(*revoked).code(), Code::kPermissionDenied);
  EXPECT_EQ(ingest_->stats().revoked_streams, 1u);
  EXPECT_TRUE(other->Write(RecordType::kFrame, wire::Encode(tests::Loss(1, 1))).ok());
}

TEST_F(LimitsTest, AStreamWithoutAHelloIsClosed) {
  const std::string token = Token("t");
  Start({.hello_timeout = std::chrono::milliseconds(100)});
  const auto stream = Open(token);
  const Status end = End(*stream);
  EXPECT_EQ(end.code(), Code::kInvalidArgument);
  EXPECT_EQ(end.message(), "hello: none within 100 ms");
  EXPECT_EQ(ingest_->stats().late_hellos, 1u);
}

TEST_F(LimitsTest, OneIdentityCannotTakeAllStreamsOrAllRuns) {
  const std::string greedy = Token("greedy"), modest = Token("modest");
  Start({.max_streams_per_identity = 3, .max_new_runs_per_hour = 5});
  std::vector<std::unique_ptr<rpc::IngestStream>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(Open(greedy));
    ASSERT_TRUE(Greet(*held.back(), tests::SmallHello("held" + std::to_string(i))).ok());
  }
  const Status fourth = Try(greedy, "held0");
  EXPECT_EQ(fourth.code(), Code::kResourceExhausted);
  EXPECT_NE(fourth.message().find("max_streams_per_identity"), std::string::npos) << fourth.message();
  for (auto& stream : held) {
    ASSERT_TRUE(stream->WritesDone().ok());
    EXPECT_TRUE(End(*stream).ok());
  }
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    Status status = Try(greedy, "name" + std::to_string(i));
    // Streams that have ended may be counted for a moment longer.
    while (status.message().find("max_streams") != std::string::npos) {
      status = Try(greedy, "name" + std::to_string(i));
    }
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_NE(status.message().find("max_new_runs_per_hour"), std::string::npos) << status.message();
    ++refused;
  }
  EXPECT_EQ(refused, 18) << "three runs were held, two more are free";
  EXPECT_EQ(store_->CountRuns(), 5u);
  EXPECT_TRUE(Try(modest, "another").ok());
  EXPECT_EQ(ingest_->stats().refused_runs, 18u);
}

// Each Open makes a channel, and a connection, of its own.
TEST_F(LimitsTest, OneIdentityCannotTakeAllConnections) {
  const std::string greedy = Token("greedy"), modest = Token("modest");
  Start({.max_connections_per_identity = 2});
  std::vector<std::unique_ptr<rpc::IngestStream>> held;
  for (const char* run : {"a", "b"}) {
    held.push_back(Open(greedy));
    ASSERT_TRUE(Greet(*held.back(), tests::SmallHello(run)).ok());
  }
  EXPECT_EQ(ingest_->stats().connections, 2u);
  const Status third = Try(greedy, "a");
  EXPECT_EQ(third.code(), Code::kResourceExhausted);
  EXPECT_EQ(third.message(),
            "connections: token greedy has streams on 2, at most 2 (max_connections_per_identity)");
  EXPECT_EQ(ingest_->stats().refused_connections, 1u);
  EXPECT_TRUE(Try(modest, "c").ok()) << "another identity";
  ASSERT_TRUE(held.back()->WritesDone().ok());
  EXPECT_TRUE(End(*held.back()).ok());
  while (ingest_->stats().connections > 1) std::this_thread::yield();
  EXPECT_TRUE(Try(greedy, "d").ok()) << "one ended";
}

TEST_F(LimitsTest, WhatAHostileClientSendsIsRefusedAndOthersGoOn) {
  const std::string hostile = Token("hostile"), honest = Token("honest");
  Start({.max_heads_per_run = 1000});
  const auto good = Open(honest);
  ASSERT_TRUE(Greet(*good, tests::SmallHello("good")).ok());

  const auto giant = Open(hostile);
  giant->Write(RecordType::kHello, std::string(32 << 20, 'x')).IgnoreError();
  EXPECT_EQ(End(*giant).code(), Code::kResourceExhausted) << "longer than max_message_bytes";

  wire::Hello hello = tests::SmallHello("\xff\xfe not utf-8");
  EXPECT_EQ(Greet(*Open(hostile), hello).code(), Code::kInvalidArgument);
  hello = tests::SmallHello("heads");
  hello.model.layers[0].query_heads = 1004;
  const Status heads = Greet(*Open(hostile), hello);
  EXPECT_EQ(heads.code(), Code::kInvalidArgument);
  EXPECT_NE(heads.message().find("max_heads_per_run"), std::string::npos) << heads.message();

  const auto twice = Open(hostile);
  ASSERT_TRUE(Greet(*twice, tests::SmallHello("twice")).ok());
  twice->Write(RecordType::kHello, wire::Encode(tests::SmallHello("thrice"))).IgnoreError();
  EXPECT_EQ(End(*twice).message(), "hello: a second one on the same stream");

  const auto garbage = Open(hostile);
  garbage->Write(RecordType::kFrame, "garbage").IgnoreError();
  EXPECT_EQ(End(*garbage).code(), Code::kInvalidArgument);

  // Asks for a million answers and reads none: its own stream is what suffers.
  const auto deaf = Open(hostile);
  ASSERT_TRUE(Greet(*deaf, tests::SmallHello("deaf")).ok());
  for (uint64_t seq = 1; seq <= 20'000; ++seq) {
    wire::Frame frame = tests::Loss(static_cast<int64_t>(seq), 1);
    frame.seq = seq;
    if (!deaf->Write(RecordType::kFrame, wire::Encode(frame)).ok()) break;
  }

  wire::Frame frame = tests::Loss(1, 1);
  frame.seq = 1;
  ASSERT_TRUE(good->Write(RecordType::kFrame, wire::Encode(frame)).ok());
  const auto reply = good->Read();
  ASSERT_TRUE(reply.ok() && reply->has_value());
  EXPECT_EQ((*reply)->durable_seq, 1u);
}

}  // namespace
}  // namespace foreshock::ingest
