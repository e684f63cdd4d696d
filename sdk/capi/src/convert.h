// C structs into the SDK's own types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "foreshock/foreshock.h"
#include "foreshock/sdk/attention_watch.h"
#include "foreshock/sdk/layer_spec.h"

namespace foreshock::sdk {

// The caller's struct over this library's defaults: fields that an older program does not know keep their
// default, fields that an older library does not know are not read. False when `size` cannot be one.
template <typename T>
bool CopySized(const T& in, T* out) {
  constexpr uint32_t kLargest = 1u << 16;
  if (in.size < sizeof(uint32_t) || in.size > kLargest) return false;
  std::memcpy(out, &in, in.size < sizeof(T) ? in.size : sizeof(T));
  out->size = sizeof(T);
  return true;
}

kernels::TensorView ToView(const fs_tensor& tensor);
kernels::ScoreView ToView(const fs_scores& scores);
AttentionCall ToCall(const fs_attention& attention);

// Offsets of `heads` local heads are filled in. No check: LayerSpec does that.
ProjectionSpec ToProjection(const fs_weights& weights, uint32_t heads);
// Fills in everything but the projections; counts of 0 and a scale of 0 become their defaults.
LayerSpec ToLayer(const fs_layer& layer);

// Ok, or names the first tensor whose dtype attention may not have.
Status CheckDTypes(const fs_attention& attention);

// Ok when all that the call points to is memory of `device` (-1: host memory), else names the first tensor
// that is not: kernels of one kind would crash on memory of the other.
Status CheckMemory(const fs_attention& attention, int device);

}  // namespace foreshock::sdk
