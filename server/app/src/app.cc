#include "foreshock/server/app/app.h"

#include <cmath>
#include <mutex>

#include "counters.h"
#include "foreshock/rpc/server.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/auth/listen.h"
#include "foreshock/server/http/server.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/merge/merger.h"
#include "foreshock/server/query/query_service.h"
#include "foreshock/server/web/routes.h"
#include "health_route.h"

namespace foreshock::app {
namespace {

constexpr int kStopGraceMs = 2000;

Status CheckSeconds(const char* field, double value) {
  if (value >= 0 && value <= 86'400) return OkStatus();
  return Status(Code::kInvalidArgument,
                std::string(field) + ": " + std::to_string(value) + ", must be 0 to 86400 seconds");
}

class AppImpl final : public App {
 public:
  AppImpl(AppOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  ~AppImpl() override { Stop(); }

  Status Check() {
    FS_ASSIGN_OR_RETURN(grpc_, auth::ParseHostPort("grpc_address", options_.grpc_address));
    FS_ASSIGN_OR_RETURN(http_, auth::ParseHostPort("http_address", options_.http_address));
    FS_RETURN_IF_ERROR(auth::CheckListen("grpc_address", grpc_, {}));
    FS_RETURN_IF_ERROR(auth::CheckListen("http_address", http_, {}));
    FS_RETURN_IF_ERROR(CheckSeconds("merge_wait_seconds", options_.merge_wait_seconds));
    FS_RETURN_IF_ERROR(CheckSeconds("silent_after_seconds", options_.silent_after_seconds));
    if (options_.data_folder.empty()) return Status(Code::kInvalidArgument, "data_folder: empty");
    return OkStatus();
  }

  Status Start() override {
    if (grpc_server_ != nullptr) return Status(Code::kFailedPrecondition, "the server is running already");
    const Status status = StartParts();
    if (!status.ok()) Stop();
    return status;
  }

  // In the reverse order of StartParts: first nobody comes in any more, the store goes last.
  void Stop() override {
    if (http_server_ != nullptr) http_server_->Stop();
    if (query_service_ != nullptr) query_service_->Shutdown();
    if (ingest_ != nullptr) ingest_->CloseStreams();
    if (grpc_server_ != nullptr) grpc_server_->Stop(kStopGraceMs);
    http_server_.reset();
    grpc_server_.reset();
    query_service_.reset();
    queries_.reset();
    ingest_.reset();
    merger_.reset();
    alerts_.reset();
    store_.reset();
  }

  int grpc_port() const override { return grpc_server_ != nullptr ? grpc_server_->port() : 0; }
  int http_port() const override { return http_server_ != nullptr ? http_server_->port() : 0; }

  Status health() const override {
    if (store_ == nullptr || ingest_ == nullptr) return Status(Code::kFailedPrecondition, "not running");
    FS_RETURN_IF_ERROR(store_->health());
    return ingest_->health();
  }

 private:
  Status StartParts() {
    FS_RETURN_IF_ERROR(StartHistory());
    FS_RETURN_IF_ERROR(StartAnswers());
    LogInfo("server/app", "listening",
            {{"grpc", grpc_server_->port()}, {"http", http_server_->port()}, {"data", options_.data_folder}});
    return OkStatus();
  }

  // What takes records in and judges them. Alerts listen before the merger speaks.
  Status StartHistory() {
    FS_ASSIGN_OR_RETURN(store_, store::Store::Open({.folder = options_.data_folder,
                                                    .write_buffer_bytes = options_.write_buffer_bytes}));
    FS_ASSIGN_OR_RETURN(alerts_, alert::AlertService::Start({}, store_.get(), &clock_));
    merge::MergerOptions merge;
    merge.wait = std::chrono::nanoseconds(static_cast<int64_t>(options_.merge_wait_seconds * 1e9));
    FS_ASSIGN_OR_RETURN(merger_, merge::Merger::Start(*store_, clock_, merge));
    ingest_ = ingest::Ingest::Start(*store_, clock_, {});
    return OkStatus();
  }

  // What talks to the outside.
  Status StartAnswers() {
    query::QueryOptions query;
    query.store = store_.get();
    query.alerts = alerts_.get();
    query.clock = &clock_;
    query.silent_after_seconds = options_.silent_after_seconds;
    query.data_folder = options_.data_folder;
    query.counters = [this] { return CountersOf(*ingest_, *merger_); };
    queries_ = std::make_unique<query::Queries>(std::move(query));
    query_service_ = query::QueryService::Create(queries_.get(), {});
    http::Routes routes;
    AddHealthRoute([this] { return health(); }, &routes);
    web::AddQueryRoutes(queries_.get(), &routes);
    FS_ASSIGN_OR_RETURN(http_server_,
                        http::Server::Start({.host = http_.host, .port = http_.port}, std::move(routes)));
    rpc::ServerOptions rpc;
    rpc.address = options_.grpc_address;
    FS_ASSIGN_OR_RETURN(grpc_server_,
                        rpc::Server::Start(rpc, &ingest_->handlers(), {query_service_->service()}));
    return OkStatus();
  }

  const AppOptions options_;
  const Clock& clock_;
  auth::HostPort grpc_, http_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<merge::Merger> merger_;
  std::unique_ptr<ingest::Ingest> ingest_;
  std::unique_ptr<query::Queries> queries_;
  std::unique_ptr<query::QueryService> query_service_;
  std::unique_ptr<http::Server> http_server_;
  std::unique_ptr<rpc::Server> grpc_server_;
};

}  // namespace

Result<std::unique_ptr<App>> App::New(AppOptions options, const Clock& clock) {
  auto app = std::make_unique<AppImpl>(std::move(options), clock);
  FS_RETURN_IF_ERROR(app->Check());
  return std::unique_ptr<App>(std::move(app));
}

}  // namespace foreshock::app
