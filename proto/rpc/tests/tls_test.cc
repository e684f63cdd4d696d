// Certificates, made here: who is let in, who is refused and why, and change while a stream runs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "foreshock/base/tls_diagnosis.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"
#include "foreshock/tests/certificates.h"

namespace foreshock::rpc {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

// Acknowledges every record with its number.
class Acknowledger final : public IngestHandler {
 public:
  explicit Acknowledger(std::shared_ptr<ReplySink> sink) : sink_(std::move(sink)) {}
  void OnRecord(wire::Record) override {
    wire::Reply reply;
    reply.durable_seq = ++records_;
    EXPECT_TRUE(sink_->Send(reply));
  }
  void OnEnd() override { sink_->Close(OkStatus()); }

 private:
  const std::shared_ptr<ReplySink> sink_;
  uint64_t records_ = 0;
};

class PeerKeeper final : public IngestHandlerFactory {
 public:
  std::unique_ptr<IngestHandler> NewStream(const PeerInfo& peer, std::shared_ptr<ReplySink> sink) override {
    std::lock_guard lock(mutex_);
    peer_ = peer;
    return std::make_unique<Acknowledger>(std::move(sink));
  }
  PeerInfo peer() {
    std::lock_guard lock(mutex_);
    return peer_;
  }

 private:
  std::mutex mutex_;
  PeerInfo peer_;
};

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    ::setenv("GRPC_VERBOSITY", "NONE", 0);
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_tls_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ca_ = std::make_unique<tests::Authority>(folder_, "ca");
    other_ca_ = std::make_unique<tests::Authority>(folder_, "other-ca");
    ca_->Issue("server");
    ca_->Issue("client", {.common_name = "node-7", .names = {}});
  }
  ~TlsTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  Status Serve(bool mutual) {
    ServerOptions options;
    options.cert_file = ca_->cert_file("server");
    options.key_file = ca_->key_file("server");
    if (mutual) options.client_ca_file = ca_->ca_file();
    options.reload_seconds = 1;
    FS_ASSIGN_OR_RETURN(server_, Server::Start(options, &peers_, {}));
    return OkStatus();
  }

  ChannelOptions Client(bool with_certificate = true) const {
    ChannelOptions options;
    options.address = "127.0.0.1:" + std::to_string(server_->port());
    options.ca_file = ca_->ca_file();
    if (!with_certificate) return options;
    options.cert_file = ca_->cert_file("client");
    options.key_file = ca_->key_file("client");
    return options;
  }

  // Opens a stream and has one record acknowledged.
  static Result<std::unique_ptr<IngestStream>> Try(const ChannelOptions& options) {
    FS_ASSIGN_OR_RETURN(const auto channel, Channel::Create(options));
    FS_ASSIGN_OR_RETURN(auto stream, OpenIngestStream(channel, std::chrono::seconds(3)));
    FS_RETURN_IF_ERROR(Exchange(*stream));
    return stream;
  }

  static Status Exchange(IngestStream& stream) {
    FS_RETURN_IF_ERROR(stream.Write(wire::RecordType::kFrame, "x"));
    FS_ASSIGN_OR_RETURN(const auto reply, stream.Read());
    return reply.has_value() ? OkStatus() : Status(Code::kUnavailable, "the stream has ended");
  }

  static AssertionResult Refused(const ChannelOptions& options, Code code, const std::string& words) {
    const Status status = Try(options).status();
    if (status.ok()) return AssertionFailure() << "was let in";
    if (status.code() != code || status.message().find(words) == std::string::npos) {
      return AssertionFailure() << status.ToString();
    }
    return AssertionSuccess();
  }

  std::string folder_;
  std::unique_ptr<tests::Authority> ca_, other_ca_;
  PeerKeeper peers_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, AServerWithACertificateIsTrustedByItsCaAlone) {
  ASSERT_TRUE(Serve(false).ok());
  const auto stream = Try(Client(false));
  EXPECT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(peers_.peer().identity, "");
  ChannelOptions wrong = Client(false);
  wrong.ca_file = other_ca_->ca_file();
  EXPECT_TRUE(Refused(wrong, Code::kPermissionDenied, "give --tls-ca the CA that did"));
  ChannelOptions system = Client(false);
  system.ca_file.clear();
  system.tls = true;
  EXPECT_TRUE(Refused(system, Code::kPermissionDenied, "the system's roots did not issue it"));
}

