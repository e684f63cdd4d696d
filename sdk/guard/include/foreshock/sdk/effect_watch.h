// Checks after an action that the logits fell: compares the largest logit_max of the layers before with the
// next samples, and says "effective" or "no effect". Never takes the action's word for it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "foreshock/sdk/frame_layout.h"

namespace foreshock::sdk {

struct Effect {
  char action_id[80] = "";
  char action[32] = "";
  uint32_t layer_count = 0;  // 0: all
  uint32_t layers[256] = {};
  float before = 0, after = 0;
  bool effective = false;
};

class EffectWatch {
 public:
  static constexpr int kSamples = 3;             // watched after the action
  static constexpr float kMustFallBelow = 0.9f;  // of the value before
  static constexpr size_t kMaxWatched = 16;      // at a time; the oldest is given up

  explicit EffectWatch(const std::vector<LayerSpec>& layers) : layers_(layers) {}

  // Ids and layers come from `effect`; its layers are global indices. `from_step`: the first step that the
  // action has an effect on. Frames of earlier steps may still come, when a device is behind.
  void Start(const Effect& effect, int64_t from_step) noexcept;
  // A sampled frame; calls done(effect) for each action whose samples are complete.
  template <typename Done>
  void Observe(const FrameLayout& layout, const FrameSlot& slot, Done&& done) noexcept {
    for (size_t l = 0; l < layers_.size(); ++l) latest_[l] = LargestLogit(layout, slot, l, Latest(l));
    for (Watched& watched : watched_) {
      if (!watched.active || !Step(&watched, slot.step)) continue;
      watched.active = false;
      done(watched.effect);
    }
  }
  // The largest logit_max of the layers at the last sample; NaN before the first.
  float Largest(const uint32_t* layers, uint32_t count) const noexcept;

  // Sizes the table; call once before the first Observe.
  void Prepare() { latest_.assign(layers_.size(), kNone); }

 private:
  static constexpr float kNone = -1e30f;
  struct Watched {
    bool active = false;
    int seen = 0;
    int64_t from_step = 0;
    Effect effect;
    std::array<float, kSamples> after = {};
  };
  float Latest(size_t layer) const noexcept { return latest_[layer]; }
  static float LargestLogit(const FrameLayout& layout, const FrameSlot& slot, size_t layer,
                            float otherwise) noexcept;
  bool Step(Watched* watched, int64_t step) noexcept;

  const std::vector<LayerSpec>& layers_;
  std::vector<float> latest_;
  std::array<Watched, kMaxWatched> watched_;
  size_t next_ = 0;
};

}  // namespace foreshock::sdk
