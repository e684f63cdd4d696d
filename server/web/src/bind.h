// A route's handler from a function over a part of the server.
#pragma once

#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// `part` must outlive the handler.
template <typename Part>
http::Handler Bind(Part* part, http::Response (*answer)(Part&, const http::Request&)) {
  return [part, answer](const http::Request& request) { return answer(*part, request); };
}

}  // namespace foreshock::web
