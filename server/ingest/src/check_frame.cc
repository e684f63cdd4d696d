#include "foreshock/server/ingest/check_frame.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/base/catalogue.h"

namespace foreshock::ingest {
namespace {

std::string Name(const wire::Series& series) {
  const SignalInfo* info = FindSignal(series.signal);
  return info != nullptr ? std::string(info->name) : "signal " + std::to_string(series.signal);
}

Status Invalid(const std::string& message) { return Status(Code::kInvalidArgument, message); }

// Denominators may hold what the trainer's numbers gave; rows, n and tokens are counts.
Status CheckWeights(const wire::Series& series, const SignalInfo& info) {
  if (info.merge == SignalMerge::kRatio) return OkStatus();
  const auto bad = std::find_if(series.weights.begin(), series.weights.end(),
                                [](float weight) { return !std::isfinite(weight); });
  if (bad == series.weights.end()) return OkStatus();
  return Invalid("series " + Name(series) + ": weights " + std::to_string(*bad) + ", must be finite counts");
}

// Only sums over single steps can be put together from shards, and only along known directions.
Status CheckPartial(const wire::Series& series, const SignalInfo& info) {
  if ((series.flags & wire::kPartial) == 0) return OkStatus();
  if (info.merge != SignalMerge::kSum || info.scope == SignalScope::kScalar) {
    return Invalid("series " + Name(series) + ": flags say partial, only update projections can be");
  }
  const bool any = series.present.empty() ||
                   std::find(series.present.begin(), series.present.end(), 1) != series.present.end();
  if (!any || !series.direction_hash.empty()) return OkStatus();
  return Invalid("series " + Name(series) + ": direction_hash missing, partial values need one a head");
}

using RowKey = std::pair<std::optional<uint32_t>, uint16_t>;  // layer, signal

// As senders write them, in one order or the other: then none stands twice, and nothing need be sorted.
bool Rise(const wire::Frame& frame, bool by_layer) {
  const auto key = [&](const wire::Series& s) {
    const uint64_t layer = s.layer ? uint64_t{*s.layer} + 1 : 0;
    return by_layer ? layer << 16 | s.signal : uint64_t{s.signal} << 33 | layer;
  };
  return std::adjacent_find(frame.series.begin(), frame.series.end(), [&](const auto& a, const auto& b) {
           return key(a) >= key(b);
         }) == frame.series.end();
}

Status CheckRowsStandOnce(const wire::Frame& frame) {
  if (Rise(frame, false) || Rise(frame, true)) return OkStatus();
  std::vector<RowKey> rows;
  rows.reserve(frame.series.size());
  for (const wire::Series& series : frame.series) rows.emplace_back(series.layer, series.signal);
  std::sort(rows.begin(), rows.end());
  const auto twice = std::adjacent_find(rows.begin(), rows.end());
  if (twice == rows.end()) return OkStatus();
  wire::Series series;
  series.signal = twice->second;
  const std::string of_layer = twice->first ? " of layer " + std::to_string(*twice->first) : std::string();
  return Invalid("series " + Name(series) + of_layer + ": stands there twice, must stand once a frame");
}

}  // namespace

Status CheckHeads(const wire::Model& model, uint64_t max_heads_per_run) {
  uint64_t heads = 0;
  for (const wire::Layer& layer : model.layers) heads += layer.query_heads;
  if (heads <= max_heads_per_run) return OkStatus();
  return Invalid("model.layers: " + std::to_string(heads) + " heads in all, at most " +
                 std::to_string(max_heads_per_run) + " (max_heads_per_run)");
}

ModelShape::ModelShape(const wire::Model& model) {
  for (const wire::Layer& layer : model.layers) {
    layers_[layer.layer] = {layer.query_heads, layer.kv_heads == 0 ? layer.query_heads : layer.kv_heads};
  }
}

Status ModelShape::Check(const wire::Frame& frame) const {
  if (frame.parts > wire::kMaxParts) {
    return Invalid("parts: " + std::to_string(frame.parts) + ", at most " + std::to_string(wire::kMaxParts));
  }
  if (frame.parts > 0 && frame.part >= frame.parts) {
    return Invalid("part: " + std::to_string(frame.part) + ", must be less than parts, " +
                   std::to_string(frame.parts));
  }
  // Parts have rising numbers without a hole, the first one's at least 1.
  if (frame.part > 0 && frame.part >= frame.seq) {
    return Invalid("part: " + std::to_string(frame.part) + ", must be less than seq, " +
                   std::to_string(frame.seq));
  }
  for (const wire::Series& series : frame.series) FS_RETURN_IF_ERROR(CheckSeries(series));
  return CheckRowsStandOnce(frame);
}

Status ModelShape::CheckSeries(const wire::Series& series) const {
  const SignalInfo* info = FindSignal(series.signal);
  if (info != nullptr) FS_RETURN_IF_ERROR(CheckWeights(series, *info));
  if (info != nullptr) FS_RETURN_IF_ERROR(CheckPartial(series, *info));
  const bool scalar = info != nullptr ? info->scope == SignalScope::kScalar : !series.layer.has_value();
  if (scalar) {
    if (!series.layer && series.heads.empty()) return OkStatus();
    return Invalid("series " + Name(series) + ": has a layer or heads, but it is a scalar");
  }
  if (!series.layer) return Invalid("series " + Name(series) + ": no layer");
  const auto layer = layers_.find(*series.layer);
  if (layer == layers_.end()) {
    return Invalid("series " + Name(series) + ": layer " + std::to_string(*series.layer) +
                   " is not in the Hello's model of " + std::to_string(layers_.size()) + " layers");
  }
  if (series.heads.empty()) return Invalid("series " + Name(series) + ": no heads");
  const bool kv = info != nullptr && info->scope == SignalScope::kKvHead;
  const uint32_t limit = kv ? layer->second.kv : layer->second.query;
  const uint32_t largest = *std::max_element(series.heads.begin(), series.heads.end());
  if (largest < limit) return OkStatus();
  return Invalid("series " + Name(series) + ": head " + std::to_string(largest) + " of layer " +
                 std::to_string(*series.layer) + ", must be less than " + std::to_string(limit));
}

bool StepGuard::Near(int64_t a, int64_t b) const {
  return (a > b ? a - b : b - a) <= max_jump_;  // both lie in 0..max_step_: no overflow
}

Status StepGuard::Check(int64_t step) {
  if (step < 0 || step > max_step_) {
    return Status(Code::kInvalidArgument,
                  "step: " + std::to_string(step) + ", must be 0 to " + std::to_string(max_step_));
  }
  if (!last_ || Near(step, *last_)) {
    last_ = step;
    wild_in_a_row_ = 0;
    return OkStatus();
  }
  wild_in_a_row_ = last_wild_ && wild_in_a_row_ > 0 && Near(step, *last_wild_) ? wild_in_a_row_ + 1 : 1;
  last_wild_ = step;
  if (wild_in_a_row_ >= kBelieve) {
    last_ = step;
    wild_in_a_row_ = 0;
    return OkStatus();
  }
  return Status(Code::kInvalidArgument, "step: " + std::to_string(step) + ", more than " +
                                            std::to_string(max_jump_) + " from the last one, " +
                                            std::to_string(*last_));
}

}  // namespace foreshock::ingest
