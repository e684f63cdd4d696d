// GET /healthz: 200 {"status":"ok"}, or 503 {"status":"unhealthy","reason":"..."}.
#pragma once

#include <functional>

#include "foreshock/base/result.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::app {

void AddHealthRoute(std::function<Status()> health, http::Routes* routes);

}  // namespace foreshock::app
