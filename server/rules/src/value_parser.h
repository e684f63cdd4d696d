// The small languages inside a rule's values. Pure; each says what it expected when it cannot read the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/detect/user_rule.h"

namespace foreshock::rules {

// "48 samples", "500 steps", "1 step".
Result<detect::Span> ParseSpan(std::string_view text);

// "max", "min", "mean", "median", "sum", "spread", "quantile 0.9".
Result<detect::Reduction> ParseReduction(std::string_view text);

struct Condition {
  detect::Comparison comparison;
  double threshold;
};
// "> 3", "<= -1e-4". NaN and infinities are refused.
Result<Condition> ParseCondition(std::string_view text);

// "5" or "0-3".
Result<detect::IndexRange> ParseRange(std::string_view text);

struct Function {
  detect::WindowFunction function;
  detect::Reduction reduction;  // of kReduce
};
// "value", "delta", ..., or a reduction.
Result<Function> ParseFunction(std::string_view text);

Result<detect::Severity> ParseSeverity(std::string_view text);

// " (did you mean NAME?)" where one of the names is close to what was written, else nothing.
std::string DidYouMean(std::string_view written, const std::vector<std::string_view>& names);

}  // namespace foreshock::rules
