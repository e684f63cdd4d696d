#include "foreshock/server/web/silence_routes.h"

#include "bind.h"
#include "foreshock/json/json.h"
#include "json_body.h"
#include "params.h"

namespace foreshock::web {
namespace {

using control::SilenceApi;
using http::ErrorResponse;
using http::Request;
using http::Response;

constexpr int64_t kMostEntries = 10'000;

template <typename Message>
Response Reply(int code, const Result<Message>& result) {
  if (!result.ok()) return ErrorResponse(result.status());
  return {code, "application/json", json::ToJson(*result) + "\n"};
}

Response List(const SilenceApi& api, const Request& request) {
  Params params(request);
  v1::ListSilencesRequest ask;
  ask.set_with_expired(params.Flag("expired"));
  ask.set_run(params.Text("run"));
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  return Reply(200, api.List(ask));
}

Response Create(const SilenceApi& api, const Request& request) {
  v1::CreateSilenceRequest ask;
  if (const Status status = ReadJsonBody(request, &ask); !status.ok()) return ErrorResponse(status);
  return Reply(201, api.Create(ask));
}

Response Expire(const SilenceApi& api, const Request& request) {
  v1::ExpireSilenceRequest ask;
  if (const Status status = ReadJsonBody(request, &ask); !status.ok()) return ErrorResponse(status);
  ask.set_id(request.Path("id"));
  return Reply(200, api.Expire(ask));
}

Response Acknowledge(const SilenceApi& api, const Request& request) {
  v1::AcknowledgeRequest ask;
  if (const Status status = ReadJsonBody(request, &ask); !status.ok()) return ErrorResponse(status);
  ask.set_run(request.Path("run"));
  return Reply(201, api.Acknowledge(ask));
}

Response Audit(const SilenceApi& api, const Request& request) {
  Params params(request);
  v1::ListAuditRequest ask;
  ask.set_run(params.Text("run"));
  ask.set_limit(static_cast<uint32_t>(params.Int("limit", 1, kMostEntries).value_or(0)));
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  return Reply(200, api.Audit(ask));
}

}  // namespace

void AddSilenceRoutes(const SilenceApi* api, http::Routes* routes) {
  routes->Get("/api/v1/silences", Bind(api, List));
  routes->Post("/api/v1/silences", Bind(api, Create));
  routes->Post("/api/v1/silences/{id}/expire", Bind(api, Expire));
  routes->Post("/api/v1/runs/{run}/acknowledge", Bind(api, Acknowledge));
  routes->Get("/api/v1/audit", Bind(api, Audit));
}

}  // namespace foreshock::web