TEST_F(TlsTest, OneEndWithoutTlsIsTold) {
  ASSERT_TRUE(Serve(false).ok());
  ChannelOptions plain;
  plain.address = Client().address;
  EXPECT_TRUE(Refused(plain, Code::kFailedPrecondition, "talks TLS: give --tls-ca"));
  auto open = Server::Start({}, &peers_, {});
  ASSERT_TRUE(open.ok());
  ChannelOptions tls = Client(false);
  tls.address = "127.0.0.1:" + std::to_string((*open)->port());
  EXPECT_TRUE(Refused(tls, Code::kFailedPrecondition, "does not talk TLS"));
  tls.address = "127.0.0.1:1";
  EXPECT_TRUE(Refused(tls, Code::kUnavailable, "nothing answers at 127.0.0.1:1: Connection refused"));
}

TEST_F(TlsTest, AWrongHostNameIsRefused) {
  ca_->Issue("server", {.common_name = "elsewhere", .names = {"DNS:elsewhere.example"}});
  ASSERT_TRUE(Serve(false).ok());
  EXPECT_TRUE(Refused(Client(false), Code::kPermissionDenied, "the certificate is not for '127.0.0.1'"));
  ChannelOptions by_name = Client(false);
  by_name.address = "localhost:" + std::to_string(server_->port());
  EXPECT_TRUE(Refused(by_name, Code::kPermissionDenied, "the certificate is not for 'localhost'"));
}

TEST_F(TlsTest, AnExpiredServerIsRefused) {
  ca_->Issue("server", {.valid_from_s = -7200, .valid_to_s = -3600});
  ASSERT_TRUE(Serve(false).ok());
  EXPECT_TRUE(Refused(Client(false), Code::kPermissionDenied, "has expired; renew the server's certificate"));
}

TEST_F(TlsTest, MutualTlsTakesItsOwnClientsAlone) {
  ca_->Issue("expired", {.common_name = "old", .valid_from_s = -7200, .valid_to_s = -3600});
  other_ca_->Issue("stranger", {.common_name = "stranger"});
  ASSERT_TRUE(Serve(true).ok());
  const auto stream = Try(Client());
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(peers_.peer().identity, "node-7");
  EXPECT_TRUE(Refused(Client(false), Code::kPermissionDenied, "wants a client certificate: give --tls-cert"));
  ChannelOptions expired = Client();
  expired.cert_file = ca_->cert_file("expired");
  expired.key_file = ca_->key_file("expired");
  EXPECT_TRUE(Refused(expired, Code::kPermissionDenied, "it expired on "));
  ChannelOptions stranger = Client();
  stranger.cert_file = other_ca_->cert_file("stranger");
  stranger.key_file = other_ca_->key_file("stranger");
  EXPECT_TRUE(Refused(stranger, Code::kPermissionDenied, "CN = stranger, issued by CN = other-ca"));
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamedAtOnce) {
  ASSERT_TRUE(Serve(true).ok());
  ChannelOptions options = Client();
  options.key_file.clear();
  EXPECT_TRUE(Refused(options, Code::kInvalidArgument, "tls_key: missing beside tls_cert"));
  options.key_file = ca_->key_file("server");
  EXPECT_TRUE(Refused(options, Code::kInvalidArgument, "is not the key of the certificate"));
  options = Client();
  options.ca_file = folder_ + "/absent";
  EXPECT_TRUE(Refused(options, Code::kInvalidArgument, "tls_ca: " + options.ca_file + ": cannot be read"));
  ServerOptions server;
  server.cert_file = ca_->cert_file("server");
  server.key_file = ca_->key_file("client");
  EXPECT_EQ(Server::Start(server, &peers_, {}).status().code(), Code::kInvalidArgument);
}

