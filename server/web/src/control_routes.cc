#include "foreshock/server/web/control_routes.h"

#include <google/protobuf/util/json_util.h>

#include "control_token.h"
#include "foreshock/json/json.h"
#include "foreshock/json/writer.h"
#include "params.h"

namespace foreshock::web {
namespace {

using control::Controls;
using http::ErrorResponse;
using http::Request;
using http::Response;

// The body as a message, by the field names of control.proto. Unknown fields are errors.
template <typename Message>
Result<Message> Body(const Request& request) {
  if (request.content_type.substr(0, request.content_type.find(';')) != "application/json") {
    return Status(Code::kInvalidArgument,
                  "content_type: \"" + request.content_type + "\", must be application/json");
  }
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(request.body, &message);
  if (!status.ok()) {
    return Status(Code::kInvalidArgument, "body: " + std::string(status.message()));
  }
  if (!message.run().empty() && message.run() != request.Path("run")) {
    return Status(Code::kInvalidArgument,
                  "run: \"" + message.run() + "\", the path says \"" + request.Path("run") + "\"");
  }
  message.set_run(request.Path("run"));
  return message;
}

Response Json(int code, const google::protobuf::Message& message) {
  return {code, "application/json", json::ToJson(message) + "\n"};
}

Response Act(Controls* controls, const Request& request) {
  const auto ask = Body<v1::ActRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const auto reply = controls->Act(*ask);
  return reply.ok() ? Json(201, *reply) : ErrorResponse(reply.status());
}

Response ListActions(Controls* controls, const Request& request) {
  Params params(request);
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  v1::ListActionsRequest ask;
  ask.set_run(request.Path("run"));
  const auto reply = controls->ListActions(ask);
  return reply.ok() ? Json(200, *reply) : ErrorResponse(reply.status());
}

Response SetSampling(Controls* controls, const Request& request) {
  const auto ask = Body<v1::SetSamplingRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const Status status = controls->SetSampling(*ask);
  return status.ok() ? Json(200, v1::SetSamplingReply()) : ErrorResponse(status);
}

}  // namespace

void AddControlRoutes(Controls* controls, const std::string& control_token, http::Routes* routes) {
  const auto guarded = [controls, control_token](Response (*answer)(Controls*, const Request&)) {
    return [controls, control_token, answer](const Request& request) {
      if (!control_token.empty() && !CarriesToken(control_token, request)) {
        return ErrorResponse(Status(Code::kPermissionDenied,
                                    "authorization: acting needs the header 'Bearer TOKEN' with the server's "
                                    "control token (control_token_file)"));
      }
      return answer(controls, request);
    };
  };
  routes->Get("/api/v1/runs/{run}/actions",
              [controls](const Request& request) { return ListActions(controls, request); });
  routes->Post("/api/v1/runs/{run}/actions", guarded(Act));
  routes->Post("/api/v1/runs/{run}/sampling", guarded(SetSampling));
  routes->Get("/api/v1/control", [control_token](const Request& request) {
    json::Writer out;
    out.BeginObject().Key("token_configured").Bool(!control_token.empty());
    out.Key("token_given").Bool(CarriesToken(control_token, request)).EndObject();
    return Response{200, "application/json", out.Take() + "\n"};
  });
}

}  // namespace foreshock::web
