#include "foreshock/server/alert_core/frame_sample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "foreshock/base/catalogue.h"

namespace foreshock::alert {
namespace {

using detect::SeriesSample;
using detect::StepEvent;

bool IsUpdate(uint16_t signal) { return signal >= kUpdateProjection1 && signal <= kQkUpdateParticipation; }

uint8_t FlagsOf(const wire::Series& series) {
  uint8_t flags = 0;
  if (series.flags & wire::kLowResolution) flags |= SeriesSample::kLowResolution;
  if (series.flags & wire::kNotCausal) flags |= SeriesSample::kWeightNormsNotCausal;
  return flags;
}

// Standard error of a ratio from its moments (types.h); NaN where they do not give one.
double StandardError(const wire::Series& series, size_t i) {
  const float* m = series.moments.data() + i * wire::kMomentsPerHead;
  const double rows = m[0], weight = series.weight(i).value_or(0);
  if (rows < 2 || weight == 0) return std::nan("");
  const double ratio = series.values[i] / weight;
  const double squares = m[1] - 2 * ratio * m[2] + ratio * ratio * m[3];
  return std::sqrt(std::max(0.0, rows / (rows - 1) * squares)) / std::abs(weight);
}

bool AllTrue(const std::vector<uint8_t>& flags) {
  return std::find(flags.begin(), flags.end(), uint8_t{0}) == flags.end();
}
bool AnyTrue(const std::vector<uint8_t>& flags) {
  return std::find_if(flags.begin(), flags.end(), [](uint8_t flag) { return flag != 0; }) != flags.end();
}

// All heads are there and what users see are the values as they came, without weights and errors.
bool Plain(const wire::Series& in, const SignalInfo& info) {
  return info.merge != SignalMerge::kRatio && in.weights.empty() && in.moments.empty() &&
         AllTrue(in.present) && !(IsUpdate(in.signal) && AnyTrue(in.rotated));
}

void AddSeries(const wire::Series& in, const SignalInfo& info, detect::StepSample* sample) {
  if (in.heads.empty()) return;
  SeriesSample& out = sample->AddSeries();
  out.signal = in.signal;
  out.layer = *in.layer;
  out.flags = FlagsOf(in);
  if (Plain(in, info)) {
    out.heads.assign(in.heads.begin(), in.heads.end());
    out.values.assign(in.values.begin(), in.values.end());
    return;
  }
  const bool moments = in.moments.size() == in.count() * wire::kMomentsPerHead;
  for (size_t i = 0; i < in.heads.size(); ++i) {
    if (!in.has(i)) continue;
    if (IsUpdate(in.signal) && i < in.rotated.size() && in.rotated[i]) continue;
    const std::optional<float> weight = in.weight(i);
    const auto value = DisplayValue(info, in.values[i], weight);
    if (!value) continue;
    out.heads.push_back(in.heads[i]);
    out.values.push_back(*value);
    if (weight) out.weights.push_back(*weight);
    if (moments) out.errors.push_back(StandardError(in, i));
  }
  if (out.heads.empty()) sample->series.pop_back();
}

StepEvent::Kind KindOf(const wire::Event& event) {
  switch (event.kind) {
    case wire::EventKind::kCheckpoint:
      return StepEvent::Kind::kCheckpoint;
    case wire::EventKind::kResume:
      return StepEvent::Kind::kResume;
    case wire::EventKind::kPhase:
      return StepEvent::Kind::kPhase;
    case wire::EventKind::kEval:
      return StepEvent::Kind::kEval;
    case wire::EventKind::kUnmonitored:
      return StepEvent::Kind::kUnmonitored;
    case wire::EventKind::kGuard:
      if (event.detail.starts_with("off")) return StepEvent::Kind::kGuardOff;
      if (event.detail.starts_with("missing")) return StepEvent::Kind::kGuardMissing;
      return StepEvent::Kind::kGuardOn;  // on, restored
    default:
      return StepEvent::Kind::kNote;
  }
}

}  // namespace

detect::RunInfo RunInfoOf(const wire::Hello& hello) {
  detect::RunInfo info;
  info.sample_every_steps = hello.sample_every_steps;
  info.qk_norm = !hello.model.layers.empty();
  for (const wire::Layer& layer : hello.model.layers) {
    info.layers = std::max(info.layers, layer.layer + 1);
    info.heads = std::max({info.heads, layer.query_heads, layer.kv_heads});
    info.kv_heads = std::max(info.kv_heads, layer.kv_heads);
    info.head_dim = std::max(info.head_dim, layer.head_dim);
    info.qk_norm = info.qk_norm && layer.qk_norm;
  }
  return info;
}

std::vector<StepEvent> UnmonitoredOf(const wire::Hello& hello) {
  std::vector<StepEvent> events;
  for (const wire::Unmonitored& part : hello.unmonitored) {
    events.push_back({StepEvent::Kind::kUnmonitored, -1, part.name + ": " + part.reason});
  }
  return events;
}

void AddFrame(const wire::Frame& frame, detect::StepSample* sample) {
  sample->step = frame.step;
  sample->skipped = sample->skipped || frame.skipped;
  for (const wire::Series& series : frame.series) {
    const SignalInfo* info = FindSignal(series.signal);
    if (!info || series.values_per_head != 1 || series.values.size() != series.count()) continue;
    if (series.layer) {
      AddSeries(series, *info, sample);
    } else if (series.heads.empty() && series.has(0)) {
      const auto value = DisplayValue(*info, series.values[0], series.weight(0));
      if (value) sample->scalars.push_back({series.signal, *value});
    }
  }
}

void AddEvent(const wire::Event& event, detect::StepSample* sample) {
  const StepEvent::Kind kind = KindOf(event);
  if (event.layers.empty()) sample->events.push_back({kind, -1, event.detail});
  for (const uint32_t layer : event.layers) {
    sample->events.push_back({kind, static_cast<int32_t>(layer), event.detail});
  }
}

void AddGoodbye(const wire::Goodbye& goodbye, detect::StepSample* sample) {
  const bool failed = goodbye.status == wire::GoodbyeStatus::kFailed;
  sample->events.push_back(
      {failed ? StepEvent::Kind::kFailed : StepEvent::Kind::kFinished, -1, goodbye.detail});
}

}  // namespace foreshock::alert
