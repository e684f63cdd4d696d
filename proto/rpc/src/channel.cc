#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <mutex>

#include "foreshock/base/socket.h"
#include "foreshock/base/tls_diagnosis.h"
#include "foreshock/base/tls_identity.h"
#include "foreshock/rpc/grpc_channel.h"

namespace foreshock::rpc {
namespace {

// Pings (ChannelOptions::keepalive_s). The server permits them a little more often (server.cc).
constexpr int64_t kLeastKeepaliveS = 5;
constexpr int64_t kMostKeepaliveS = 86'400;
// Also how long sent bytes may stay unconfirmed (TCP_USER_TIMEOUT) before the connection counts as dead. TCP
// repeats a lost packet after ever longer waits: without this a healed network would be noticed as late again
// as it was broken.
constexpr int kKeepaliveTimeoutMs = 6'000;
// Of an attempt to connect, and between two: a network that heals is found within 5 s.
constexpr int kConnectMs = 2'500;
constexpr int kFirstReconnectMs = 300;
constexpr int kMaxReconnectMs = 1'500;
// While no connection comes about the server's name is asked for this often: it may have moved. gRPC's own 30
// s would be the longest part of a move.
constexpr int kResolveMs = 5'000;

constexpr std::chrono::seconds kDiagnosisLasts{5};
constexpr std::chrono::milliseconds kDiagnosisTimeout{1000};

// Judged at every reading: the file may change. gRPC ends the process over a header with other bytes.
Result<std::string> TokenOf(const ChannelOptions& options) {
  std::string token = options.token;
  if (!options.token_file.empty()) {
    std::ifstream in(options.token_file);
    if (!in || !std::getline(in, token)) {
      return Status(Code::kInvalidArgument,
                    "token_file: " + options.token_file + ": cannot be read, or is empty");
    }
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
  }
  for (const char c : token) {
    if (c <= ' ' || c > '~') return Status(Code::kInvalidArgument, "token: has bytes that no token has");
  }
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  // A bare IPv6 address has brackets: what is before the last colon of another is not all of it.
  const bool here = host == "[::1]" || (host.find(':') == std::string::npos && IsLoopback(host));
  if (token.empty() || options.tls || here) return token;
  return Status(Code::kInvalidArgument, "token: would travel unencrypted to " + options.address +
                                            "; give --tls, or --tls-ca with the CA of its certificate");
}

class ChannelImpl final : public Channel {
 public:
  using Make = std::function<std::shared_ptr<grpc::Channel>()>;
  ChannelImpl(ChannelOptions options, Make make)
      : options_(std::move(options)), make_(std::move(make)), channel_(make_()) {}
  const ChannelOptions& options() const override { return options_; }
  std::shared_ptr<grpc::Channel> grpc_channel() const {
    std::lock_guard lock(channel_mutex_);
    return channel_;
  }
  Result<std::string> Token() const override { return TokenOf(options_); }

  Status Diagnose() const override {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - diagnosed_at_ < kDiagnosisLasts) return diagnosis_;
    diagnosis_ = DiagnoseConnection({.address = options_.address,
                                     .tls = options_.tls,
                                     .ca_file = options_.ca_file,
                                     .cert_file = options_.cert_file,
                                     .key_file = options_.key_file,
                                     .timeout = kDiagnosisTimeout});
    diagnosed_at_ = std::chrono::steady_clock::now();
    if (diagnosis_.ok()) Renew();
    return diagnosis_;
  }

 private:
  // The server can be reached, and gRPC may not try for long: after a name that nobody knew for a while it
  // waits up to two minutes, and cannot be told otherwise. Another connection begins from the start.
  void Renew() const {
    std::lock_guard lock(channel_mutex_);
    if (channel_->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE) channel_ = make_();
  }

  const ChannelOptions options_;
  const Make make_;
  mutable std::mutex channel_mutex_;  // guards channel_
  mutable std::shared_ptr<grpc::Channel> channel_;
  mutable std::mutex mutex_;  // guards what follows
  mutable Status diagnosis_;
  mutable std::chrono::steady_clock::time_point diagnosed_at_;
};

// What gRPC would find out by itself, much later and in fewer words.
Status CheckFiles(const ChannelOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Status(Code::kInvalidArgument, options.cert_file.empty() ? "tls_cert: missing beside tls_key"
                                                                    : "tls_key: missing beside tls_cert");
  }
  if (!options.ca_file.empty()) FS_RETURN_IF_ERROR(TlsRoots::Load("tls_ca", options.ca_file).status());
  if (options.cert_file.empty()) return OkStatus();
  return TlsIdentity::Load("tls_cert", options.cert_file, "tls_key", options.key_file).status();
}

Result<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ChannelOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions client;
  if (!options.ca_file.empty() || !options.cert_file.empty()) {
    client.set_certificate_provider(std::make_shared<tls::FileWatcherCertificateProvider>(
        options.key_file, options.cert_file, options.ca_file, options.reload_seconds));
  }
  if (!options.ca_file.empty()) client.watch_root_certs();
  if (!options.cert_file.empty()) client.watch_identity_key_cert_pairs();
  return tls::TlsCredentials(client);
}

}  // namespace

Result<std::shared_ptr<Channel>> Channel::Create(ChannelOptions options) {
  const size_t colon = options.address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.address.size()) {
    return Status(Code::kInvalidArgument, "address: '" + options.address + "' is not HOST:PORT");
  }
  if (options.keepalive_s < kLeastKeepaliveS || options.keepalive_s > kMostKeepaliveS) {
    return Status(Code::kInvalidArgument, "keepalive_s: " + std::to_string(options.keepalive_s) +
                                              ", must be " + std::to_string(kLeastKeepaliveS) + " to " +
                                              std::to_string(kMostKeepaliveS));
  }
  options.tls |= !options.ca_file.empty() || !options.cert_file.empty() || !options.key_file.empty();
  FS_RETURN_IF_ERROR(CheckFiles(options));
  FS_RETURN_IF_ERROR(TokenOf(options).status());
  FS_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  grpc::ChannelArguments arguments;
  const int limit = static_cast<int>(options.max_message_bytes);
  arguments.SetMaxReceiveMessageSize(limit);
  arguments.SetMaxSendMessageSize(limit);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.keepalive_s * 1000));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveMs);
  // We try again ourselves. gRPC 1.51 does so, too, unseen, and calls that a balancer refused meanwhile
  // sometimes never ended, cancelled or not (docs/design/2026-11-30-link.md).
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // One connection per Channel, so that two exporters of one process do not share a fate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto make = [address = options.address, credentials, arguments] {
    return grpc::CreateCustomChannel(address, credentials, arguments);
  };
  return std::shared_ptr<Channel>(std::make_shared<ChannelImpl>(std::move(options), make));
}

std::shared_ptr<grpc::Channel> GrpcChannel(const Channel& channel) {
  return static_cast<const ChannelImpl&>(channel).grpc_channel();
}

}  // namespace foreshock::rpc
