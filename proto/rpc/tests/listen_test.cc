// Who may connect to a server, and where it listens.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"
#include "sockets.h"

namespace foreshock::rpc {
namespace {

using std::chrono::milliseconds;

class SilentHandler final : public IngestHandler {
 public:
  explicit SilentHandler(std::shared_ptr<ReplySink> sink) : sink_(std::move(sink)) {}
  void OnRecord(wire::Record) override { (void)sink_->Send(wire::Reply{}); }
  void OnEnd() override { sink_->Close(OkStatus()); }

 private:
  std::shared_ptr<ReplySink> sink_;
};

class SilentFactory final : public IngestHandlerFactory {
 public:
  std::unique_ptr<IngestHandler> NewStream(const PeerInfo&, std::shared_ptr<ReplySink> sink) override {
    return std::make_unique<SilentHandler>(std::move(sink));
  }
};

class ListenTest : public testing::Test {
 protected:
  void Start(ServerOptions options) {
    auto started = Server::Start(options, &factory_, {});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = std::move(started).value();
  }
  // A record there and its answer back.
  Status Talk(const std::string& host = "127.0.0.1") {
    ChannelOptions options;
    options.address = host + ":" + std::to_string(server_->port());
    FS_ASSIGN_OR_RETURN(const auto channel, Channel::Create(options));
    FS_ASSIGN_OR_RETURN(const auto stream, OpenIngestStream(channel, milliseconds(30'000)));
    FS_RETURN_IF_ERROR(stream->Write(wire::RecordType::kFrame, "x"));
    return stream->Read().status();
  }
  std::vector<test::Socket> ConnectOften(const char* from, int times) {
    std::vector<test::Socket> held;
    for (int i = 0; i < times; ++i) held.push_back(test::Connect(server_->port(), from));
    return held;
  }
  template <typename Condition>
  static void Await(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(milliseconds(2));
  }

  SilentFactory factory_;
  std::unique_ptr<Server> server_;
};

TEST_F(ListenTest, AHostThatTakesAllItCanLeavesRoomForOthers) {
  ServerOptions options;
  options.max_connections = 32;
  std::mutex mutex;
  std::vector<Refusals::Report> told;
  options.tell_refused = [&](const Refusals::Report& report) {
    std::lock_guard lock(mutex);
    told.push_back(report);
  };
  Start(options);
  {
    const auto held = ConnectOften("127.0.0.9", 200);
    Await([&] { return server_->refused_connections() == 170; });
    const Status talked = Talk();
    EXPECT_TRUE(talked.ok()) << talked.ToString();
  }
  {
    std::lock_guard lock(mutex);
    ASSERT_GE(told.size(), 1u) << "the first is told of at once";
    EXPECT_EQ(told[0].most_of, "127.0.0.9");
    EXPECT_NE(told[0].reason.find("max_connections"), std::string_view::npos);
    EXPECT_LE(told[0].refused, 170u);
  }
  // All gone: the same host may come again.
  Await([&] {
    const auto held = ConnectOften("127.0.0.9", 1);
    char byte = 0;
    timeval soon{0, 200'000};
    ::setsockopt(held[0].fd(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    // A server of HTTP/2 speaks first; a reset is an error other than that nothing came.
    return ::recv(held[0].fd(), &byte, 1, 0) > 0;
  });
}

TEST_F(ListenTest, AClientThatFindsNoRoomIsToldWhy) {
  ServerOptions options;
  options.max_connections = 32;
  Start(options);
  ChannelOptions client;
  client.address = "127.0.0.1:" + std::to_string(server_->port());
  const auto channel = Channel::Create(client);
  ASSERT_TRUE(channel.ok());
  auto held = ConnectOften("127.0.0.1", 40);
  Await([&] { return server_->refused_connections() > 0; });
  const Status why = (*channel)->Diagnose();
  EXPECT_EQ(why.code(), Code::kResourceExhausted) << why.ToString();
  EXPECT_NE(why.message().find("max_connections"), std::string::npos) << why.ToString();
  // It passes: whoever tries on is not turned away for good.
  const auto stream = OpenIngestStream(*channel, milliseconds(500));
  EXPECT_EQ(stream.status().code(), Code::kUnavailable) << stream.status().ToString();
  held.clear();
  const Status talked = Talk();
  EXPECT_TRUE(talked.ok()) << talked.ToString();
}

// What gRPC's own listening does not survive.
TEST_F(ListenTest, ALackOfDescriptorsPasses) {
  Start({});
  ASSERT_TRUE(Talk().ok());
  auto held = ConnectOften("127.0.0.9", 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (int i = 0; i < 20; ++i) held.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(held.back().fd());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const sockaddr_in to = test::Loopback("127.0.0.1", server_->port());
  for (size_t i = 1; i < held.size(); ++i) {
    ASSERT_EQ(::connect(held[i].fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  std::this_thread::sleep_for(milliseconds(300));  // until the server has met it
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  held.clear();
  const Status talked = Talk();
  EXPECT_TRUE(talked.ok()) << talked.ToString();
}

TEST_F(ListenTest, OnAllAddresses) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "localhost:0"}) {
    ServerOptions options;
    options.address = address;
    Start(options);
    EXPECT_TRUE(Talk().ok()) << address;
  }
}

TEST_F(ListenTest, AllAddressesWhereOneIsTaken) {
  const test::Socket other = test::Listen();  // 127.0.0.1
  ServerOptions options;
  options.address = "0.0.0.0:" + std::to_string(test::PortOf(other));
  const auto server = Server::Start(options, &factory_, {});
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kUnavailable);
  EXPECT_NE(server.status().message().find(options.address), std::string::npos) << server.status().ToString();
}

TEST_F(ListenTest, OnOneAddressOnly) {
  ServerOptions options;
  options.address = "127.0.0.5:0";
  Start(options);
  EXPECT_TRUE(Talk("127.0.0.5").ok());
  EXPECT_EQ(test::Connect(server_->port(), "127.0.0.1").fd(), -1);
}

TEST_F(ListenTest, BadAddressesAreNamed) {
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":0"}) {
    ServerOptions options;
    options.address = address;
    const auto server = Server::Start(options, &factory_, {});
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_EQ(server.status().code(), Code::kInvalidArgument) << address;
    EXPECT_NE(server.status().message().find("HOST:PORT"), std::string::npos) << address;
  }
  ServerOptions elsewhere;
  elsewhere.address = "192.0.2.1:0";
  const auto server = Server::Start(elsewhere, &factory_, {});
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kUnavailable);
  EXPECT_NE(server.status().message().find("192.0.2.1:0"), std::string::npos);
}

TEST(HeaderOfRun, IsTheSameForTheSameName) {
  EXPECT_EQ(HeaderOfRun("team-a/gpt_7.b~2"), "team-a/gpt_7.b~2");
  EXPECT_EQ(HeaderOfRun("a b%\xC3\xA4"), "a%20b%25%C3%A4");
}

TEST(Keepalive, OutOfBoundsIsNamed) {
  for (const int64_t keepalive_s : {int64_t{0}, int64_t{4}, int64_t{86'401}, int64_t{-1}}) {
    ChannelOptions options;
    options.address = "127.0.0.1:1";
    options.keepalive_s = keepalive_s;
    const auto channel = Channel::Create(options);
    ASSERT_FALSE(channel.ok()) << keepalive_s;
    EXPECT_EQ(channel.status().message(),
              "keepalive_s: " + std::to_string(keepalive_s) + ", must be 5 to 86400");
  }
}

}  // namespace
}  // namespace foreshock::rpc
