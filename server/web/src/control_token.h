// Who may act by HTTP, where the server has a control token.
#pragma once

#include <string>

#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// Whether the request carries "Authorization: Bearer TOKEN". Takes the same time whatever it carries of the
// same length. False for an empty token.
bool CarriesToken(const std::string& token, const http::Request& request);

}  // namespace foreshock::web
