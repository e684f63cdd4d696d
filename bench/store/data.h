// The data of the store's figures: 12,288 series (4 signals of 96 layers of 32 heads), each a walk with 1 %
// of noise a step, one frame a step.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/codec.h"

namespace foreshock::bench {

inline constexpr uint32_t kLayers = 96, kHeads = 32;
inline constexpr uint16_t kSignals[] = {kLogitMax, kWqSigma1, kWkSigma1, kQkSigma1};
inline constexpr size_t kSeriesCount = std::size(kSignals) * kLayers * kHeads;

class Walks {
 public:
  explicit Walks(uint64_t seed) : random_(seed), levels_(kSeriesCount, 3.0f) {}
  wire::Frame Next() {
    wire::Frame frame;
    frame.step = step_++;
    frame.seq = static_cast<uint64_t>(step_);
    frame.time_unix_ns = 1'700'000'000'000'000'000 + static_cast<uint64_t>(step_) * 1'000'000'000;
    size_t next = 0;
    for (const uint16_t signal : kSignals) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        wire::Series series;
        series.signal = signal;
        series.layer = layer;
        for (uint32_t head = 0; head < kHeads; ++head) {
          series.heads.push_back(head);
          series.values.push_back(levels_[next++] *= 1 + noise_(random_));
        }
        frame.series.push_back(std::move(series));
      }
    }
    return frame;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> noise_{0, 0.01f};
  std::vector<float> levels_;
  int64_t step_ = 0;
};

inline wire::Hello HelloOfWalks(const std::string& run) {
  wire::Hello hello;
  hello.run = run;
  hello.attempt = "1";
  hello.incarnation = 1;
  hello.started_unix_ns = 1'700'000'000'000'000'000;
  for (uint32_t i = 0; i < kLayers; ++i) {
    wire::Layer layer;
    layer.layer = i;
    layer.query_heads = layer.kv_heads = kHeads;
    layer.head_dim = 128;
    hello.model.layers.push_back(layer);
  }
  return hello;
}

}  // namespace foreshock::bench
