#pragma once

#include <cstdint>

namespace foreshock::trainer {

// `value` rounded to bfloat16 (nearest, ties to even), as a float. Infinities and NaN stay what they are.
inline float round_to_bf16(float value) {
  auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return __builtin_bit_cast(float, bits & 0xffff0000u);
}

// A bf16 value moved `ulps` representable values away from zero (towards it when negative). Zero, infinity
// and NaN are returned as they are; a step past the largest finite value stops there, one past zero stops at
// zero.
inline float step_away_from_zero(float bf16_value, int ulps) {
  const auto bits = __builtin_bit_cast(std::uint32_t, bf16_value);
  const std::uint32_t sign = bits & 0x80000000u;
  const auto magnitude = static_cast<std::int64_t>((bits & 0x7fffffffu) >> 16);
  constexpr std::int64_t kInfinity = 0x7f80;
  if (magnitude == 0 || magnitude >= kInfinity) return bf16_value;
  std::int64_t moved = magnitude + ulps;
  if (moved < 0) moved = 0;
  if (moved >= kInfinity) moved = kInfinity - 1;
  return __builtin_bit_cast(float, sign | static_cast<std::uint32_t>(moved << 16));
}

}  // namespace foreshock::trainer
