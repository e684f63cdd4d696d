// Element types of tensors, their conversions and the spacing of bf16. Narrowing rounds to nearest, ties to
// even; NaN stays NaN; what is too large becomes infinity.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace foreshock::kernels {

enum class DType : uint8_t { kBf16 = 1, kFp16 = 2, kFp32 = 3, kFp64 = 4 };

// Storage types: bits only, no arithmetic.
struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

constexpr bool IsKnown(DType dtype) { return dtype >= DType::kBf16 && dtype <= DType::kFp64; }

// Bytes of one element; 0 for an unknown dtype.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp32:
      return 4;
    case DType::kFp64:
      return 8;
  }
  return 0;
}

constexpr float ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

constexpr float ToFloat(Fp16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in fp32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

constexpr Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr Fp16 ToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal: adding 0.5 puts the unit 2^-24 at fp32's last bit, and the
    // addition rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

// fp32 rounded to bf16 and back.
constexpr float RoundToBf16(float value) { return ToFloat(ToBf16(value)); }

// The distance between bf16 neighbours at |value|: 2^(floor(log2 |value|) - 7), and 2^-133 where bf16 is
// subnormal (0 included). NaN and infinity give NaN and infinity.
constexpr double UlpBf16(double value) {
  const uint64_t magnitude = std::bit_cast<uint64_t>(value) & 0x7fffffffffffffffu;
  if (magnitude >= 0x7ff0000000000000u) return std::bit_cast<double>(magnitude);
  constexpr uint64_t kSmallestNormal = uint64_t{1023 - 126};
  const uint64_t exponent = magnitude >> 52;
  return std::bit_cast<double>(((exponent < kSmallestNormal ? kSmallestNormal : exponent) - 7) << 52);
}

// Element `index` (in elements, not bytes) of an array; 0 for an unknown dtype. fp64 narrows to float in
// LoadFloat. `data` is aligned to its element.
inline float LoadFloat(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kBf16:
      return ToFloat(static_cast<const Bf16*>(data)[index]);
    case DType::kFp16:
      return ToFloat(static_cast<const Fp16*>(data)[index]);
    case DType::kFp32:
      return static_cast<const float*>(data)[index];
    case DType::kFp64:
      return static_cast<float>(static_cast<const double*>(data)[index]);
  }
  return 0;
}

inline double LoadDouble(const void* data, DType dtype, int64_t index) {
  if (dtype == DType::kFp64) return static_cast<const double*>(data)[index];
  return LoadFloat(data, dtype, index);
}

// Writes one element, rounded to the dtype. Nothing is written for an unknown one.
inline void StoreFloat(void* data, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::kBf16:
      static_cast<Bf16*>(data)[index] = ToBf16(value);
      break;
    case DType::kFp16:
      static_cast<Fp16*>(data)[index] = ToFp16(value);
      break;
    case DType::kFp32:
      static_cast<float*>(data)[index] = value;
      break;
    case DType::kFp64:
      static_cast<double*>(data)[index] = value;
      break;
  }
}

}  // namespace foreshock::kernels
