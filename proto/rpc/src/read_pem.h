#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::rpc {

// The text of a certificate or key file. kInvalidArgument names the option and the path.
inline Status ReadPem(const char* field, const std::string& path, std::string* out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::kInvalidArgument, std::string(field) + ": cannot read " + path);
  std::stringstream text;
  text << in.rdbuf();
  *out = text.str();
  return OkStatus();
}

}  // namespace foreshock::rpc
