#include "foreshock/server/http/routes.h"

#include <algorithm>
#include <cctype>
#include <exception>

#include "foreshock/json/writer.h"

namespace foreshock::http {
namespace {

std::vector<std::string> Parts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(path.front() == '/' ? 1 : 0);
    const size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

bool IsParam(const std::string& part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }

bool Matches(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return false;
  for (size_t i = 0; i < path.size(); ++i) {
    if (IsParam(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return true;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status ParseQuery(std::string_view text, std::multimap<std::string, std::string>* query) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    FS_ASSIGN_OR_RETURN(std::string key, PercentDecode(pair.substr(0, equals), true));
    const std::string_view raw = equals < pair.size() ? pair.substr(equals + 1) : std::string_view();
    FS_ASSIGN_OR_RETURN(std::string value, PercentDecode(raw, true));
    query->emplace(std::move(key), std::move(value));
  }
  return OkStatus();
}

int HttpCode(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 400;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kFailedPrecondition:
      return 409;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnimplemented:
      return 501;
    case Code::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

// "step: -3, at least 0" is about the field "step".
std::string_view FieldOf(std::string_view message) {
  const std::string_view head = message.substr(0, message.find(':'));
  const bool word =
      head.size() < message.size() && !head.empty() && std::all_of(head.begin(), head.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '[' || c == ']';
      });
  return word ? head : std::string_view();
}

Response Error(int code, std::string_view name, std::string_view message) {
  json::Writer out;
  out.BeginObject().Key("error").BeginObject();
  out.Key("code").String(name).Key("message").String(message).Key("field");
  if (const std::string_view field = FieldOf(message); !field.empty()) {
    out.String(field);
  } else {
    out.Null();
  }
  out.EndObject().EndObject();
  Response response;
  response.code = code;
  response.body = out.Take() + "\n";
  return response;
}

}  // namespace

std::string Request::Path(const std::string& name) const {
  const auto it = path_params.find(name);
  return it == path_params.end() ? std::string() : it->second;
}

std::optional<std::string> Request::Query(const std::string& name) const {
  const auto it = query.find(name);
  if (it == query.end()) return std::nullopt;
  return it->second;
}

void Routes::Add(std::string method, std::string pattern, Handler handler) {
  std::vector<std::string> parts = Parts(pattern);
  routes_.push_back({std::move(method), std::move(pattern), std::move(parts), std::move(handler)});
}

Response Routes::Dispatch(Request request) const {
  const std::string_view target = request.target;
  const size_t mark = std::min(target.find('?'), target.size());
  const std::vector<std::string> parts = Parts(target.substr(0, mark));
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  bool path_known = false;
  for (const Route& route : routes_) {
    if (!Matches(route.parts, parts)) continue;
    path_known = true;
    if (route.method != method) continue;
    if (mark < target.size()) {
      const Status status = ParseQuery(target.substr(mark + 1), &request.query);
      if (!status.ok()) return ErrorResponse(status);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!IsParam(route.parts[i])) continue;
      Result<std::string> value = PercentDecode(parts[i], false);
      if (!value.ok()) return ErrorResponse(value.status());
      request.path_params[route.parts[i].substr(1, route.parts[i].size() - 2)] = *std::move(value);
    }
    if (guard_) {
      if (std::optional<Response> refused = guard_(route.pattern, request)) return *std::move(refused);
    }
    try {
      return route.handler(request);
    } catch (const std::exception& error) {
      return ErrorResponse(Status(Code::kInternal, error.what()));
    }
  }
  if (path_known) return Error(405, "method not allowed", request.method + " is not for this path");
  return Error(404, "not found", "no such path; docs/api.md lists them");
}

Result<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out.push_back(' ');
    } else if (text[i] != '%') {
      out.push_back(text[i]);
    } else {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
      if (low < 0)
        return Status(Code::kInvalidArgument,
                      "url: broken percent-encoding in \"" + std::string(text) + "\"");
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return out;
}

Response ErrorResponse(const Status& status) {
  return Error(HttpCode(status.code()), CodeName(status.code()), status.message());
}

Response Unauthorized(const Status& status) {
  Response response = Error(401, CodeName(status.code()), status.message());
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace foreshock::http
