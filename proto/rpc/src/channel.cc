#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "foreshock/rpc/grpc_channel.h"
#include "read_pem.h"

namespace foreshock::rpc {
namespace {

// Pings keep idle connections through NATs and notice a dead server; the server permits them (server.cc).
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMaxReconnectMs = 10'000;

class ChannelImpl final : public Channel {
 public:
  ChannelImpl(ChannelOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)), channel_(std::move(channel)) {}
  const ChannelOptions& options() const override { return options_; }
  const std::shared_ptr<grpc::Channel>& grpc_channel() const { return channel_; }

 private:
  ChannelOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
};

// An option that may be absent.
Status ReadIfGiven(const char* field, const std::string& path, std::string* out) {
  return path.empty() ? OkStatus() : ReadPem(field, path, out);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ChannelOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  FS_RETURN_IF_ERROR(ReadIfGiven("ca_file", options.ca_file, &tls.pem_root_certs));
  FS_RETURN_IF_ERROR(ReadIfGiven("cert_file", options.cert_file, &tls.pem_cert_chain));
  FS_RETURN_IF_ERROR(ReadIfGiven("key_file", options.key_file, &tls.pem_private_key));
  return grpc::SslCredentials(tls);
}

}  // namespace

Result<std::shared_ptr<Channel>> Channel::Create(ChannelOptions options) {
  const size_t colon = options.address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.address.size()) {
    return Status(Code::kInvalidArgument, "address: '" + options.address + "' is not HOST:PORT");
  }
  FS_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  grpc::ChannelArguments arguments;
  const int limit = static_cast<int>(options.max_message_bytes);
  arguments.SetMaxReceiveMessageSize(limit);
  arguments.SetMaxSendMessageSize(limit);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
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
