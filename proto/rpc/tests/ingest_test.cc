// A real server and a real client over loopback.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"

namespace foreshock::rpc {
namespace {

using std::chrono::milliseconds;

// Acknowledges every record with its number; closes when the sender is done.
class CountingHandler final : public IngestHandler {
 public:
  explicit CountingHandler(std::shared_ptr<ReplySink> sink) : sink_(std::move(sink)) {}
  void OnRecord(wire::Record record) override {
    if (record.payload == "refuse me") {
      sink_->Close(Status(Code::kInvalidArgument, "payload: refused"));
      return;
    }
    wire::Reply reply;
    reply.durable_seq = ++records_;
    EXPECT_TRUE(sink_->Send(reply));
  }
  void OnEnd() override { sink_->Close(OkStatus()); }

 private:
  std::shared_ptr<ReplySink> sink_;
  uint64_t records_ = 0;
};

class Factory final : public IngestHandlerFactory {
 public:
  std::unique_ptr<IngestHandler> NewStream(const PeerInfo& peer, std::shared_ptr<ReplySink> sink) override {
    std::lock_guard lock(mutex_);
    token_ = peer.token;
    last_sink_ = sink;
    return std::make_unique<CountingHandler>(std::move(sink));
  }
  std::string token() {
    std::lock_guard lock(mutex_);
    return token_;
  }
  std::shared_ptr<ReplySink> last_sink() {
    std::lock_guard lock(mutex_);
    return last_sink_;
  }

 private:
  std::mutex mutex_;
  std::string token_;
  std::shared_ptr<ReplySink> last_sink_;
};

struct Loopback {
  Factory factory;
  std::unique_ptr<Server> server;
  std::shared_ptr<Channel> channel;

  explicit Loopback(size_t max_message_bytes = 1 << 20) {
    ServerOptions options;
    options.max_message_bytes = max_message_bytes;
    auto started = Server::Start(options, &factory, {});
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    server = std::move(started).value();
    ChannelOptions client;
    client.address = "127.0.0.1:" + std::to_string(server->port());
    client.token = "secret";
    channel = *Channel::Create(client);
  }
  std::unique_ptr<IngestStream> Open() {
    auto stream = OpenIngestStream(channel, milliseconds(10000));
    EXPECT_TRUE(stream.ok()) << stream.status().ToString();
    return std::move(stream).value();
  }
};

TEST(IngestRpc, RecordsGoUpAndRepliesComeDown) {
  Loopback s;
  auto stream = s.Open();
  for (uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(stream->Write(wire::RecordType::kFrame, "payload").ok());
  }
  for (uint64_t i = 1; i <= 100; ++i) {
    auto reply = stream->Read();
    ASSERT_TRUE(reply.ok() && reply->has_value());
    EXPECT_EQ((*reply)->durable_seq, i);
  }
  ASSERT_TRUE(stream->WritesDone().ok());
  auto end = stream->Read();
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(s.factory.token(), "secret");
}

TEST(IngestRpc, HandlerRefusesWithAReason) {
  Loopback s;
  auto stream = s.Open();
  stream->Write(wire::RecordType::kFrame, "refuse me").IgnoreError();
  const auto reply = stream->Read();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(reply.status().message(), "payload: refused");
  EXPECT_FALSE(stream->Write(wire::RecordType::kFrame, "again").ok());
}

TEST(IngestRpc, TooLargeMessageEndsTheStreamWithResourceExhausted) {
  Loopback s(4096);
  auto stream = s.Open();
  stream->Write(wire::RecordType::kFrame, std::string(100'000, 'x')).IgnoreError();
  const auto reply = stream->Read();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), Code::kResourceExhausted) << reply.status().ToString();
}

TEST(IngestRpc, CancelWakesAReader) {
  Loopback s;
  auto stream = s.Open();
  std::thread reader([&] { EXPECT_FALSE(stream->Read().ok()); });
  stream->Cancel();
  reader.join();
}

TEST(IngestRpc, ServerStopEndsStreamsAndTheSinkGoesQuiet) {
  Loopback s;
  auto stream = s.Open();
  ASSERT_TRUE(stream->Write(wire::RecordType::kFrame, "one").ok());
  ASSERT_TRUE(stream->Read().ok());
  s.server->Stop(0);
  EXPECT_FALSE(stream->Read().ok());
  EXPECT_FALSE(s.factory.last_sink()->Send(wire::Reply{}));
}

TEST(IngestRpc, NoServerIsUnavailableWithinTheTimeout) {
  ChannelOptions options;
  options.address = "127.0.0.1:1";
  const auto stream = OpenIngestStream(*Channel::Create(options), milliseconds(200));
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.status().code(), Code::kUnavailable);
}

TEST(IngestRpc, BadAddressesNameTheField) {
  for (const char* address : {"", "host", ":1", "host:"}) {
    ChannelOptions options;
    options.address = address;
    const auto channel = Channel::Create(options);
    ASSERT_FALSE(channel.ok()) << address;
    EXPECT_NE(channel.status().message().find("address"), std::string::npos);
  }
}

TEST(IngestRpc, TakenPortIsAnError) {
  Loopback s;
  ServerOptions options;
  options.address = "127.0.0.1:" + std::to_string(s.server->port());
  EXPECT_FALSE(Server::Start(options, nullptr, {}).ok());
}

TEST(IngestRpc, ManyStreamsOnOneChannel) {
  Loopback s;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto stream = s.Open();
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(stream->Write(wire::RecordType::kFrame, "x").ok());
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(stream->Read().ok());
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace foreshock::rpc
