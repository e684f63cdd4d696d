#include "foreshock/rpc/server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>

#include <algorithm>

#include "acceptor.h"
#include "foreshock/base/tls_identity.h"
#include "ingest_reactor.h"

namespace foreshock::rpc {
namespace {

constexpr int kMinPingIntervalMs = 4'000;  // clients ping every 5 s at most (channel.cc): never too many
// A client that vanished without a word would keep its streams for hours: it is asked, too.
constexpr int kServerKeepaliveMs = 60'000;
constexpr int kServerKeepaliveTimeoutMs = 20'000;

Result<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ServerOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty() ||
      (options.cert_file.empty() && !options.client_ca_file.empty())) {
    return Status(Code::kInvalidArgument, "cert_file: TLS needs it together with key_file");
  }
  if (options.cert_file.empty()) return grpc::InsecureServerCredentials();
  // gRPC reads the files itself, later and again, and says nothing to anybody: they are looked at here first.
  FS_RETURN_IF_ERROR(
      TlsIdentity::Load("cert_file", options.cert_file, "key_file", options.key_file).status());
  const bool mutual = !options.client_ca_file.empty();
  if (mutual) FS_RETURN_IF_ERROR(TlsRoots::Load("client_ca_file", options.client_ca_file).status());
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions server(std::make_shared<tls::FileWatcherCertificateProvider>(
      options.key_file, options.cert_file, options.client_ca_file, options.reload_seconds));
  server.watch_identity_key_cert_pairs();
  if (mutual) server.watch_root_certs();
  server.set_cert_request_type(mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return tls::TlsServerCredentials(server);
}

// Descriptors that are left to others than gRPC's connections: files of a store, HTTP, libraries.
constexpr size_t kOtherFiles = 1024;

size_t RoomForConnections(size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const size_t all = files.rlim_cur;
  return std::min(wanted, all > 2 * kOtherFiles ? all - kOtherFiles : all / 2);
}

class ServerImpl final : public Server {
 public:
  explicit ServerImpl(IngestHandlerFactory* ingest) {
    if (ingest != nullptr) ingest_ = std::make_unique<RawIngestService>(ingest);
  }
  ~ServerImpl() override { Stop(0); }

  Status Listen(const ServerOptions& options, const std::vector<grpc::Service*>& services) {
    FS_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
    FS_ASSIGN_OR_RETURN(acceptor_, Acceptor::Listen(options.address, kServerKeepaliveTimeoutMs));
    grpc::ServerBuilder builder;
    using Builder = grpc::ServerBuilder::experimental_type;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD, credentials);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls_per_connection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.handshake_timeout_ms);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.idle_connection_ms);
    if (ingest_ != nullptr) builder.RegisterService(ingest_.get());
    for (grpc::Service* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return Status(Code::kInternal, "grpc: the server did not start");
    const auto take = [this](int listener_fd, int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = listener_fd;
      connection.fd = fd;
      connections_->HandleNewConnection(&connection);
    };
    acceptor_->Start(take, RoomForConnections(options.max_connections), options.tell_refused);
    return OkStatus();
  }

  int port() const override { return acceptor_->port(); }
  uint64_t refused_connections() const override { return acceptor_->refused(); }

  void Stop(int grace_ms) override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
    server_->Wait();
    server_.reset();
  }

 private:
  std::unique_ptr<RawIngestService> ingest_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, IngestHandlerFactory* ingest,
                                              const std::vector<grpc::Service*>& services) {
  auto server = std::make_unique<ServerImpl>(ingest);
  FS_RETURN_IF_ERROR(server->Listen(options, services));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace foreshock::rpc
