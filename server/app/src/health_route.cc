#include "health_route.h"

#include <nlohmann/json.hpp>

#include "foreshock/server/web/guard.h"

namespace foreshock::app {

void AddHealthRoute(std::function<Status()> health, const auth::Gate* gate, http::Routes* routes) {
  routes->Get("/healthz", [health = std::move(health), gate](const http::Request& request) {
    const Status status = health();
    nlohmann::ordered_json body;
    body["status"] = status.ok() ? "ok" : "unhealthy";
    const bool tell = !gate->tokens_needed() || gate->Identify(web::CredentialsOf(request)).ok();
    if (!status.ok() && tell) body["reason"] = status.ToString();
    http::Response response;
    response.code = status.ok() ? 200 : 503;
    response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return response;
  });
}

}  // namespace foreshock::app
