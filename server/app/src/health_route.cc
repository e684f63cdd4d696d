#include "health_route.h"

#include <nlohmann/json.hpp>

namespace foreshock::app {

void AddHealthRoute(std::function<Status()> health, http::Routes* routes) {
  routes->Get("/healthz", [health = std::move(health)](const http::Request&) {
    const Status status = health();
    nlohmann::ordered_json body;
    body["status"] = status.ok() ? "ok" : "unhealthy";
    if (!status.ok()) body["reason"] = status.ToString();
    http::Response response;
    response.code = status.ok() ? 200 : 503;
    response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return response;
  });
}

}  // namespace foreshock::app
