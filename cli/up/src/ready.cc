#include "ready.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace foreshock::cli {

Result<std::string> ReadReadyField(const std::string& path, const std::string& field) {
  std::ifstream in(path);
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  if (!object.is_object()) return Status(Code::kDataLoss, path + ": no JSON object");
  const auto at = object.find(field);
  if (at == object.end() || !at->is_string())
    return Status(Code::kNotFound, path + ": no text '" + field + "'");
  return at->get<std::string>();
}

}  // namespace foreshock::cli
