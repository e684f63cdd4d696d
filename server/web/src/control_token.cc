#include "control_token.h"

namespace foreshock::web {

bool CarriesToken(const std::string& token, const http::Request& request) {
  const std::string expected = "Bearer " + token;
  const std::string& given = request.authorization;
  if (token.empty() || given.size() != expected.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < given.size(); ++i) differs |= static_cast<unsigned char>(given[i] ^ expected[i]);
  return differs == 0;
}

}  // namespace foreshock::web
