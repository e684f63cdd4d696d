#include "foreshock/server/web/guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "foreshock/json/writer.h"

namespace foreshock::web {
namespace {

using auth::Caller;
using auth::Gate;
using auth::Scope;
using http::Request;
using http::Response;

// Shows nothing of any run.
constexpr std::array<std::string_view, 4> kPublic = {"/", "/ui/{file}", "/healthz", "/api/v1/control"};
// Concerns no run, or shows only what Request::sees allows.
constexpr std::array<std::string_view, 4> kOfNoRun = {"/api/v1/runs", "/api/v1/alerts", "/api/v1/status",
                                                      "/api/v1/catalogue"};

template <size_t n>
bool Has(const std::array<std::string_view, n>& patterns, const std::string& pattern) {
  return std::find(patterns.begin(), patterns.end(), pattern) != patterns.end();
}

// The runs that a request names.
std::vector<std::string> RunsOf(const Request& request) {
  std::vector<std::string> runs;
  if (request.path_params.contains("run")) runs.push_back(request.Path("run"));
  const auto [begin, end] = request.query.equal_range("run");
  for (auto it = begin; it != end; ++it) {
    // "a,b" means two; a name with a comma in it is judged whole and in parts.
    runs.push_back(it->second);
    std::string_view rest = it->second;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      if (!item.empty()) runs.emplace_back(item);
    }
  }
  return runs;
}

Status May(const Caller& caller, const std::string& pattern, Scope scope, const Request& request) {
  const std::vector<std::string> runs = RunsOf(request);
  for (const std::string& run : runs) FS_RETURN_IF_ERROR(caller.May(scope, run));
  if (!runs.empty()) return OkStatus();
  return Has(kOfNoRun, pattern) ? caller.MayAtAll(scope) : caller.MayForAllRuns(scope);
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Programs send a Host that they dialled and no Origin; only browsers let a stranger's page choose.
Status CheckBrowser(const std::set<std::string>& names, const Request& request, bool reads) {
  const std::string host = HostOfUrl(request.host);
  if (!host.empty() && host != "localhost" && !IsAddress(host) && !names.contains(host)) {
    return Status(Code::kPermissionDenied,
                  "host: '" + host + "' is not a name of this server; dial its address, or set external_url");
  }
  const std::string origin = HostOfUrl(request.origin);
  if (reads || request.origin.empty() || origin == host || names.contains(origin)) return OkStatus();
  return Status(Code::kPermissionDenied, "origin: '" + request.origin + "' is another site's page");
}

std::optional<Response> Refuse(const Gate& gate, const std::set<std::string>& names,
                               const std::string& pattern, Request& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!gate.tokens_needed()) {
    const Status browser = CheckBrowser(names, request, reads);
    if (!browser.ok()) return http::ErrorResponse(browser);
  }
  if (Has(kPublic, pattern)) return std::nullopt;
  const Scope scope = reads ? Scope::kRead : Scope::kControl;
  auto caller = gate.Identify(CredentialsOf(request));
  if (!caller.ok()) return http::Unauthorized(caller.status());
  if (const Status may = gate.Count(May(*caller, pattern, scope, request)); !may.ok()) {
    return http::ErrorResponse(may);
  }
  request.sees = [caller = *std::move(caller)](const std::string& run) {
    return caller.May(Scope::kRead, run).ok();
  };
  return std::nullopt;
}

Response Control(const Gate& gate, const Request& request) {
  const bool configured = gate.tokens_needed() || gate.has_control_token();
  bool known = false, given = false;
  if (configured && !CredentialsOf(request).token.empty()) {
    const auto caller = gate.Identify(CredentialsOf(request));
    given = caller.ok() && caller->MayAtAll(Scope::kControl).ok();
    known = given || (caller.ok() && gate.tokens_needed());
  }
  json::Writer out;
  out.BeginObject().Key("token_configured").Bool(configured).Key("token_given").Bool(given);
  out.Key("token_known").Bool(known).EndObject();
  return {200, "application/json", out.Take() + "\n"};
}

}  // namespace

auth::Credentials CredentialsOf(const Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  auth::Credentials credentials;
  credentials.address = request.remote_address;
  if (request.authorization.starts_with(kBearer)) {
    credentials.token = request.authorization.substr(kBearer.size());
  }
  return credentials;
}

std::string HostOfUrl(std::string_view url) {
  if (const size_t scheme = url.find("://"); scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (url.starts_with('[')) return std::string(url.substr(1, url.find(']') - 1));
  return std::string(url.substr(0, url.find(':')));
}

void AddGuard(const Gate* gate, std::set<std::string> names, http::Routes* routes) {
  routes->SetGuard([gate, names = std::move(names)](const std::string& pattern, Request& request) {
    return Refuse(*gate, names, pattern, request);
  });
  routes->Get("/api/v1/control", [gate](const Request& request) { return Control(*gate, request); });
}

}  // namespace foreshock::web
