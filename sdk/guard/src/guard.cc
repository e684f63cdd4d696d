#include "foreshock/sdk/guard.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace foreshock::sdk {
namespace {

constexpr char kMagic[4] = {'F', 'S', 'G', '1'};
constexpr uint32_t kMaxBaseline = 4096;

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  bool Get(T* value) {
    if (bytes_.size() < sizeof *value) return false;
    std::memcpy(value, bytes_.data(), sizeof *value);
    bytes_.remove_prefix(sizeof *value);
    return true;
  }
  bool AtEnd() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

Status Damaged(const char* what) {
  return Status(Code::kInvalidArgument, std::string("guard state: ") + what);
}

}  // namespace

Status Guard::Enable(bool automatic) {
  for (const LayerSpec& layer : layers_) {
    const double bound = static_cast<double>(layer.scale) * layer.head_dim;
    if (bound >= kSmallestBound * (1 - 1e-6)) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "layer %u: scale * head_dim: %.3g, must be at least %g for normalised logits to train",
                  layer.layer, bound, kSmallestBound);
    return Status(Code::kUnimplemented, text);
  }
  automatic_ = automatic;
  active_.assign(layers_.size(), 0);
  wanted_.assign(layers_.size(), 0);
  first_head_.clear();
  size_t heads = 0;
  for (const LayerSpec& layer : layers_) {
    first_head_.push_back(heads);
    heads += layer.local_query_heads;
  }
  readings_.assign(heads, HeadReading());
  triggered_.assign(heads, 0);
  trigger_.assign(1, SaturationTrigger(heads));
  enabled_ = true;
  return OkStatus();
}

void Guard::BeginStep() noexcept {
  if (!enabled_) return;
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!wanted_[l] || active_[l]) continue;
    active_[l] = 1;
    // Normalised logits are of another kind: the old baselines say nothing about them.
    for (uint32_t h = 0; h < layers_[l].local_query_heads; ++h) trigger_[0].Restart(HeadIndex(l, h));
  }
}

uint32_t Guard::active_count() const noexcept {
  return static_cast<uint32_t>(std::count(active_.begin(), active_.end(), uint8_t{1}));
}

bool Guard::Activate(size_t layer) noexcept {
  if (!enabled_ || wanted_[layer]) return false;
  wanted_[layer] = 1;
  return true;
}

uint32_t Guard::Observe(const FrameLayout& layout, const FrameSlot& slot) noexcept {
  if (!enabled_ || !automatic_) return 0;
  bool any = false;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const int32_t logit_at = layout.Find(static_cast<int32_t>(l), kLogitMax);
    const int32_t saturated_at = layout.Find(static_cast<int32_t>(l), kSaturatedRowFraction);
    const Column& logit = layout.columns()[static_cast<size_t>(logit_at)];
    const Column& saturated = layout.columns()[static_cast<size_t>(saturated_at)];
    const bool used =
        slot.used[static_cast<size_t>(logit_at)] && slot.used[static_cast<size_t>(saturated_at)];
    for (uint32_t h = 0; h < layers_[l].local_query_heads; ++h) {
      HeadReading& reading = readings_[HeadIndex(l, h)];
      // A layer that is normalised already has bounded logits: it would only distort what is typical.
      reading.present = used && !active_[l] && slot.present[logit.head_at + h] != 0;
      if (!reading.present) continue;
      any = true;
      reading.logit_max = slot.values[logit.value_at + h];
      reading.saturated = static_cast<double>(slot.values[saturated.value_at + h]) /
                          slot.values[static_cast<size_t>(saturated.weight_at) + h];
    }
  }
  if (!any) return 0;
  trigger_[0].Observe(readings_, &triggered_);
  uint32_t switched = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const auto from = triggered_.begin() + static_cast<ptrdiff_t>(first_head_[l]);
    if (std::find(from, from + layers_[l].local_query_heads, uint8_t{1}) ==
        from + layers_[l].local_query_heads)
      continue;
    if (Activate(l)) ++switched;
  }
  return switched;
}

std::string Guard::Save() const {
  Writer writer;
  for (const char c : kMagic) writer.Put(c);
  writer.Put(static_cast<uint32_t>(enabled_ ? layers_.size() : 0));
  for (size_t l = 0; enabled_ && l < layers_.size(); ++l) {
    writer.Put(layers_[l].layer);
    writer.Put(wanted_[l]);
    writer.Put(layers_[l].local_query_heads);
    for (uint32_t h = 0; h < layers_[l].local_query_heads; ++h) {
      const auto baseline = trigger_[0].Save(HeadIndex(l, h));
      writer.Put(baseline.streak);
      writer.Put(static_cast<uint32_t>(baseline.saturated.size()));
      for (size_t i = 0; i < baseline.saturated.size(); ++i) {
        writer.Put(baseline.saturated[i]);
        writer.Put(baseline.growth[i]);
        writer.Put(baseline.logit[i]);
      }
    }
  }
  return writer.Take();
}

Status Guard::Restore(std::string_view state) {
  if (!enabled_) return Status(Code::kFailedPrecondition, "guard state: the guard is not enabled");
  Reader reader(state);
  char magic[4];
  for (char& c : magic) {
    if (!reader.Get(&c)) return Damaged("cut short");
  }
  if (std::memcmp(magic, kMagic, sizeof magic) != 0) return Damaged("does not begin with FSG1");
  uint32_t count = 0;
  if (!reader.Get(&count)) return Damaged("cut short");
  if (count != layers_.size()) {
    return Damaged(
        ("holds " + std::to_string(count) + " layers, the model has " + std::to_string(layers_.size()))
            .c_str());
  }
  // Read all before anything is changed.
  std::vector<uint8_t> wanted(layers_.size());
  SaturationTrigger trigger(readings_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    uint32_t layer = 0, heads = 0;
    if (!reader.Get(&layer) || !reader.Get(&wanted[l]) || !reader.Get(&heads)) return Damaged("cut short");
    if (layer != layers_[l].layer || heads != layers_[l].local_query_heads)
      return Damaged("of another model");
    for (uint32_t h = 0; h < heads; ++h) {
      SaturationTrigger::Baseline baseline;
      uint32_t samples = 0;
      if (!reader.Get(&baseline.streak) || !reader.Get(&samples)) return Damaged("cut short");
      if (samples > kMaxBaseline) return Damaged("baseline too long");
      for (uint32_t i = 0; i < samples; ++i) {
        float saturated = 0, growth = 0, logit = 0;
        if (!reader.Get(&saturated) || !reader.Get(&growth) || !reader.Get(&logit))
          return Damaged("cut short");
        baseline.saturated.push_back(saturated);
        baseline.growth.push_back(growth);
        baseline.logit.push_back(logit);
      }
      trigger.Restore(HeadIndex(l, h), baseline);
    }
  }
  if (!reader.AtEnd()) return Damaged("bytes left over");
  // On at once: the first step of a resumed run is normalised as the last one before was.
  for (size_t l = 0; l < layers_.size(); ++l) wanted_[l] = active_[l] = wanted[l] != 0;
  trigger_[0] = trigger;
  restored_ = true;
  return OkStatus();
}

}  // namespace foreshock::sdk
