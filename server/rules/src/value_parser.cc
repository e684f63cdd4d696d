#include "value_parser.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "foreshock/server/rules/number.h"

namespace foreshock::rules {
namespace {

using detect::Comparison;
using detect::Reduction;
using detect::WindowFunction;

Status Expected(const std::string& what) { return Status(Code::kInvalidArgument, "expected " + what); }

std::string_view Trim(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

// The first word and the rest.
std::pair<std::string_view, std::string_view> FirstWord(std::string_view text) {
  text = Trim(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return {text, {}};
  return {text.substr(0, space), Trim(text.substr(space))};
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

constexpr std::pair<std::string_view, Reduction::Kind> kReductions[] = {
    {"max", Reduction::Kind::kMax},   {"min", Reduction::Kind::kMin},
    {"mean", Reduction::Kind::kMean}, {"median", Reduction::Kind::kMedian},
    {"sum", Reduction::Kind::kSum},   {"spread", Reduction::Kind::kSpread}};

constexpr std::pair<std::string_view, WindowFunction> kFunctions[] = {
    {"value", WindowFunction::kValue},
    {"delta", WindowFunction::kDelta},
    {"slope", WindowFunction::kSlope},
    {"ratio_to_median", WindowFunction::kRatioToMedian},
    {"ratio_to_median_head", WindowFunction::kRatioToMedianHead},
    {"z_score", WindowFunction::kZScore},
    {"absent", WindowFunction::kAbsent}};

// Longer signs first.
constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
    {">=", Comparison::kGreaterEqual}, {"<=", Comparison::kLessEqual}, {"==", Comparison::kEqual},
    {"!=", Comparison::kNotEqual},     {">", Comparison::kGreater},    {"<", Comparison::kLess}};

}  // namespace

Result<detect::Span> ParseSpan(std::string_view text) {
  const auto [number, unit] = FirstWord(text);
  const auto count = Number<int64_t>(number);
  const bool samples = unit == "samples" || unit == "sample";
  const bool steps = unit == "steps" || unit == "step";
  if (!count || (!samples && !steps))
    return Expected("a number and its unit, e.g. '48 samples' or '500 steps'");
  const int64_t most = samples ? detect::kMaxWindowSamples : 10'000'000;
  if (*count < 1 || *count > most) {
    return Expected("1 to " + std::to_string(most) + (samples ? " samples" : " steps"));
  }
  return samples ? detect::Span{*count, 0} : detect::Span{0, *count};
}

Result<Reduction> ParseReduction(std::string_view text) {
  const auto [word, rest] = FirstWord(text);
  if (word == "quantile") {
    const auto q = Number<double>(rest);
    if (!q || !(*q >= 0 && *q <= 1)) return Expected("'quantile Q' with Q from 0 to 1");
    return Reduction{Reduction::Kind::kQuantile, *q};
  }
  for (const auto& [name, kind] : kReductions) {
    if (word == name && rest.empty()) return Reduction{kind};
  }
  return Expected("max, min, mean, median, sum, spread or 'quantile Q'");
}

Result<Condition> ParseCondition(std::string_view text) {
  text = Trim(text);
  for (const auto& [sign, comparison] : kComparisons) {
    if (!text.starts_with(sign)) continue;
    const auto threshold = Number<double>(Trim(text.substr(sign.size())));
    if (!threshold || !std::isfinite(*threshold)) break;
    return Condition{comparison, *threshold};
  }
  return Expected("a comparison with a finite number, e.g. '> 3' (one of > >= < <= == !=)");
}

Result<detect::IndexRange> ParseRange(std::string_view text) {
  text = Trim(text);
  const size_t dash = text.find('-');
  const auto first = Number<uint32_t>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : Number<uint32_t>(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last > 65'535) {
    return Expected("an index or a range like 0-3, up to 65535");
  }
  return detect::IndexRange{*first, *last};
}

Result<Function> ParseFunction(std::string_view text) {
  text = Trim(text);
  for (const auto& [name, function] : kFunctions) {
    if (text == name) return Function{function, {}};
  }
  const auto reduction = ParseReduction(text);
  if (reduction.ok()) return Function{WindowFunction::kReduce, *reduction};
  if (text.starts_with("quantile")) return reduction.status();
  return Expected(
      "value, delta, slope, ratio_to_median, ratio_to_median_head, z_score, absent, "
      "or of the window: max, min, mean, median, sum, spread, 'quantile Q'");
}

Result<detect::Severity> ParseSeverity(std::string_view text) {
  for (const auto severity :
       {detect::Severity::kInfo, detect::Severity::kWarning, detect::Severity::kCritical}) {
    if (text == detect::SeverityName(severity)) return severity;
  }
  return Expected("info, warning or critical");
}

std::string DidYouMean(std::string_view written, const std::vector<std::string_view>& names) {
  constexpr size_t kLongest = 64;  // what is longer is no slip of the fingers
  if (written.size() > kLongest) return "";
  std::string_view best;
  size_t least = std::max<size_t>(2, written.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t distance = EditDistance(written, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best.empty() ? "" : " (did you mean " + std::string(best) + "?)";
}

}  // namespace foreshock::rules
