// Strided loads with conversion: the one dtype switch of the CPU backend.
#pragma once

#include <cstdint>

#include "foreshock/sdk/dtype.h"

namespace foreshock::kernels {

inline float Widen(Bf16 value) { return ToFloat(value); }
inline float Widen(Fp16 value) { return ToFloat(value); }
inline float Widen(float value) { return value; }
inline double Widen(double value) { return value; }

// Calls f(const T* data) with the element type of dtype. The dtype is known: arguments were checked.
template <typename F>
void WithElements(const void* data, DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBf16:
      f(static_cast<const Bf16*>(data));
      break;
    case DType::kFp16:
      f(static_cast<const Fp16*>(data));
      break;
    case DType::kFp32:
      f(static_cast<const float*>(data));
      break;
    case DType::kFp64:
      f(static_cast<const double*>(data));
      break;
  }
}

// out[i] = in[i * stride]. The dense case is apart so that it vectorises.
template <typename Out, typename T>
void LoadStrided(const T* in, int64_t count, int64_t stride, Out* out) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(Widen(in[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(Widen(in[i * stride]));
  }
}

}  // namespace foreshock::kernels
