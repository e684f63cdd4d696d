#include "foreshock/sdk/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace foreshock::kernels {
namespace {

// The value of a small float by its definition.
double Decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

bool SameValue(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

TEST(DType, EveryNarrowValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    const float b = ToFloat(Bf16{narrow});
    ASSERT_TRUE(SameValue(static_cast<double>(b), Decode(bits, 8, 7))) << bits;
    const float h = ToFloat(Fp16{narrow});
    ASSERT_TRUE(SameValue(static_cast<double>(h), Decode(bits, 5, 10))) << bits;
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(ToFloat(ToBf16(b))));
    } else {
      ASSERT_EQ(ToBf16(b).bits, narrow);
    }
    if (std::isnan(h)) {
      ASSERT_TRUE(std::isnan(ToFloat(ToFp16(h))));
    } else {
      ASSERT_EQ(ToFp16(h).bits, narrow);
    }
  }
}

// Nearest, ties to even, by looking at both neighbours. Past the largest value the neighbour is one step
// further.
template <typename Narrow, typename ToNarrow>
void ExpectNearest(float x, ToNarrow to, int exponent_bits, int mantissa_bits) {
  const uint32_t got = to(x).bits;
  const auto value = [&](uint32_t bits) {
    const double decoded = Decode(bits, exponent_bits, mantissa_bits);
    if (std::isfinite(decoded)) return decoded;
    return std::copysign(std::ldexp(1.0, 1 << (exponent_bits - 1)), decoded);
  };
  const double error = std::abs(value(got) - static_cast<double>(x));
  for (const uint32_t other : {got - 1, got + 1}) {
    if ((other & 0x8000u) != (got & 0x8000u) || other > 0xffffu ||
        std::isnan(Decode(other, exponent_bits, mantissa_bits)))
      continue;
    const double distance = std::abs(value(other) - static_cast<double>(x));
    ASSERT_LE(error, distance) << x;
    if (error == distance) {
      ASSERT_EQ(got & 1u, 0u) << x;
    }
  }
  ASSERT_EQ(std::signbit(x), (got & 0x8000u) != 0) << x;
}

TEST(DType, RoundsToNearestEven) {
  std::mt19937_64 random(1);
  const auto check = [](float x) {
    if (!std::isfinite(x)) return;
    ExpectNearest<Bf16>(
        x, [](float y) { return ToBf16(y); }, 8, 7);
    if (std::abs(x) < 131008)
      ExpectNearest<Fp16>(
          x, [](float y) { return ToFp16(y); }, 5, 10);
  };
  for (int i = 0; i < 300000; ++i) check(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::uniform_int_distribution<int> exponent(-26, 17);
  for (int i = 0; i < 300000; ++i) {
    check(std::ldexp(static_cast<float>(static_cast<int32_t>(random() >> 40) - (1 << 23)),
                     exponent(random) - 23));
  }
  // Midpoints between neighbours.
  for (uint32_t bits = 0; bits + 1 < 0x7f80u; bits += 3) {
    check(std::bit_cast<float>((bits << 16) | 0x8000u));
    check(-std::bit_cast<float>((bits << 16) | 0x8000u));
  }
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    check(0.5f * (ToFloat(Fp16{bits}) + ToFloat(Fp16{static_cast<uint16_t>(bits + 1)})));
  }
}

TEST(DType, OverflowsToInfinityAndKeepsSpecialValues) {
  EXPECT_EQ(ToFloat(ToFp16(65519.0f)), 65504.0f);
  EXPECT_EQ(ToFloat(ToFp16(65520.0f)), INFINITY);
  EXPECT_EQ(ToFloat(ToFp16(-1e30f)), -INFINITY);
  EXPECT_EQ(ToFloat(ToBf16(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_EQ(ToFloat(ToBf16(-INFINITY)), -INFINITY);
  EXPECT_EQ(ToBf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToFp16(-0.0f).bits, 0x8000);
  // A NaN whose payload sits in the bits that are cut off must not become infinity.
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(ToFloat(ToFp16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(DType, UlpIsTheDistanceToTheNextValue) {
  for (uint32_t bits = 0; bits < 0x7f7fu; ++bits) {
    const double here = Decode(bits, 8, 7);
    ASSERT_EQ(UlpBf16(here), Decode(bits + 1, 8, 7) - here) << here;
    ASSERT_EQ(UlpBf16(-here), UlpBf16(here));
    ASSERT_EQ(UlpBf16(std::nextafter(Decode(bits + 1, 8, 7), 0)), UlpBf16(here)) << "within the binade";
  }
  EXPECT_EQ(UlpBf16(1), 0x1p-7);
  EXPECT_EQ(UlpBf16(0), 0x1p-133);
  EXPECT_EQ(UlpBf16(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(UlpBf16(NAN)));
}

TEST(DType, LoadsAndStoresEveryType) {
  double room = 0;
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64}) {
    StoreFloat(&room, dtype, 0, 1.5f);
    EXPECT_EQ(LoadFloat(&room, dtype, 0), 1.5f);
    EXPECT_EQ(LoadDouble(&room, dtype, 0), 1.5);
  }
  room = 1.0 + 0x1p-40;
  EXPECT_EQ(LoadDouble(&room, DType::kFp64, 0), room);
  EXPECT_FALSE(IsKnown(static_cast<DType>(0)));
  EXPECT_FALSE(IsKnown(static_cast<DType>(5)));
}

}  // namespace
}  // namespace foreshock::kernels
