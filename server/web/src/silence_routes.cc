#include "foreshock/server/web/silence_routes.h"

#include "control_token.h"
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

void AddSilenceRoutes(const SilenceApi* api, const std::string& control_token, http::Routes* routes) {
  using Answer = Response (*)(const SilenceApi&, const Request&);
  const auto open = [api](Answer answer) {
    return [api, answer](const Request& r) { return answer(*api, r); };
  };
  const auto guarded = [api, control_token](Answer answer) {
    return [api, control_token, answer](const Request& request) {
      if (!control_token.empty() && !CarriesToken(control_token, request)) {
        return ErrorResponse(
            Status(Code::kPermissionDenied,
                   "authorization: silencing needs the header 'Bearer TOKEN' with the server's "
                   "control token (control_token_file)"));
      }
      return answer(*api, request);
    };
  };
  routes->Get("/api/v1/silences", open(List));
  routes->Post("/api/v1/silences", guarded(Create));
  routes->Post("/api/v1/silences/{id}/expire", guarded(Expire));
  routes->Post("/api/v1/runs/{run}/acknowledge", guarded(Acknowledge));
  routes->Get("/api/v1/audit", open(Audit));
}

}  // namespace foreshock::web
