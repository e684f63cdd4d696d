// exp for arguments <= 0, written so that loops over it vectorise. Relative error below 2e-7; 0 below -87.3,
// where the result would be subnormal. NaN gives an unspecified finite value: callers look for NaN
// themselves.
#pragma once

#include <bit>
#include <cstdint>

namespace foreshock::kernels {

inline float ExpNonPositive(float x) {
  constexpr float kLowest = -87.3f;
  const float clamped = x > kLowest ? x : kLowest;
  // x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to an integer held in the low bits.
  constexpr float kShift = 12582912.0f;
  const float shifted = clamped * 1.44269504088896341f + kShift;
  const float n = shifted - kShift;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float poly = 1.0f / 5040.0f;
  poly = poly * r + 1.0f / 720.0f;
  poly = poly * r + 1.0f / 120.0f;
  poly = poly * r + 1.0f / 24.0f;
  poly = poly * r + 1.0f / 6.0f;
  poly = poly * r + 0.5f;
  poly = poly * r * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float power = std::bit_cast<float>(exponent);
  return x > kLowest ? poly * power : 0.0f;
}

}  // namespace foreshock::kernels