TEST_F(TlsTest, ATokenComesFromItsFileAnewAndNeverInClearText) {
  ASSERT_TRUE(Serve(false).ok());
  ChannelOptions options = Client(false);
  options.token_file = folder_ + "/token";
  EXPECT_TRUE(Refused(options, Code::kInvalidArgument, "token_file: "));
  std::ofstream(options.token_file) << "first\n";
  const auto channel = Channel::Create(options);
  ASSERT_TRUE(channel.ok());
  ASSERT_TRUE(OpenIngestStream(*channel, std::chrono::seconds(10)).ok());
  ASSERT_TRUE(Try(options).ok());
  EXPECT_EQ(peers_.peer().token, "first");
  std::ofstream(options.token_file) << "second\n";
  auto stream = OpenIngestStream(*channel, std::chrono::seconds(10));
  ASSERT_TRUE(stream.ok() && Exchange(**stream).ok());
  EXPECT_EQ(peers_.peer().token, "second");
  std::ofstream(options.token_file) << "not\ttoken\x01\n";
  EXPECT_EQ(OpenIngestStream(*channel, std::chrono::seconds(10)).status().code(), Code::kInvalidArgument);
  ChannelOptions plain;
  plain.token = "secret-text";
  plain.address = "127.evil.example:7071";
  EXPECT_EQ(Channel::Create(plain).status().code(), Code::kInvalidArgument);
  plain.address = "server.example:7071";
  plain.token = "secret-text";
  const Status status = Channel::Create(plain).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("would travel unencrypted"), std::string::npos);
  EXPECT_EQ(status.message().find("secret-text"), std::string::npos);
  plain.tls = true;
  plain.token = "two\nlines";
  EXPECT_EQ(Channel::Create(plain).status().code(), Code::kInvalidArgument);
}

// The server's certificate and the CA of its clients both change; nobody restarts.
TEST_F(TlsTest, CertificatesChangeWhileAStreamRuns) {
  ASSERT_TRUE(Serve(true).ok());
  auto stream = Try(Client());
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  const std::string old_roots = folder_ + "/old-roots.pem";
  std::filesystem::copy_file(ca_->ca_file(), old_roots);
  other_ca_->Issue("new-client", {.common_name = "node-8", .names = {}});
  other_ca_->Issue("new-server");
  // As an operator would: each file replaced by rename.
  std::filesystem::rename(other_ca_->key_file("new-server"), ca_->key_file("server"));
  std::filesystem::rename(other_ca_->cert_file("new-server"), ca_->cert_file("server"));
  std::filesystem::copy_file(other_ca_->ca_file(), folder_ + "/next.pem");
  std::filesystem::rename(folder_ + "/next.pem", ca_->ca_file());

  ChannelOptions fresh = Client();
  fresh.ca_file = other_ca_->ca_file();
  fresh.cert_file = other_ca_->cert_file("new-client");
  fresh.key_file = other_ca_->key_file("new-client");
  bool let_in = false;
  for (int i = 0; i < 3000 && !let_in; ++i) {  // the server looks every second
    ASSERT_TRUE(Exchange(**stream).ok()) << "the old stream was dropped";
    let_in = Try(fresh).ok();
    if (!let_in) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(let_in);
  EXPECT_EQ(peers_.peer().identity, "node-8");
  ChannelOptions old = Client();
  old.ca_file = old_roots;
  EXPECT_FALSE(Try(old).ok()) << "the old CA is trusted no more";
  EXPECT_TRUE(Exchange(**stream).ok()) << "the old stream was dropped";
}

}  // namespace
}  // namespace foreshock::rpc
