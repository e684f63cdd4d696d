#include "ready.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace foreshock::cli {

Result<int> ReadPort(const std::string& path, const std::string& field) {
  std::ifstream in(path);
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  if (!object.is_object()) return Status(Code::kDataLoss, path + ": no JSON object");
  const auto at = object.find(field);
  if (at == object.end() || !at->is_number_integer()) {
    return Status(Code::kDataLoss, path + ": no port '" + field + "'");
  }
  return at->get<int>();
}

}  // namespace foreshock::cli
