#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <fstream>
#include <mutex>

#include "foreshock/base/socket.h"
#include "foreshock/base/tls_diagnosis.h"
#include "foreshock/base/tls_identity.h"
#include "foreshock/rpc/grpc_channel.h"

namespace foreshock::rpc {
namespace {

// Pings keep idle connections through NATs and notice a dead server; the server permits them (server.cc).
constexpr int kKeepaliveMs = 60'000;
// Also how long sent bytes may stay unconfirmed (TCP_USER_TIMEOUT) before the connection counts as dead. TCP repeats
// a lost packet after ever longer waits: without this a healed network would be noticed as late again as it was broken.
constexpr int kKeepaliveTimeoutMs = 6'000;
// Of an attempt to connect, and between two: a network that heals is found within 5 s.
constexpr int kConnectMs = 2'500;
constexpr int kFirstReconnectMs = 300;
constexpr int kMaxReconnectMs = 1'500;

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
  ChannelImpl(ChannelOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)), channel_(std::move(channel)) {}
  const ChannelOptions& options() const override { return options_; }
  const std::shared_ptr<grpc::Channel>& grpc_channel() const { return channel_; }
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
    return diagnosis_;
  }

 private:
  const ChannelOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
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
  options.tls |= !options.ca_file.empty() || !options.cert_file.empty() || !options.key_file.empty();
  FS_RETURN_IF_ERROR(CheckFiles(options));
  FS_RETURN_IF_ERROR(TokenOf(options).status());
  FS_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  grpc::ChannelArguments arguments;
  const int limit = static_cast<int>(options.max_message_bytes);
  arguments.SetMaxReceiveMessageSize(limit);
  arguments.SetMaxSendMessageSize(limit);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // One connection per Channel, so that two exporters of one process do not share a fate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel(options.address, credentials, arguments);
  return std::shared_ptr<Channel>(std::make_shared<ChannelImpl>(std::move(options), std::move(channel)));
}

std::shared_ptr<grpc::Channel> GrpcChannel(const Channel& channel) {
  return static_cast<const ChannelImpl&>(channel).grpc_channel();
}

}  // namespace foreshock::rpc
