// Reads the user's rules from YAML (docs/rules/user_rules.md). yaml-cpp stays behind this component.
// Pure functions but for LoadUserRules, which reads the file; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/detect/user_rule.h"

namespace foreshock::rules {

// What is wrong at a place of the text.
struct RuleError {
  int line = 1, column = 1;  // from 1
  std::string message;       // field, value, limit
};
// "FILE:LINE:COLUMN: MESSAGE"
std::string ToText(const std::string& file, const RuleError& error);

struct ParsedRules {
  detect::UserRules rules;        // those without an error
  std::vector<RuleError> errors;  // every one, by place; empty: the text may be used
};

// At most 1 MiB of text and 256 rules. Never throws.
ParsedRules ParseUserRules(std::string_view text);

// All or nothing. kInvalidArgument with the first error, its place and how many follow; kNotFound, kIo as the
// file says.
Result<detect::UserRulesPtr> LoadUserRules(const std::string& path);

}  // namespace foreshock::rules
