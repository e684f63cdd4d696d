// N1, N2: where the heads of real parameters lie.
#include <gtest/gtest.h>

#include <vector>

#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {
namespace {

constexpr int64_t kModel = 12, kHead = 4;

// A parameter whose weight from input i to output column o is 1000 o + i.
std::vector<float> Parameter(ProjectionLayout layout, int64_t outputs) {
  std::vector<float> w(static_cast<size_t>(outputs * kModel));
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < kModel; ++i) {
      const int64_t at = layout == ProjectionLayout::kLinear ? o * kModel + i : i * outputs + o;
      w[static_cast<size_t>(at)] = static_cast<float>(1000 * o + i);
    }
  }
  return w;
}

// The view is the head whose first output column is `first`.
void ExpectColumns(const WeightView& w, int64_t first) {
  ASSERT_EQ(w.d_model, kModel);
  ASSERT_EQ(w.d_head, kHead);
  for (int64_t i = 0; i < kModel; ++i) {
    for (int64_t j = 0; j < kHead; ++j) {
      EXPECT_EQ(LoadFloat(w.data, w.dtype, i * w.row_stride + j * w.col_stride),
                static_cast<float>(1000 * (first + j) + i));
    }
  }
}

class Layouts : public ::testing::TestWithParam<ProjectionLayout> {};

TEST_P(Layouts, SeparateProjection) {
  const std::vector<float> w = Parameter(GetParam(), 5 * kHead);
  for (int64_t h = 0; h < 5; ++h) {
    ExpectColumns(HeadOfProjection(w.data(), DType::kFp32, GetParam(), kModel, 5, h, kHead), h * kHead);
  }
}

// Groups of 16/8: q0 q1 k0 v0 | q2 q3 k1 v1 | ... against q0..q15 k0..k7 v0..v7.
TEST_P(Layouts, FusedQkvOfSixteenOnEight) {
  const std::vector<float> w = Parameter(GetParam(), 32 * kHead);
  const auto head = [&](QkvPacking packing, QkvPart part, int64_t h) {
    return HeadOfFusedQkv(w.data(), DType::kFp32, GetParam(), packing, part, kModel, 16, 8, h, kHead);
  };
  for (int64_t h = 0; h < 16; ++h) {
    ExpectColumns(head(QkvPacking::kConcatenated, QkvPart::kQuery, h), h * kHead);
    ExpectColumns(head(QkvPacking::kInterleaved, QkvPart::kQuery, h), (h / 2 * 4 + h % 2) * kHead);
  }
  for (int64_t g = 0; g < 8; ++g) {
    ExpectColumns(head(QkvPacking::kConcatenated, QkvPart::kKey, g), (16 + g) * kHead);
    ExpectColumns(head(QkvPacking::kConcatenated, QkvPart::kValue, g), (24 + g) * kHead);
    ExpectColumns(head(QkvPacking::kInterleaved, QkvPart::kKey, g), (4 * g + 2) * kHead);
    ExpectColumns(head(QkvPacking::kInterleaved, QkvPart::kValue, g), (4 * g + 3) * kHead);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         ::testing::Values(ProjectionLayout::kLinear, ProjectionLayout::kConv1d));

TEST(Layout, NoDataStaysNull) {
  EXPECT_EQ(HeadOfProjection(nullptr, DType::kBf16, ProjectionLayout::kLinear, 8, 2, 1, 4).data, nullptr);
}

}  // namespace
}  // namespace foreshock::kernels
