// A spool and its forwarder in front, a relay with a spool of its own behind, over gRPC on loopback.
#include "foreshock/agent/relay.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "foreshock/agent/forward.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/wire/codec.h"

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

void Await(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() {
    SpoolRecovery recovery;
    front_ = Spool::Open(fs_, "front", {}, &recovery).value();
    back_ = Spool::Open(fs_, "back", {}, &recovery).value();
    StartRelay(0);
  }
  ~RelayTest() override {
    forwarder_.reset();
    relay_.reset();
  }
  void StartRelay(int port) {
    options_.address = "127.0.0.1:" + std::to_string(port);
    auto relay = Relay::Start(*back_, options_);
    ASSERT_TRUE(relay.ok()) << relay.status().ToString();
    relay_ = std::move(relay).value();
    port_ = relay_->port();
  }
  void StartForwarder() {
    ForwarderOptions options;
    options.address = "127.0.0.1:" + std::to_string(port_);
    options.backoff_initial_ms = 5;
    options.backoff_max_ms = 50;
    auto down = [this](const SourceKey&, const wire::Reply& reply) {
      std::lock_guard lock(mutex_);
      down_.push_back(reply);
    };
    forwarder_ = Forwarder::Start(*front_, options, down).value();
  }
  static wire::Hello HelloOf(uint64_t incarnation) {
    wire::Hello hello;
    hello.run = "run";
    hello.attempt = "a";
    hello.incarnation = incarnation;
    return hello;
  }
  static SourceKey Key(uint64_t incarnation) { return {"run", "a", 0, incarnation}; }
  static std::string EventOf(uint64_t seq) {
    wire::Event event;
    event.seq = seq;
    event.detail = "event " + std::to_string(seq);
    return wire::Encode(event);
  }
  void Send(uint64_t incarnation, uint64_t first, uint64_t last) {
    ASSERT_TRUE(front_->OpenSource(Key(incarnation), wire::Encode(HelloOf(incarnation))).ok());
    for (uint64_t seq = first; seq <= last; ++seq) {
      const std::string payload = EventOf(seq);
      const SpoolItem item{seq, static_cast<uint8_t>(wire::RecordType::kEvent), payload};
      ASSERT_TRUE(front_->Append(Key(incarnation), {&item, 1}).ok());
    }
  }
  void ExpectRelayed(uint64_t incarnation, uint64_t last) {
    Await([&] { return front_->Stats().pending == 0; });
    const auto reader = back_->Read(Key(incarnation), 0);
    SpoolRecord record;
    for (uint64_t seq = 1; seq <= last; ++seq) {
      ASSERT_TRUE(reader->Next(&record, 10s).value());
      ASSERT_EQ(record.seq, seq);
      ASSERT_EQ(record.payload, EventOf(seq));
    }
    ASSERT_EQ(back_->Find(Key(incarnation))->durable_seq, last);
  }

  PowerCutFileSystem fs_;
  std::unique_ptr<Spool> front_, back_;
  RelayOptions options_;
  int port_ = 0;
  std::unique_ptr<Relay> relay_;
  std::mutex mutex_;
  std::vector<wire::Reply> down_;  // guarded by mutex_
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(RelayTest, WhatAnAgentSendsLiesInTheRelaysSpool) {
  Send(1, 1, 50);
  Send(2, 1, 3);
  StartForwarder();
  ExpectRelayed(1, 50);
  ExpectRelayed(2, 3);
  EXPECT_EQ(back_->Find(Key(1))->hello, wire::Encode(HelloOf(1)));
  EXPECT_EQ(relay_->Stats().records, 53u);
}

TEST_F(RelayTest, GoesOnAfterTheRelayWasAway) {
  Send(1, 1, 10);
  StartForwarder();
  ExpectRelayed(1, 10);
  relay_.reset();
  Send(1, 11, 20);
  StartRelay(port_);
  ExpectRelayed(1, 20);
}

TEST_F(RelayTest, RepliesOfTheServerGoOnToTheTrainer) {
  Send(1, 1, 1);
  StartForwarder();
  ExpectRelayed(1, 1);
  wire::Reply reply;
  reply.actions.push_back({"id", "checkpoint", "a", "someone", 0, 0, {}, 0, ""});
  EXPECT_TRUE(relay_->Knows(Key(1)));
  EXPECT_FALSE(relay_->Knows(Key(7)));
  relay_->Deliver(Key(1), reply);
  const auto heard = [&](size_t replies) {
    std::lock_guard lock(mutex_);
    return down_.size() >= replies && down_.back().actions.at(0).id == "id";
  };
  Await([&] { return heard(1); });
  // Kept while nobody is there.
  forwarder_.reset();
  Await([&] { return relay_->Stats().streams == 0; });
  relay_->Deliver(Key(1), reply);
  StartForwarder();
  Await([&] { return heard(2); });
}

TEST_F(RelayTest, ASpoolThatTakesNothingClosesTheStreamAndLosesNothing) {
  options_.max_wait_ms = 20;
  relay_.reset();
  StartRelay(0);
  Send(1, 1, 20);
  fs_.SetCapacity(fs_.used_bytes());
  StartForwarder();
  Await([&] { return relay_->Stats().stalled > 0; });
  EXPECT_EQ(front_->Stats().pending, 20u);
  fs_.SetCapacity(PowerCutFileSystem::kUnlimited);
  ExpectRelayed(1, 20);
}

TEST_F(RelayTest, RefusesWhatNoAgentSends) {
  const auto said = [&](wire::RecordType type, const std::string& payload) {
    rpc::ChannelOptions options;
    options.address = "127.0.0.1:" + std::to_string(port_);
    const auto channel = rpc::Channel::Create(options).value();
    const auto stream = rpc::OpenIngestStream(channel, 10s).value();
    stream->Write(type, payload).IgnoreError();
    return stream->Read().status().message();
  };
  wire::Hello nameless = HelloOf(1);
  nameless.attempt.clear();
  EXPECT_NE(said(wire::RecordType::kHello, wire::Encode(nameless)).find("attempt: empty"), std::string::npos);
  EXPECT_NE(said(wire::RecordType::kEvent, EventOf(1)).find("hello: missing"), std::string::npos);
  EXPECT_NE(said(wire::RecordType::kHello, "\xff\xff\xff"), "");
  EXPECT_EQ(relay_->Stats().refused, 3u);
  EXPECT_TRUE(back_->Sources().empty());
}

TEST_F(RelayTest, BeyondLoopbackOnlyWithCertificates) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "example:1"}) {
    options_.address = address;
    const Status refused = Relay::Start(*back_, options_).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << address;
    EXPECT_NE(refused.message().find("listen-client-ca"), std::string::npos);
  }
  options_.address = "127.0.0.1:0";
  options_.cert_file = "cert.pem";
  EXPECT_EQ(Relay::Start(*back_, options_).status().code(), Code::kInvalidArgument) << "one of three";
}

}  // namespace
}  // namespace foreshock::agent
