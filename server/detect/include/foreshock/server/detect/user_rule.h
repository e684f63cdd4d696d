// A rule that a user wrote (docs/rules/user_rules.md), checked and ready to run: plain data. server/rules
// reads it from YAML; the detector runs it beside the built-in rules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/server/detect/finding.h"

namespace foreshock::detect {

// How several values become one. NaN is left out; of no value comes none.
struct Reduction {
  enum class Kind : uint8_t { kMax, kMin, kMean, kMedian, kSum, kSpread, kQuantile };  // spread: max - min
  Kind kind = Kind::kMax;
  double quantile = 0.5;  // of kQuantile, 0 to 1
  bool operator==(const Reduction&) const = default;
};

// What is compared: a function of one unit's newest value and of its past. A unit is a head, a layer, or the
// run. Windows hold finite values only.
enum class WindowFunction : uint8_t {
  kValue,              // the newest value
  kDelta,              // newest less oldest of the window
  kSlope,              // least squares over the window, per step
  kRatioToMedian,      // newest over the median of the window before it
  kRatioToMedianHead,  // newest over the median of all selected heads at this step
  kZScore,             // newest less that median, in units of 1.4826 MAD, at least 1/1000 of the median
  kReduce,             // a reduction of the window, the newest value included
  kAbsent,             // steps since any selected value came
};

enum class Comparison : uint8_t { kGreater, kGreaterEqual, kLess, kLessEqual, kEqual, kNotEqual };
std::string_view ComparisonSign(Comparison comparison);  // ">"
bool Holds(Comparison comparison, double value, double threshold);

// A length of time of the run: samples of the rule's signal, or steps. One of the two is above 0.
struct Span {
  int64_t samples = 0;
  int64_t steps = 0;
  bool operator==(const Span&) const = default;
};

struct IndexRange {
  uint32_t first = 0, last = 0;  // inclusive
  bool operator==(const IndexRange&) const = default;
};

struct UserRule {
  std::string name;
  uint16_t signal = 0;
  std::string run = "*";                 // pattern: * and ? as in file names
  std::vector<IndexRange> layers;        // empty: all
  std::vector<IndexRange> heads;         // empty: all
  std::optional<Reduction> over_heads;   // one value a layer
  std::optional<Reduction> over_layers;  // then one a run; needs over_heads
  std::optional<Reduction> over_all;     // one value a run, over all heads of all layers at once
  WindowFunction function = WindowFunction::kValue;
  std::string function_name = "value";  // as the user wrote it
  Reduction window_reduction;           // of kReduce
  Span window;
  Comparison comparison = Comparison::kGreater;
  double threshold = 0;
  Span hold{1, 0};                  // how long the comparison has to hold in one unit before the rule fires
  int64_t keep_firing_samples = 1;  // samples without it before the alert resolves
  Severity severity = Severity::kWarning;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string summary;  // with {value}, {baseline}, {threshold}, {where}, {layer}, {head}, {step}, {signal};
                        // empty: made up
  std::string advice;
  std::string action;  // empty: none; else one of UserRuleActions(); "qk_clip 80" holds its logit, too
  bool operator==(const UserRule&) const = default;
};

using UserRules = std::vector<UserRule>;
using UserRulesPtr = std::shared_ptr<const UserRules>;

// The longest window, in samples; one in steps keeps this many at most.
inline constexpr int64_t kMaxWindowSamples = 4096;

// What a rule may ask of a trainer.
const std::vector<std::string_view>& UserRuleActions();

// Whether `text` matches a pattern in which * stands for any text and ? for one byte.
bool MatchesPattern(std::string_view pattern, std::string_view text);

// Those whose pattern the run's name matches. Null stays null.
UserRulesPtr RulesForRun(const UserRulesPtr& rules, std::string_view run);

// The placeholders of `summary`, without braces.
const std::vector<std::string_view>& SummaryPlaceholders();

}  // namespace foreshock::detect
