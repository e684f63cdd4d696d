#include <gtest/gtest.h>

#include <cmath>

#include "weight_fixture.h"

namespace foreshock::kernels {
namespace {

UpdateSpectrum RunUpdate(const StoredWeight& wq, const StoredWeight& dwq, const StoredWeight& wk,
                         const StoredWeight& dwk) {
  std::vector<unsigned char> scratch(ProbeUpdateWorkspaceBytes(wq.view().d_head));
  UpdateSpectrum out;
  EXPECT_EQ(ProbeUpdate(wq.view(), dwq.view(), wk.view(), dwk.view(), &out, {scratch.data(), scratch.size()}),
            KernelStatus::kOk);
  return out;
}

void ExpectUpdate(const StoredWeight& wq, const StoredWeight& dwq, const StoredWeight& wk,
                  const StoredWeight& dwk) {
  using reference::Multiply;
  using reference::Transpose;
  const reference::Matrix change = reference::Add(Multiply(dwq.exact(), Transpose(wk.exact())),
                                                  Multiply(wq.exact(), Transpose(dwk.exact())));
  double sum = 0, fourth = 0, entropy = 0, norm = 0;
  const std::vector<double> s = reference::SingularValues(change);
  for (double x : s) {
    sum += x * x;
    fourth += std::pow(x, 4);
  }
  for (double x : s) {
    const double p = x * x / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  for (double x : dwq.exact().at) norm += x * x;
  const UpdateSpectrum got = RunUpdate(wq, dwq, wk, dwk);
  ASSERT_TRUE(got.has_spectrum);
  EXPECT_LE(std::abs(got.update_norm - std::sqrt(norm)), 1e-9 * std::sqrt(norm));
  EXPECT_LE(std::abs(got.entropy - entropy / std::log(2.0 * double(wq.exact().cols))), 1e-6);
  EXPECT_LE(std::abs(got.participation - sum * sum / fourth), 1e-6 * got.participation);
}

TEST(UpdateProbe, MatchesTheReference) {
  for (double size : {1.0, 1e-3, 1e-6}) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{64, 16}, {40, 7}, {24, 16}, {130, 32}}) {
      SCOPED_TRACE(testing::Message() << size << " " << rows << " " << cols);
      ExpectUpdate(StoredWeight(RandomMatrix(rows, cols, 1, 0.1), DType::kFp32),
                   StoredWeight(RandomMatrix(rows, cols, 2, 0.1 * size), DType::kFp32, Order::kColumns),
                   StoredWeight(RandomMatrix(rows, cols, 3, 0.2), DType::kFp64),
                   StoredWeight(RandomMatrix(rows, cols, 4, 0.3 * size), DType::kFp32));
    }
  }
}

TEST(UpdateProbe, SidesOfVeryDifferentSize) {
  ExpectUpdate(StoredWeight(RandomMatrix(64, 16, 1, 1e3), DType::kFp64),
               StoredWeight(RandomMatrix(64, 16, 2, 1e-5), DType::kFp64),
               StoredWeight(RandomMatrix(64, 16, 3, 1e-3), DType::kFp64),
               StoredWeight(RandomMatrix(64, 16, 4, 1e-2), DType::kFp64));
}

TEST(UpdateProbe, OneDirectionHasEntropyZero) {
  reference::Matrix d(64, 16);
  for (int64_t i = 0; i < 64; ++i) d(i, 3) = std::sin(double(i));
  const StoredWeight w(RandomMatrix(64, 16, 1), DType::kFp32), dw(d, DType::kFp32);
  const StoredWeight none(reference::Matrix(64, 16), DType::kFp32);
  const UpdateSpectrum got = RunUpdate(w, dw, w, none);
  ASSERT_TRUE(got.has_spectrum);
  EXPECT_NEAR(got.entropy, 0, 1e-9);
  EXPECT_NEAR(got.participation, 1, 1e-9);
}

TEST(UpdateProbe, NoChangeHasNoSpectrum) {
  const StoredWeight w(RandomMatrix(64, 16, 1), DType::kFp32), none(reference::Matrix(64, 16), DType::kFp32);
  const UpdateSpectrum got = RunUpdate(w, none, w, none);
  EXPECT_FALSE(got.has_spectrum);
  EXPECT_EQ(got.update_norm, 0);
}

TEST(UpdateProbe, NotFiniteGivesNan) {
  const StoredWeight w(RandomMatrix(64, 16, 1), DType::kFp32);
  StoredWeight bad = w;
  bad.Set(63, 0, INFINITY);
  UpdateSpectrum got = RunUpdate(w, w, bad, w);
  EXPECT_TRUE(got.has_spectrum && std::isnan(got.entropy) && std::isnan(got.participation));
  EXPECT_TRUE(std::isfinite(got.update_norm)) << "the change of W_Q itself is fine";
  got = RunUpdate(w, bad, w, w);
  EXPECT_TRUE(std::isnan(got.update_norm) && std::isnan(got.entropy));
}

TEST(UpdateProbe, RefusesBadArguments) {
  const StoredWeight w(RandomMatrix(8, 4, 1), DType::kFp32), other(RandomMatrix(8, 5, 1), DType::kFp32);
  std::vector<unsigned char> scratch(ProbeUpdateWorkspaceBytes(4));
  UpdateSpectrum out;
  const Workspace enough{scratch.data(), scratch.size()};
  EXPECT_EQ(ProbeUpdate(w.view(), w.view(), other.view(), w.view(), &out, enough), KernelStatus::kBadShape);
  EXPECT_EQ(ProbeUpdate(w.view(), w.view(), w.view(), w.view(), nullptr, enough), KernelStatus::kNullPointer);
  EXPECT_EQ(ProbeUpdate(w.view(), w.view(), w.view(), w.view(), &out, {scratch.data(), 100}),
            KernelStatus::kWorkspaceTooSmall);
}

}  // namespace
}  // namespace foreshock::kernels
