#include "foreshock/sdk/effect_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::sdk {

float EffectWatch::LargestLogit(const FrameLayout& layout, const FrameSlot& slot, size_t layer,
                                float otherwise) noexcept {
  const int32_t at = layout.Find(static_cast<int32_t>(layer), kLogitMax);
  if (at < 0 || !slot.used[static_cast<size_t>(at)]) return otherwise;
  const Column& column = layout.columns()[static_cast<size_t>(at)];
  float largest = kNone;
  for (uint32_t h = 0; h < column.count; ++h) {
    if (!slot.present[column.head_at + h]) continue;
    const float value = slot.values[column.value_at + h];
    if (std::isnan(value)) return value;
    largest = std::max(largest, value);
  }
  return largest == kNone ? otherwise : largest;
}

float EffectWatch::Largest(const uint32_t* layers, uint32_t count) const noexcept {
  float largest = kNone;
  for (size_t l = 0; l < layers_.size() && l < latest_.size(); ++l) {
    if (count > 0 && std::find(layers, layers + count, layers_[l].layer) == layers + count) continue;
    if (std::isnan(latest_[l])) return latest_[l];
    largest = std::max(largest, latest_[l]);
  }
  return largest == kNone ? std::numeric_limits<float>::quiet_NaN() : largest;
}

void EffectWatch::Start(const Effect& effect, int64_t from_step) noexcept {
  Watched& watched = watched_[next_++ % kMaxWatched];
  watched.active = true;
  watched.seen = 0;
  watched.from_step = from_step;
  watched.effect = effect;
  watched.effect.before = Largest(effect.layers, effect.layer_count);
}

bool EffectWatch::Step(Watched* watched, int64_t step) noexcept {
  Effect& effect = watched->effect;
  if (step < watched->from_step) {
    effect.before = Largest(effect.layers, effect.layer_count);
    return false;
  }
  watched->after[static_cast<size_t>(watched->seen++)] = Largest(effect.layers, effect.layer_count);
  if (watched->seen < kSamples) return false;
  // The middle one of three, so that one odd batch decides nothing. A NaN before cannot be compared: any
  // finite logit afterwards is better.
  auto& after = watched->after;
  effect.after = std::max(std::min(after[0], after[1]), std::min(std::max(after[0], after[1]), after[2]));
  const bool finite = std::isfinite(after[0]) && std::isfinite(after[1]) && std::isfinite(after[2]);
  effect.effective = finite && (std::isnan(effect.before) || effect.after < kMustFallBelow * effect.before);
  return true;
}

}  // namespace foreshock::sdk
