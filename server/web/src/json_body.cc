#include "json_body.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

namespace foreshock::web {
namespace {

// The proto's own name of a severity, wherever one stands.
void SpellSeverities(nlohmann::json* value) {
  if (!value->is_object()) return;
  for (auto& [name, inner] : value->items()) {
    if (name != "severity" || !inner.is_string()) {
      SpellSeverities(&inner);
      continue;
    }
    std::string text = inner.get<std::string>();
    if (text.starts_with("SEVERITY_")) continue;
    for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    inner = "SEVERITY_" + text;
  }
}

}  // namespace

Status ReadJsonBody(const http::Request& request, google::protobuf::Message* message) {
  if (request.content_type.substr(0, request.content_type.find(';')) != "application/json") {
    return Status(Code::kInvalidArgument,
                  "content_type: \"" + request.content_type + "\", must be application/json");
  }
  std::string body = request.body;
  nlohmann::json parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_discarded()) {
    SpellSeverities(&parsed);
    body = parsed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  const auto status = google::protobuf::util::JsonStringToMessage(body, message);
  if (status.ok()) return OkStatus();
  return Status(Code::kInvalidArgument, "body: " + std::string(status.message()));
}

}  // namespace foreshock::web
