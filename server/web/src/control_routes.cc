#include "foreshock/server/web/control_routes.h"

#include "bind.h"
#include "foreshock/json/json.h"
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

Response Act(Controls& controls, const Request& request) {
  const auto ask = BodyOfRun<v1::ActRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const auto reply = controls.Act(*ask);
  return reply.ok() ? Json(201, *reply) : ErrorResponse(reply.status());
}

Response ListActions(Controls& controls, const Request& request) {
  Params params(request);
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  v1::ListActionsRequest ask;
  ask.set_run(request.Path("run"));
  const auto reply = controls.ListActions(ask);
  return reply.ok() ? Json(200, *reply) : ErrorResponse(reply.status());
}

Response SetSampling(Controls& controls, const Request& request) {
  const auto ask = BodyOfRun<v1::SetSamplingRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const Status status = controls.SetSampling(*ask);
  return status.ok() ? Json(200, v1::SetSamplingReply()) : ErrorResponse(status);
}

Response DeleteRun(upkeep::Upkeep& upkeep, const Request& request) {
  const auto ask = BodyOfRun<v1::DeleteRunRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const Status status = upkeep.DeleteRun(ask->run(), ask->force(), ask->issuer());
  return status.ok() ? Json(200, v1::DeleteRunReply()) : ErrorResponse(status);
}

Response Backup(upkeep::Upkeep& upkeep, const Request& request) {
  const auto ask = Body<v1::BackupRequest>(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const auto info = upkeep.Backup(ask->name(), ask->issuer());
  if (!info.ok()) return ErrorResponse(info.status());
  v1::BackupReply reply;
  reply.set_folder(info->folder);
  reply.set_bytes(info->bytes);
  return Json(201, reply);
}

}  // namespace

void AddControlRoutes(Controls* controls, http::Routes* routes) {
  routes->Get("/api/v1/runs/{run}/actions", Bind(controls, ListActions));
  routes->Post("/api/v1/runs/{run}/actions", Bind(controls, Act));
  routes->Post("/api/v1/runs/{run}/sampling", Bind(controls, SetSampling));
}

void AddUpkeepRoutes(upkeep::Upkeep* upkeep, http::Routes* routes) {
  routes->Post("/api/v1/runs/{run}/delete", Bind(upkeep, DeleteRun));
  routes->Post("/api/v1/backups", Bind(upkeep, Backup));
}

}  // namespace foreshock::web
