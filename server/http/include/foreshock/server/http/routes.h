// Which handler answers which path. Plain data in, plain data out: no sockets here.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::http {

struct Request {
  std::string method;                              // "GET", "POST"
  std::string target;                              // as sent: path and query, percent-encoded
  std::map<std::string, std::string> path_params;  // of the route's {name} parts, decoded
  std::multimap<std::string, std::string> query;   // decoded
  std::string body;
  std::string content_type;   // the header
  std::string authorization;  // the header; empty: none
  std::string host, origin;   // the headers; empty: none
  std::string remote_address;
  // Whether the caller may see this run; empty: every run. Set by a guard, for answers that list runs.
  std::function<bool(const std::string& run)> sees;

  // A part of the path that the route names; empty when it names none such.
  std::string Path(const std::string& name) const;
  // The first value of a query parameter; nullopt when it is not given.
  std::optional<std::string> Query(const std::string& name) const;
};

struct Response {
  int code = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
};

// Called on any of the server's threads, several at once.
using Handler = std::function<Response(const Request&)>;
// Asked before the handler of the route with this pattern, path and query decoded: a response refuses.
using Guard = std::function<std::optional<Response>(const std::string& pattern, Request& request)>;

class Routes {
 public:
  // Patterns like "/api/v1/runs/{run}/alerts". A {name} matches one part of the path as sent, so that an
  // encoded slash (%2F) stays inside it. The first route that matches answers.
  void Get(std::string pattern, Handler handler) { Add("GET", std::move(pattern), std::move(handler)); }
  void Post(std::string pattern, Handler handler) { Add("POST", std::move(pattern), std::move(handler)); }

  // For all routes, also those that are added later.
  void SetGuard(Guard guard) { guard_ = std::move(guard); }

  // 404 for a path nobody has, 405 for another method, 400 for bad percent-encoding, 500 when the handler
  // throws; these as JSON errors. HEAD is answered as GET.
  Response Dispatch(Request request) const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> parts;
    Handler handler;
  };
  void Add(std::string method, std::string pattern, Handler handler);

  std::vector<Route> routes_;
  Guard guard_;
};

// "a%2Fb+c" is "a/b+c" in a path, "a/b c" in a query. kInvalidArgument for a broken escape.
// The other way: base/percent.
Result<std::string> PercentDecode(std::string_view text, bool plus_is_space);

// {"error":{"code":..,"message":..,"field":..}} with the HTTP code that fits. The field is what the message
// names before its first colon, when that is one word; else null.
Response ErrorResponse(const Status& status);
// The same as 401: who asks must say who he is.
Response Unauthorized(const Status& status);

}  // namespace foreshock::http
