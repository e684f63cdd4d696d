// What the commands about rules share: exit statuses, errors with their places as JSON. Private.
#pragma once

#include <vector>

#include "foreshock/json/writer.h"
#include "foreshock/server/rules/rules_file.h"

namespace foreshock::cli {

inline constexpr int kPassed = 0, kFailed = 1, kBadInput = 2;

inline void PutErrors(const std::vector<rules::RuleError>& errors, json::Writer* writer) {
  writer->BeginArray();
  for (const rules::RuleError& error : errors) {
    writer->BeginObject().Key("line").Int(error.line).Key("column").Int(error.column);
    writer->Key("message").String(error.message).EndObject();
  }
  writer->EndArray();
}

}  // namespace foreshock::cli
