// Rules: names, how long a finding must stand before it fires, and what to do about it.
#pragma once

#include <span>
#include <string_view>

namespace foreshock::detect {

struct UserRule;

struct RuleInfo {
  std::string_view name;
  int fire_after;                  // verdicts in a row with a finding before the alert fires (1: at once)
  int resolve_after;               // verdicts in a row without one before it resolves
  std::string_view meaning;        // one sentence
  std::string_view advice;         // what to do
  const UserRule* user = nullptr;  // of a user's rule; null: built in
};

// All built-in rules, in the order in which they are evaluated.
std::span<const RuleInfo> BuiltInRules();

// nullptr when there is no such rule.
const RuleInfo* FindRule(std::string_view name);

}  // namespace foreshock::detect
