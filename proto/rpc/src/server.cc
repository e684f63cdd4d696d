#include "foreshock/rpc/server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "ingest_reactor.h"
#include "read_pem.h"

namespace foreshock::rpc {
namespace {

constexpr int kMinPingIntervalMs = 10'000;  // clients ping every minute (channel.cc): never too many

Result<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ServerOptions& options) {
  if (options.cert_file.empty()) return grpc::InsecureServerCredentials();
  const bool mutual = !options.client_ca_file.empty();
  grpc::SslServerCredentialsOptions tls(mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  FS_RETURN_IF_ERROR(ReadPem("cert_file", options.cert_file, &pair.cert_chain));
  FS_RETURN_IF_ERROR(ReadPem("key_file", options.key_file, &pair.private_key));
  tls.pem_key_cert_pairs.push_back(pair);
  if (mutual) FS_RETURN_IF_ERROR(ReadPem("client_ca_file", options.client_ca_file, &tls.pem_root_certs));
  return grpc::SslServerCredentials(tls);
}

class ServerImpl final : public Server {
 public:
  explicit ServerImpl(IngestHandlerFactory* ingest) {
    if (ingest != nullptr) ingest_ = std::make_unique<RawIngestService>(ingest);
  }
  ~ServerImpl() override { Stop(0); }

  Status Listen(const ServerOptions& options, const std::vector<grpc::Service*>& services) {
    FS_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options.address, credentials, &port_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT,
                               0);  // two servers on one port would share its streams
    if (ingest_ != nullptr) builder.RegisterService(ingest_.get());
    for (grpc::Service* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return Status(Code::kUnavailable,
                    "grpc: cannot listen on " + options.address + " (port taken, or no such address)");
    }
    return OkStatus();
  }

  int port() const override { return port_; }

  void Stop(int grace_ms) override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
    server_->Wait();
    server_.reset();
  }

 private:
  std::unique_ptr<RawIngestService> ingest_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, IngestHandlerFactory* ingest,
                                              const std::vector<grpc::Service*>& services) {
  auto server = std::make_unique<ServerImpl>(ingest);
  FS_RETURN_IF_ERROR(server->Listen(options, services));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace foreshock::rpc
