#include "answers.h"

#include "counters.h"
#include "foreshock/base/file.h"
#include "foreshock/server/report/report.h"
#include "foreshock/server/web/control_routes.h"
#include "foreshock/server/web/page_routes.h"
#include "foreshock/server/web/routes.h"
#include "health_route.h"

namespace foreshock::app {
namespace {

query::QueryOptions QueryOptionsOf(const AppOptions& options, const Clock& clock, History& history) {
  query::QueryOptions query;
  query.store = history.store.get();
  query.alerts = history.alerts.get();
  query.clock = &clock;
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

// kInvalidArgument when the file has no token in its first line.
Result<std::string> ControlTokenOf(const AppOptions& options) {
  if (options.control_token_file.empty()) return std::string();
  auto text = ReadWholeFile(PosixFileSystem(), options.control_token_file, 4096);
  if (!text.ok()) return text.status().Annotate("control_token_file");
  std::string token = text->substr(0, text->find_first_of("\r\n"));
  if (token.size() >= 16) return token;
  return Status(Code::kInvalidArgument,
                "control_token_file: the first line of " + options.control_token_file + " has " +
                    std::to_string(token.size()) + " bytes, a token needs at least 16");
}

}  // namespace

void Answers::Stop(int grace_ms) {
  if (http != nullptr) http->Stop();
  if (query_service != nullptr) query_service->Shutdown();
  if (grpc != nullptr) grpc->Stop(grace_ms);
}

Result<std::unique_ptr<Answers>> StartAnswers(const AppOptions& options, const auth::HostPort& http_address,
                                              const Clock& clock, History& history) {
  auto answers = std::make_unique<Answers>();
  FS_ASSIGN_OR_RETURN(const std::string control_token, ControlTokenOf(options));
  const query::RenderReport render = ReportOf(options, clock, history);
  answers->queries = std::make_unique<query::Queries>(QueryOptionsOf(options, clock, history));
  answers->query_service = query::QueryService::Create(answers->queries.get(), render);
  answers->control_service = control::ControlService::Create(history.controls.get(), history.upkeep.get());
  answers->exporter = exporter::Exporter::Create(ExportOptionsOf(options, clock, history));

  http::Routes routes;
  AddHealthRoute([&history] { return history.health(); }, &routes);
  web::AddQueryRoutes(answers->queries.get(), &routes);
  web::AddControlRoutes(history.controls.get(), control_token, &routes);
  web::AddUpkeepRoutes(history.upkeep.get(), control_token, &routes);
  web::AddPageRoutes(&routes);
  web::AddMetricsRoute([metrics = answers->exporter.get()] { return metrics->Scrape(); }, &routes);
  web::AddReportRoute(render, &routes);
  http::ServerOptions http;
  http.host = http_address.host;
  http.port = http_address.port;
  FS_ASSIGN_OR_RETURN(answers->http, http::Server::Start(http, std::move(routes)));

  rpc::ServerOptions rpc;
  rpc.address = options.grpc_address;
  FS_ASSIGN_OR_RETURN(answers->grpc, rpc::Server::Start(rpc, &history.ingest->handlers(),
                                                        {answers->query_service->service(),
                                                         answers->control_service->service()}));
  return answers;
}

}  // namespace foreshock::app
