#include "foreshock/server/detect/user_rule.h"

namespace foreshock::detect {

std::string_view ComparisonSign(Comparison comparison) {
  switch (comparison) {
    case Comparison::kGreater:
      return ">";
    case Comparison::kGreaterEqual:
      return ">=";
    case Comparison::kLess:
      return "<";
    case Comparison::kLessEqual:
      return "<=";
    case Comparison::kEqual:
      return "==";
    case Comparison::kNotEqual:
      return "!=";
  }
  return "?";
}

bool Holds(Comparison comparison, double value, double threshold) {
  switch (comparison) {
    case Comparison::kGreater:
      return value > threshold;
    case Comparison::kGreaterEqual:
      return value >= threshold;
    case Comparison::kLess:
      return value < threshold;
    case Comparison::kLessEqual:
      return value <= threshold;
    case Comparison::kEqual:
      return value == threshold;
    case Comparison::kNotEqual:
      return value != threshold;
  }
  return false;
}

const std::vector<std::string_view>& UserRuleActions() {
  static const std::vector<std::string_view> actions = {"enable_qk_norm", "qk_clip", "checkpoint", "stop"};
  return actions;
}

const std::vector<std::string_view>& SummaryPlaceholders() {
  static const std::vector<std::string_view> names = {"value", "baseline", "threshold", "where",
                                                      "layer", "head",     "step",      "signal"};
  return names;
}

// Greedy with one point to go back to: linear for patterns of one star, never exponential.
bool MatchesPattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

UserRulesPtr RulesForRun(const UserRulesPtr& rules, std::string_view run) {
  if (!rules) return nullptr;
  auto mine = std::make_shared<UserRules>();
  for (const UserRule& rule : *rules) {
    if (MatchesPattern(rule.run, run)) mine->push_back(rule);
  }
  return mine;
}

}  // namespace foreshock::detect
