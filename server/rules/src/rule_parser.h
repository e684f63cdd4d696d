// One rule of the file, as YAML has it, to a detect::UserRule. Private.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/rules/rules_file.h"

namespace foreshock::rules {

// The place of a node; `errors` gets one more.
void AddError(const YAML::Node& node, std::string message, std::vector<RuleError>* errors);

// Nothing when an error was added.
std::optional<detect::UserRule> ParseRule(const YAML::Node& node, std::vector<RuleError>* errors);

}  // namespace foreshock::rules
