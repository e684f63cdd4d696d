#include "foreshock/server/web/control_routes.h"

#include <google/protobuf/util/json_util.h>

#include "foreshock/json/json.h"
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

void AddControlRoutes(Controls* controls, http::Routes* routes) {
  const auto with = [controls](Response (*answer)(Controls*, const Request&)) {
    return [controls, answer](const Request& request) { return answer(controls, request); };
  };
  routes->Get("/api/v1/runs/{run}/actions", with(ListActions));
  routes->Post("/api/v1/runs/{run}/actions", with(Act));
  routes->Post("/api/v1/runs/{run}/sampling", with(SetSampling));
}

}  // namespace foreshock::web
