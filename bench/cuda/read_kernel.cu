// The reference of the weight benchmarks: one read of the same bytes and nothing else.
#include "read_kernel.h"

#include <cuda_runtime.h>

namespace foreshock::bench {
namespace {

__global__ void __launch_bounds__(512) ReadKernel(const uint4* data, size_t count, unsigned* out) {
  unsigned sum = 0;
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const uint4 a = __ldcs(data + i), b = __ldcs(data + i + stride), c = __ldcs(data + i + 2 * stride),
                d = __ldcs(data + i + 3 * stride);
    sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) sum ^= data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
  if (sum == 0x12345678u) *out = sum;  // keeps the loads
}

// Numbers without structure, about normal, times `size`; 16-bit outputs are bf16.
template <typename T>
__global__ void FillKernel(T* data, size_t count, float size, unsigned seed) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    unsigned long long x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      x ^= x >> 31;
      x *= 0xbf58476d1ce4e5b9ull;
      x ^= x >> 27;
      sum += static_cast<float>(static_cast<int>(x >> 32)) * 0x1p-31f;
    }
    const float value = sum * size * 0.866f;
    if constexpr (sizeof(T) == 2) {
      const unsigned bits = __float_as_uint(value);
      data[i] = static_cast<T>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    } else {
      data[i] = value;
    }
  }
}

// to = from + change
template <typename T>
__global__ void AddKernel(const T* from, const T* change, T* to, size_t count) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if constexpr (sizeof(T) == 2) {
      const float value =
          __uint_as_float(unsigned{from[i]} << 16) + __uint_as_float(unsigned{change[i]} << 16);
      const unsigned bits = __float_as_uint(value);
      to[i] = static_cast<T>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    } else {
      to[i] = from[i] + change[i];
    }
  }
}

}  // namespace

void LaunchRead(const void* data, size_t bytes, void* scratch) {
  ReadKernel<<<132 * 4, 512>>>(static_cast<const uint4*>(data), bytes / 16, static_cast<unsigned*>(scratch));
}

void LaunchFill(void* data, size_t count, bool bf16, float size, unsigned seed) {
  if (bf16) {
    FillKernel<<<1024, 256>>>(static_cast<unsigned short*>(data), count, size, seed);
  } else {
    FillKernel<<<1024, 256>>>(static_cast<float*>(data), count, size, seed);
  }
}

void LaunchAdd(const void* from, const void* change, void* to, size_t count, bool bf16) {
  if (bf16) {
    AddKernel<<<1024, 256>>>(static_cast<const unsigned short*>(from),
                             static_cast<const unsigned short*>(change), static_cast<unsigned short*>(to),
                             count);
  } else {
    AddKernel<<<1024, 256>>>(static_cast<const float*>(from), static_cast<const float*>(change),
                             static_cast<float*>(to), count);
  }
}

}  // namespace foreshock::bench
