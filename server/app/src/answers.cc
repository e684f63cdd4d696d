#include "answers.h"

#include "counters.h"
#include "foreshock/base/log_refused.h"
#include "foreshock/server/report/report.h"
#include "foreshock/server/web/control_routes.h"
#include "foreshock/server/web/guard.h"
#include "foreshock/server/web/page_routes.h"
#include "foreshock/server/web/routes.h"
#include "foreshock/server/web/silence_routes.h"
#include "health_route.h"

namespace foreshock::app {
namespace {

constexpr size_t kHttpThreads = 32;

query::QueryOptions QueryOptionsOf(const AppOptions& options, const Clock& clock, History& history) {
  query::QueryOptions query;
  query.store = history.store.get();
  query.alerts = history.alerts.get();
  query.clock = &clock;
  query.silences = history.silences.get();
  query.silent_after_seconds = options.silent_after_seconds;
  query.data_folder = options.data_folder;
  query.counters = [&history] { return CountersOf(history); };
  return query;
}

exporter::ExportOptions ExportOptionsOf(const AppOptions& options, const Clock& clock, History& history) {
  exporter::ExportOptions metrics;
  metrics.store = history.store.get();
  metrics.alerts = history.alerts.get();
  metrics.clock = &clock;
  metrics.silences = history.silences.get();
  metrics.per_head = options.metrics_per_head;
  metrics.server = [&history] { return MetricsOf(history); };
  return metrics;
}

query::RenderReport ReportOf(const AppOptions& options, const Clock& clock, History& history) {
  report::ReportOptions report;
  report.store = history.store.get();
  report.alerts = history.alerts.get();
  report.clock = &clock;
  report.silent_after_seconds = options.silent_after_seconds;
  report.actions = [&history](const v1::ListActionsRequest& request) {
    return history.controls->ListActions(request);
  };
  return [report](const std::vector<std::string>& runs) { return report::Render(report, runs); };
}

http::ServerOptions HttpOptionsOf(const AppOptions& options, const auth::HostPort& address) {
  http::ServerOptions http;
  http.host = address.host;
  http.port = address.port;
  http.threads = kHttpThreads;
  http.max_connections_per_address = kHttpThreads * 3 / 4;
  if (!options.http_tls) return http;
  http.cert_file = options.tls_cert_file;
  http.key_file = options.tls_key_file;
  http.client_ca_file = options.http_client_ca_file;
  return http;
}

rpc::ServerOptions RpcOptionsOf(const AppOptions& options) {
  rpc::ServerOptions rpc;
  rpc.address = options.grpc_address;
  rpc.cert_file = options.tls_cert_file;
  rpc.key_file = options.tls_key_file;
  rpc.client_ca_file = options.tls_client_ca_file;
  rpc.reload_seconds = 1;
  rpc.max_message_bytes = options.max_message_bytes;
  rpc.max_connections = options.max_connections;
  rpc.tell_refused = [](const Refusals::Report& report) {
    LogRefused("server/app", "gRPC connections refused", report);
  };
  return rpc;
}

}  // namespace

void Answers::Stop(int grace_ms) {
  if (http != nullptr) http->Stop();
  if (query_service != nullptr) query_service->Shutdown();
  if (grpc != nullptr) grpc->Stop(grace_ms);
}

Result<std::unique_ptr<Answers>> StartAnswers(const AppOptions& options, const auth::HostPort& http_address,
                                              const Clock& clock, History& history, Security& security) {
  auto answers = std::make_unique<Answers>();
  const query::RenderReport render = ReportOf(options, clock, history);
  answers->queries = std::make_unique<query::Queries>(QueryOptionsOf(options, clock, history));
  answers->query_service = query::QueryService::Create(
      answers->queries.get(), render,
      {.gate = &security.gate(), .max_reads_per_identity = options.max_reads_per_identity});
  answers->silence_api =
      std::make_unique<control::SilenceApi>(history.silences.get(), history.audit.get(), &clock);
  answers->control_service =
      control::ControlService::Create(history.controls.get(), history.upkeep.get(),
                                      answers->silence_api.get(), &security.gate(), history.mover.get());
  answers->exporter = exporter::Exporter::Create(ExportOptionsOf(options, clock, history));

  http::Routes routes;
  std::set<std::string> names;
  if (!options.external_url.empty()) names.insert(web::HostOfUrl(options.external_url));
  web::AddGuard(&security.gate(), std::move(names), &routes);
  AddHealthRoute([&history] { return history.health(); }, &security.gate(), &routes);
  web::AddQueryRoutes(answers->queries.get(), &routes);
  web::AddControlRoutes(history.controls.get(), &routes);
  web::AddUpkeepRoutes(history.upkeep.get(), &routes);
  web::AddSilenceRoutes(answers->silence_api.get(), &routes);
  web::AddPageRoutes(&routes);
  web::AddMetricsRoute([metrics = answers->exporter.get()] { return metrics->Scrape(); }, &routes);
  web::AddReportRoute(render, &routes);
  FS_ASSIGN_OR_RETURN(answers->http,
                      http::Server::Start(HttpOptionsOf(options, http_address), std::move(routes)));
  FS_ASSIGN_OR_RETURN(answers->grpc, rpc::Server::Start(RpcOptionsOf(options), &history.ingest->handlers(),
                                                        {answers->query_service->service(),
                                                         answers->control_service->service()}));
  return answers;
}

}  // namespace foreshock::app
