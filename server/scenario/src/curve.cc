#include "curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "foreshock/server/rules/number.h"

namespace foreshock::scenario {
namespace {

std::optional<double> ValueOf(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  const auto value = rules::Number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Status Bad(std::string_view item, const std::string& expected) {
  return Status(Code::kInvalidArgument, "'" + std::string(item.substr(0, 40)) + "': expected " + expected);
}

}  // namespace

Result<Curve::Segment> Curve::ParseItem(std::string_view item) {
  Segment segment;
  std::string_view value = item;
  if (const size_t times = item.rfind('x'); times != std::string_view::npos) {
    segment.samples = rules::Number<int64_t>(item.substr(times + 1)).value_or(0);
    if (segment.samples < 1 || segment.samples > kMostSamples) {
      return Bad(item, "xN with N from 1 to " + std::to_string(kMostSamples));
    }
    value = item.substr(0, times);
  }
  if (value == "_") {
    segment.kind = Segment::Kind::kMissing;
    return segment;
  }
  if (value == "ok" || value.starts_with("ok*")) {
    segment.kind = Segment::Kind::kHealthy;
    if (value == "ok") return segment;
    value.remove_prefix(3);
  }
  size_t mark = value.find("..");
  const size_t wide = mark != std::string_view::npos ? 2 : 1;
  if (wide == 1) mark = value.find('~');
  segment.ratios = wide == 1 && mark != std::string_view::npos;
  const auto from = ValueOf(value.substr(0, mark));
  const auto to = mark == std::string_view::npos ? from : ValueOf(value.substr(mark + wide));
  if (!from || !to) return Bad(item, "a number, A..BxN, A~BxN, ok, ok*A, ok*A~BxN, _, NaN, Inf or -Inf");
  if (segment.ratios && !(*from * *to > 0)) return Bad(item, "A~B of one sign, without 0");
  segment.from = *from;
  segment.to = *to;
  return segment;
}

Result<Curve> Curve::Parse(std::string_view text) {
  Curve curve;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    if (end > at) {
      FS_ASSIGN_OR_RETURN(const Segment segment, ParseItem(text.substr(at, end - at)));
      curve.samples_ += segment.samples;
      curve.segments_.push_back(segment);
    }
    at = end + 1;
  }
  if (curve.segments_.empty()) return Bad(text, "at least one value");
  if (curve.samples_ > kMostSamples) return Bad(text, "at most " + std::to_string(kMostSamples) + " samples");
  return curve;
}

bool Curve::needs_healthy() const {
  for (const Segment& segment : segments_) {
    if (segment.kind == Segment::Kind::kHealthy) return true;
  }
  return false;
}

std::optional<double> Curve::Value(int64_t sample,
                                   const std::function<std::optional<double>()>& healthy) const {
  const Segment* segment = &segments_.front();
  while (sample >= segment->samples && segment != &segments_.back()) {
    sample -= segment->samples;
    ++segment;
  }
  if (segment->kind == Segment::Kind::kMissing) return std::nullopt;
  const double share =
      segment->samples > 1
          ? std::min(1.0, static_cast<double>(sample) / static_cast<double>(segment->samples - 1))
          : 1;
  double value = segment->from;  // kept as it is where both ends are the same: NaN and Inf
  if (segment->ratios) {
    value = segment->from * std::pow(segment->to / segment->from, share);
  } else if (segment->from != segment->to && std::isfinite(segment->from) && std::isfinite(segment->to)) {
    value = segment->from + share * (segment->to - segment->from);
  }
  if (segment->kind == Segment::Kind::kNumber) return value;
  const auto usual = healthy();
  if (!usual) return std::nullopt;
  return *usual * value;
}

}  // namespace foreshock::scenario
