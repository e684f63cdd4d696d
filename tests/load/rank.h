// One rank of a load: a step queue and the SDK's exporter behind it, as in a trainer, filled with numbers that follow
// from rank, step and place (recording.load_value in tests/integration says the same in Python).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/sdk/exporter.h"

namespace foreshock::load {

struct LoadOptions {
  std::string address;
  std::string run = "load";
  uint32_t ranks = 8;
  uint32_t layers = 96;  // of 32 heads; four values a head
  double steps_a_second = 20;
  int64_t steps = 0;  // 0: until SIGTERM
  uint64_t window_bytes = 64u << 20;
  int64_t flush_ms = 120'000;
};

inline constexpr uint32_t kHeads = 32;

// Exact in binary32, different for neighbours.
inline float ValueOf(uint32_t rank, int64_t step, uint32_t place) {
  const uint64_t mixed = rank * 131u + static_cast<uint64_t>(step) * 31u + place * 7u;
  return 1.0f + static_cast<float>(mixed % 4096) / 4096.0f;
}

// Publish from one thread. End once, last.
class Rank {
 public:
  Rank(const LoadOptions& options, uint32_t rank);

  Status Start() { return exporter_->Start(); }
  void Publish(int64_t step);
  void End(int64_t last_step, int64_t flush_ms);
  // One JSON object: what was published, dropped and acknowledged.
  std::string Json() const;

 private:
  const uint32_t rank_, layers_;
  const sdk::FrameLayout layout_;
  sdk::StepQueue queue_;
  sdk::SamplingRequest request_;
  std::unique_ptr<sdk::Exporter> exporter_;
  uint64_t published_ = 0;
};

}  // namespace foreshock::load
