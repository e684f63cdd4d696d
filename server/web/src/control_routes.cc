#include "foreshock/server/web/control_routes.h"

#include "control_token.h"
#include "foreshock/json/json.h"
#include "foreshock/json/writer.h"
#include "json_body.h"
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
  Message message;
  FS_RETURN_IF_ERROR(ReadJsonBody(request, &message));
  return message;
}

// The same about the run of the path.
template <typename Message>
Result<Message> BodyOfRun(const Request& request) {
  FS_ASSIGN_OR_RETURN(Message message, Body<Message>(request));
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
  const auto ask = BodyOfRun<v1::ActRequest>(request);
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
  const auto ask = BodyOfRun<v1::SetSamplingRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const Status status = controls->SetSampling(*ask);
  return status.ok() ? Json(200, v1::SetSamplingReply()) : ErrorResponse(status);
}

std::string IssuerOf(const std::string& issuer) { return issuer.empty() ? "operator" : issuer; }

Response DeleteRun(upkeep::Upkeep* upkeep, const Request& request) {
  const auto ask = BodyOfRun<v1::DeleteRunRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const Status status = upkeep->DeleteRun(ask->run(), ask->force(), IssuerOf(ask->issuer()));
  return status.ok() ? Json(200, v1::DeleteRunReply()) : ErrorResponse(status);
}

Response Backup(upkeep::Upkeep* upkeep, const Request& request) {
  const auto ask = Body<v1::BackupRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const auto info = upkeep->Backup(ask->name(), IssuerOf(ask->issuer()));
  if (!info.ok()) return ErrorResponse(info.status());
  v1::BackupReply reply;
  reply.set_folder(info->folder);
  reply.set_bytes(info->bytes);
  return Json(201, reply);
}

// The handler for those who carry the token.
template <typename Part>
http::Handler Guarded(Part* part, const std::string& control_token,
                      Response (*answer)(Part*, const Request&)) {
  return [part, control_token, answer](const Request& request) {
    if (!control_token.empty() && !CarriesToken(control_token, request)) {
      return ErrorResponse(Status(Code::kPermissionDenied,
                                  "authorization: acting needs the header 'Bearer TOKEN' with the server's "
                                  "control token (control_token_file)"));
    }
    return answer(part, request);
  };
}

}  // namespace

void AddControlRoutes(Controls* controls, const std::string& control_token, http::Routes* routes) {
  routes->Get("/api/v1/runs/{run}/actions",
              [controls](const Request& request) { return ListActions(controls, request); });
  routes->Post("/api/v1/runs/{run}/actions", Guarded(controls, control_token, Act));
  routes->Post("/api/v1/runs/{run}/sampling", Guarded(controls, control_token, SetSampling));
  routes->Get("/api/v1/control", [control_token](const Request& request) {
    json::Writer out;
    out.BeginObject().Key("token_configured").Bool(!control_token.empty());
    out.Key("token_given").Bool(CarriesToken(control_token, request)).EndObject();
    return Response{200, "application/json", out.Take() + "\n"};
  });
}

void AddUpkeepRoutes(upkeep::Upkeep* upkeep, const std::string& control_token, http::Routes* routes) {
  routes->Post("/api/v1/runs/{run}/delete", Guarded(upkeep, control_token, DeleteRun));
  routes->Post("/api/v1/backups", Guarded(upkeep, control_token, Backup));
}

}  // namespace foreshock::web
