#include "foreshock/server/rules/rules_file.h"

#include <algorithm>
#include <map>

#include "foreshock/base/file.h"
#include "rule_parser.h"

namespace foreshock::rules {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxRules = 256;

void ParseList(const YAML::Node& list, ParsedRules* parsed) {
  if (!list.IsSequence()) return AddError(list, "rules: expected a list", &parsed->errors);
  if (list.size() > kMaxRules) {
    return AddError(list,
                    "rules: " + std::to_string(list.size()) + " rules, at most " + std::to_string(kMaxRules),
                    &parsed->errors);
  }
  std::map<std::string, int> line_of;
  for (const YAML::Node& node : list) {
    auto rule = ParseRule(node, &parsed->errors);
    if (!rule) continue;
    const auto [first, added] = line_of.emplace(rule->name, node.Mark().line + 1);
    if (!added) {
      AddError(
          node["name"],
          "name: '" + rule->name + "': the rule of line " + std::to_string(first->second) + " has it already",
          &parsed->errors);
    }
    parsed->rules.push_back(*std::move(rule));
  }
}

void ParseRoot(const YAML::Node& root, ParsedRules* parsed) {
  if (!root.IsMap()) {
    return AddError(root, "expected a map with the key rules, a list of rules", &parsed->errors);
  }
  bool found = false;
  for (const auto& entry : root) {
    if (entry.first.IsScalar() && entry.first.Scalar() == "rules" && !found) {
      found = true;
      ParseList(entry.second, parsed);
    } else {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      AddError(
          entry.first,
          "'" + key.substr(0, 60) + "': " + (key == "rules" ? "given twice" : "unknown key, expected rules"),
          &parsed->errors);
    }
  }
  if (!found) AddError(root, "rules: missing", &parsed->errors);
}

}  // namespace

std::string ToText(const std::string& file, const RuleError& error) {
  return file + ":" + std::to_string(error.line) + ":" + std::to_string(error.column) + ": " + error.message;
}

ParsedRules ParseUserRules(std::string_view text) {
  ParsedRules parsed;
  if (text.size() > kMaxBytes) {
    parsed.errors.push_back(
        {1, 1, std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxBytes)});
    return parsed;
  }
  try {
    ParseRoot(YAML::Load(std::string(text)), &parsed);
  } catch (const YAML::Exception& error) {
    parsed.errors.push_back(
        {std::max(error.mark.line, 0) + 1, std::max(error.mark.column, 0) + 1, "not YAML: " + error.msg});
  }
  std::stable_sort(parsed.errors.begin(), parsed.errors.end(), [](const RuleError& a, const RuleError& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  });
  return parsed;
}

Result<detect::UserRulesPtr> LoadUserRules(const std::string& path) {
  FS_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(PosixFileSystem(), path, kMaxBytes));
  ParsedRules parsed = ParseUserRules(text);
  if (parsed.errors.empty()) {
    return detect::UserRulesPtr(std::make_shared<detect::UserRules>(std::move(parsed.rules)));
  }
  std::string message = ToText(path, parsed.errors[0]);
  if (parsed.errors.size() > 1) message += " (and " + std::to_string(parsed.errors.size() - 1) + " more)";
  return Status(Code::kInvalidArgument, std::move(message));
}

}  // namespace foreshock::rules
