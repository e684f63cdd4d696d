// Agents in front of a relay with certificates, made here: who is let in, who is refused and keeps its
// records, and a change of certificates while a stream runs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "foreshock/agent/forward.h"
#include "foreshock/agent/relay.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/tests/certificates.h"
#include "foreshock/wire/codec.h"

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

// Before gRPC looks: it would put a line to stderr for every handshake that fails.
const int kQuietHandshakes = ::setenv("GRPC_VERBOSITY", "NONE", 0);

class RelayTlsTest : public ::testing::Test {
 protected:
  RelayTlsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_relay_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ca_ = std::make_unique<tests::Authority>(folder_, "ca");
    other_ca_ = std::make_unique<tests::Authority>(folder_, "other-ca");
    ca_->Issue("relay");
    ca_->Issue("node", {.common_name = "node-7", .names = {}});
    SpoolRecovery recovery;
    front_ = Spool::Open(fs_, "front", {}, &recovery).value();
    back_ = Spool::Open(fs_, "back", {}, &recovery).value();
    RelayOptions options;
    options.address = "127.0.0.1:0";
    options.cert_file = ca_->cert_file("relay");
    options.key_file = ca_->key_file("relay");
    options.client_ca_file = ca_->ca_file();
    options.reload_seconds = 1;
    relay_ = Relay::Start(*back_, options).value();
  }
  ~RelayTlsTest() override {
    forwarder_.reset();
    relay_.reset();
    std::filesystem::remove_all(folder_);
  }

  ForwarderOptions Front() const {
    ForwarderOptions options;
    options.address = "127.0.0.1:" + std::to_string(relay_->port());
    options.ca_file = ca_->ca_file();
    options.cert_file = ca_->cert_file("node");
    options.key_file = ca_->key_file("node");
    options.backoff_initial_ms = 5;
    options.backoff_max_ms = 50;
    return options;
  }
  void StartForwarder(const ForwarderOptions& options) {
    forwarder_ = Forwarder::Start(*front_, options, [](const SourceKey&, const wire::Reply&) {}).value();
  }
  void Send(uint64_t first, uint64_t last) {
    wire::Hello hello;
    hello.run = "run";
    hello.attempt = "a";
    hello.incarnation = 1;
    ASSERT_TRUE(front_->OpenSource(kKey, wire::Encode(hello)).ok());
    for (uint64_t seq = first; seq <= last; ++seq) {
      wire::Event event;
      event.seq = seq;
      const std::string payload = wire::Encode(event);
      const SpoolItem item{seq, static_cast<uint8_t>(wire::RecordType::kEvent), payload};
      ASSERT_TRUE(front_->Append(kKey, {&item, 1}).ok());
    }
  }
  void Await(const std::function<bool()>& condition) const {
    while (!condition()) std::this_thread::sleep_for(1ms);
  }
  // The records stay with the agent in front, whose status says why.
  void ExpectKeptOut(const ForwarderOptions& options, const std::string& words) {
    StartForwarder(options);
    Await([&] { return forwarder_->Stats().last_error.find(words) != std::string::npos; });
    EXPECT_EQ(front_->Stats().pending, 3u);
    EXPECT_EQ(relay_->Stats().accepted, 0u);
    EXPECT_TRUE(back_->Sources().empty());
    forwarder_.reset();
  }

  const SourceKey kKey{"run", "a", 0, 1};
  std::string folder_;
  std::unique_ptr<tests::Authority> ca_, other_ca_;
  PowerCutFileSystem fs_;
  std::unique_ptr<Spool> front_, back_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(RelayTlsTest, OnlyAgentsWithACertificateOfItsCaAreTaken) {
  Send(1, 3);
  ForwarderOptions without = Front();
  without.cert_file.clear();
  without.key_file.clear();
  ExpectKeptOut(without, "wants a client certificate");
  other_ca_->Issue("stranger", {.common_name = "stranger", .names = {}});
  ForwarderOptions stranger = Front();
  stranger.cert_file = other_ca_->cert_file("stranger");
  stranger.key_file = other_ca_->key_file("stranger");
  ExpectKeptOut(stranger, "CN = stranger");
  ca_->Issue("old", {.common_name = "old", .names = {}, .valid_from_s = -7200, .valid_to_s = -3600});
  ForwarderOptions expired = Front();
  expired.cert_file = ca_->cert_file("old");
  expired.key_file = ca_->key_file("old");
  ExpectKeptOut(expired, "it expired on");
  ForwarderOptions distrusting = Front();
  distrusting.ca_file = other_ca_->ca_file();
  ExpectKeptOut(distrusting, "give --tls-ca the CA that did");

  StartForwarder(Front());
  Await([&] { return front_->Stats().pending == 0; });
  EXPECT_EQ(back_->Find(kKey)->durable_seq, 3u);
  EXPECT_EQ(relay_->Stats().records, 3u);
}

TEST_F(RelayTlsTest, ACertificateIsChangedWithoutADroppedStream) {
  Send(1, 3);
  StartForwarder(Front());
  Await([&] { return front_->Stats().pending == 0; });
  // From now on another CA vouches for the relay.
  other_ca_->Issue("next");
  for (const char* kind : {".pem", ".key"}) {
    std::filesystem::rename(folder_ + "/next" + kind, folder_ + "/relay" + kind);
  }
  rpc::ChannelOptions fresh;
  fresh.address = Front().address;
  fresh.ca_file = other_ca_->ca_file();
  fresh.cert_file = ca_->cert_file("node");
  fresh.key_file = ca_->key_file("node");
  Await([&] { return rpc::OpenIngestStream(rpc::Channel::Create(fresh).value(), 3s).ok(); });
  Send(4, 9);
  Await([&] { return front_->Stats().pending == 0; });
  EXPECT_EQ(back_->Find(kKey)->durable_seq, 9u);
  EXPECT_EQ(forwarder_->Stats().opened, 1u) << "the stream of before";
  EXPECT_EQ(forwarder_->Stats().failures, 0u);
}

}  // namespace
}  // namespace foreshock::agent
