// GET /healthz: 200 {"status":"ok"}, or 503 {"status":"unhealthy","reason":"..."}. Everybody may ask; the
// reason is for callers with a token, where one is needed.
#pragma once

#include <functional>

#include "foreshock/base/result.h"
#include "foreshock/server/auth/gate.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::app {

// `gate` must outlive the routes.
void AddHealthRoute(std::function<Status()> health, const auth::Gate* gate, http::Routes* routes);

}  // namespace foreshock::app
