// Checks that the weight kernels share.
#pragma once

#include <cstdint>

#include "foreshock/sdk/kernel_status.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {

inline constexpr int64_t kMaxModel = int64_t{1} << 24;
inline constexpr int64_t kMaxHead = 4096;

inline bool ShapeInRange(const WeightView& w) {
  return w.d_model >= 0 && w.d_head >= 0 && w.d_model <= kMaxModel && w.d_head <= kMaxHead;
}

inline KernelStatus CheckWeight(const WeightView& w) {
  if (!IsKnown(w.dtype)) return KernelStatus::kBadDType;
  if (!ShapeInRange(w)) return KernelStatus::kBadShape;
  if (w.data == nullptr && w.d_model > 0 && w.d_head > 0) return KernelStatus::kNullPointer;
  return KernelStatus::kOk;
}

inline KernelStatus CheckWeights(const WeightView* weights, int32_t n) {
  if (n < 0) return KernelStatus::kBadShape;
  if (n > 0 && weights == nullptr) return KernelStatus::kNullPointer;
  for (int32_t h = 0; h < n; ++h) {
    const KernelStatus status = CheckWeight(weights[h]);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

}  // namespace foreshock::kernels
