// Growth along frozen pairs: r_i, single-step changes, windows, graphs and repeatability.
#include <cmath>
#include <random>
#include <tuple>

#include "foreshock/sdk/update_accumulator.h"
#include "weight_device_fixture.h"

namespace foreshock::cuda {
namespace {

using kernels::UpdateAccumulator;
using kernels::UpdateSums;

// u_i^T W v_i in long double.
double ExactProjection(const Matrix& w, const float* u, const float* v) {
  long double sum = 0;
  for (int64_t i = 0; i < w.rows; ++i) {
    long double line = 0;
    for (int64_t j = 0; j < w.cols; ++j) line += static_cast<long double>(w(i, j)) * v[j];
    sum += line * u[i];
  }
  return static_cast<double>(sum);
}

class WeightProjections : public ::testing::TestWithParam<std::tuple<DType, Order>> {
 protected:
  using Sizes = std::initializer_list<std::pair<int64_t, int64_t>>;
  // check(weight, probed, sigma1) for a matrix of each size, aligned and not, whose pairs are in use.
  template <typename Check>
  static void ForEach(const Sizes& sizes, Check check) {
    const auto [dtype, order] = GetParam();
    for (const auto& [rows, cols] : sizes) {
      for (const size_t shift : {size_t{0}, kernels::SizeOf(dtype)}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << " shift " << shift);
        DeviceWeight w(RandomMatrix(rows, cols, 3), dtype, order, shift);
        Probed probed({w.view()});
        const double sigma1 = probed.Spectra().spectra[0].sigma[0];
        probed.probe->Adopt();
        ASSERT_TRUE(probed.probe->Start(nullptr).ok());
        check(w, probed, sigma1);
      }
    }
  }
  // r along the pairs in use, within what is promised.
  static void ExpectProjections(const DeviceUpdates& got, const DeviceWeight& w, const std::vector<float>& u,
                                const std::vector<float>& v, double sigma1) {
    for (int i = 0; i < kPairs; ++i) {
      const double want =
          ExactProjection(w.exact(), u.data() + i * w.exact().rows, v.data() + i * w.exact().cols);
      EXPECT_TRUE(std::abs(got.r[i] - want) <= 1e-7 * sigma1) << got.r[i] << " " << want;
    }
  }
};

TEST_P(WeightProjections, MatchTheReference) {
  FS_NEEDS_DEVICE();
  ForEach({{1, 1}, {33, 31}, {768, 64}, {1030, 128}, {513, 80}, {300, 256}, {700, 200}},
          [](const DeviceWeight& w, Probed& probed, double sigma1) {
            const DeviceUpdates got = probed.Read().updates[0];
            ExpectProjections(got, w, probed.U(0, w.exact().rows, false), probed.V(0, w.exact().cols, false),
                              sigma1);
          });
}
INSTANTIATE_TEST_SUITE_P(
    All, WeightProjections,
    ::testing::Combine(::testing::Values(DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64),
                       ::testing::Values(Order::kRows, Order::kColumns, Order::kPaddedRows)));

// The spectra's own pass gives r along the pairs in use.
TEST_P(WeightProjections, ComeWithTheSpectra) {
  FS_NEEDS_DEVICE();
  ForEach({{1, 1}, {2, 3}, {33, 31}, {768, 64}, {1030, 128}, {513, 80}, {300, 256}, {4096, 128}},
          [](DeviceWeight& w, Probed& probed, double sigma1) {
            const int64_t rows = w.exact().rows, cols = w.exact().cols;
            const DeviceUpdates before = probed.Read().updates[0];
            const auto u = probed.U(0, rows, false), v = probed.V(0, cols, false);
            w.host().Set(rows / 2, cols / 2, w.exact()(rows / 2, cols / 2) + 0.3 * sigma1);
            w.Send();
            ASSERT_TRUE(probed.probe->SpectraAndStep(nullptr, 0).ok());
            const DeviceResults got = probed.Read();
            const DeviceUpdates& updates = got.updates[0];
            ExpectProjections(updates, w, u, v, sigma1);
            for (int i = 0; i < kPairs; ++i) EXPECT_EQ(updates.last_c[i], updates.r[i] - before.r[i]);
            ExpectSpectrum(got.spectra[0], w.exact());
            ExpectPairs(got.spectra[0], w.exact(), probed.U(0, rows), probed.V(0, cols));
            // Spectra alone and a step alone find the same.
            ASSERT_TRUE(probed.probe->Step(nullptr, 0).ok());
            for (const double c : probed.Read().updates[0].last_c)
              EXPECT_TRUE(std::abs(c) <= 1e-12 * sigma1) << c;
          });
}

// Pairs below the rounding of W v, weights whose squares leave fp32's range, and no finite value at all.
TEST(WeightUpdates, ComeWithHardSpectra) {
  FS_NEEDS_DEVICE();
  constexpr int64_t kRows = 300, kColumns = 64;
  Matrix rank1(kRows, kColumns);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j)
      rank1(i, j) = std::sin(0.1 * double(i) + 1) * std::cos(0.3 * double(j));
  }
  for (const Matrix& m : {rank1, Matrix(kRows, kColumns), RandomMatrix(kRows, kColumns, 1, 1e25),
                          RandomMatrix(kRows, kColumns, 1, 1e-36)}) {
    DeviceWeight w(m, DType::kFp32);
    Probed probed({w.view()});
    const double sigma1 = probed.Spectra().spectra[0].sigma[0];
    probed.probe->Adopt();
    ASSERT_TRUE(probed.probe->Start(nullptr).ok());
    ASSERT_TRUE(probed.probe->SpectraAndStep(nullptr, 0).ok());
    const DeviceUpdates got = probed.Read().updates[0];
    const auto u = probed.U(0, kRows, false), v = probed.V(0, kColumns, false);
    for (int i = 0; i < kPairs; ++i) {
      EXPECT_TRUE(std::abs(got.last_c[i]) <= 1e-12 * sigma1) << got.last_c[i];
      const double want = ExactProjection(w.exact(), u.data() + i * kRows, v.data() + i * kColumns);
      EXPECT_TRUE(std::abs(got.r[i] - want) <= 1e-7 * sigma1)
          << "pair " << i << ": " << got.r[i] << " " << want;
    }
  }
  DeviceWeight w(RandomMatrix(kRows, kColumns, 1), DType::kFp32);
  Probed probed({w.view()});
  probed.Spectra();
  probed.probe->Adopt();
  ASSERT_TRUE(probed.probe->Start(nullptr).ok());
  w.host().Set(3, 3, std::nan(""));
  w.Send();
  ASSERT_TRUE(probed.probe->SpectraAndStep(nullptr, 0).ok());
  const DeviceUpdates got = probed.Read().updates[0];
  for (int i = 0; i < kPairs; ++i) EXPECT_TRUE(std::isnan(got.sum_c[i]) && std::isnan(got.r[i]));
}

// A run of steps on the device beside UpdateAccumulator fed with exact projections along the same pairs.
class Follower {
 public:
  Follower(int64_t rows, int64_t cols, int heads, DType dtype, double decay)
      : rows_(rows), cols_(cols), decay_(decay) {
    std::vector<kernels::WeightView> views;
    for (int h = 0; h < heads; ++h) {
      weights_.push_back(
          std::make_unique<DeviceWeight>(RandomMatrix(rows, cols, static_cast<uint64_t>(h) + 1), dtype));
      views.push_back(weights_.back()->view());
    }
    probed_ = std::make_unique<Probed>(views, std::vector<QkPair>{}, decay);
    accumulators_.resize(static_cast<size_t>(heads));
    sigma1_ = probed_->Spectra().spectra[0].sigma[0];
    Adopt();
    EXPECT_TRUE(probed_->probe->Start(nullptr).ok());
    for (size_t h = 0; h < weights_.size(); ++h) {
      double r[kPairs];
      Exact(h, u_[h], v_[h], r);
      accumulators_[h].Start(r);
    }
  }

  // What is found beside a step's change.
  enum class With {
    kNothing,
    kSpectra,  // of the weights after the step, in the same pass; they wait
    kRefresh,  // the pairs that wait come into use
  };
  // Changes every weight and counts one step. size: of the change against sigma1; drift along the first pair.
  void Step(std::mt19937_64& random, double size, double drift, double learning_rate, With with) {
    std::normal_distribution<double> normal(0, size * sigma1_ / std::sqrt(static_cast<double>(rows_)));
    const bool refresh = with == With::kRefresh;
    for (size_t h = 0; h < weights_.size(); ++h) {
      const Matrix& w = weights_[h]->exact();
      for (int64_t i = 0; i < rows_; ++i) {
        for (int64_t j = 0; j < cols_; ++j) {
          weights_[h]->host().Set(i, j,
                                  w(i, j) + normal(random) +
                                      drift * u_[h][static_cast<size_t>(i)] * v_[h][static_cast<size_t>(j)]);
        }
      }
      weights_[h]->Send();
    }
    const Status status = refresh                  ? probed_->probe->Refresh(nullptr, learning_rate)
                          : with == With::kSpectra ? probed_->probe->SpectraAndStep(nullptr, learning_rate)
                                                   : probed_->probe->Step(nullptr, learning_rate);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto old_u = u_, old_v = v_;
    if (refresh) Fetch();
    for (size_t h = 0; h < weights_.size(); ++h) {
      double r[kPairs], next[kPairs], match[kPairs];
      Exact(h, old_u[h], old_v[h], r);
      if (!refresh) {
        accumulators_[h].Step(r, learning_rate * decay_);
        continue;
      }
      Exact(h, u_[h], v_[h], next);
      kernels::MatchPairs(old_u[h].data(), u_[h].data(), rows_, old_v[h].data(), v_[h].data(), cols_, match);
      accumulators_[h].Refresh(r, learning_rate * decay_, next, match);
    }
  }

  void Spectra() { probed_->Spectra(); }

  // c and the sums agree; signs may differ only where c is as small as rounding.
  void ExpectEqual() {
    const DeviceResults got = probed_->Read();
    for (size_t h = 0; h < weights_.size(); ++h) {
      const UpdateSums& want = accumulators_[h].sums();
      for (int i = 0; i < kPairs; ++i) {
        SCOPED_TRACE(testing::Message() << "head " << h << " pair " << i);
        EXPECT_TRUE(std::abs(got.updates[h].last_c[i] - accumulators_[h].last_c()[i]) <= 2e-7 * sigma1_);
        EXPECT_TRUE(std::abs(got.updates[h].sum_c[i] - want.sum_c[i]) <=
                    4e-7 * sigma1_ * std::sqrt(double(want.n)));
        EXPECT_TRUE(std::abs(got.updates[h].sum_abs_c[i] - want.sum_abs_c[i]) <= 2e-7 * sigma1_ * want.n);
        EXPECT_TRUE(std::abs(got.updates[h].sum_sign[i] - want.sum_sign[i]) <= 0.01 * want.n + 2);
        EXPECT_EQ(got.updates[h].nonzero[i], want.nonzero[i]);
        EXPECT_EQ(got.updates[h].rotated[i] != 0, want.rotated[i]);
      }
    }
  }
  void Take() {
    EXPECT_TRUE(probed_->probe->Clear(nullptr, false).ok());
    for (auto& accumulator : accumulators_) (void)accumulator.Take();
  }

 private:
  void Adopt() {
    probed_->probe->Adopt();
    Fetch();
  }
  void Fetch() {
    u_.clear();
    v_.clear();
    for (size_t h = 0; h < weights_.size(); ++h) {
      u_.push_back(probed_->U(static_cast<int>(h), rows_, false));
      v_.push_back(probed_->V(static_cast<int>(h), cols_, false));
    }
  }
  void Exact(size_t h, const std::vector<float>& u, const std::vector<float>& v, double* r) {
    for (int i = 0; i < kPairs; ++i) {
      double sum = 0;
      const Matrix& w = weights_[h]->exact();
      for (int64_t a = 0; a < rows_; ++a) {
        double line = 0;
        for (int64_t b = 0; b < cols_; ++b) line += w(a, b) * double{v[static_cast<size_t>(i * cols_ + b)]};
        sum += line * double{u[static_cast<size_t>(i * rows_ + a)]};
      }
      r[i] = sum;
    }
  }

  int64_t rows_, cols_;
  double decay_, sigma1_ = 0;
  std::vector<std::unique_ptr<DeviceWeight>> weights_;
  std::unique_ptr<Probed> probed_;
  std::vector<UpdateAccumulator> accumulators_;
  std::vector<std::vector<float>> u_, v_;
};

using With = Follower::With;

TEST(WeightUpdates, WindowsMatchTheAccumulator) {
  FS_NEEDS_DEVICE();
  for (const bool together : {false, true}) {
    std::mt19937_64 random(5);
    Follower follower(200, 64, 3, DType::kFp32, 0.1);
    for (int step = 0; step < 60; ++step) {
      const bool refresh = step % 10 == 9, before = step % 10 == 8;
      if (refresh && !together) follower.Spectra();
      follower.Step(random, 1e-3, step % 3 == 0 ? 0.02 : 0, 1e-2,
                    refresh              ? With::kRefresh
                    : before && together ? With::kSpectra
                                         : With::kNothing);
      if (refresh) {
        follower.ExpectEqual();
        follower.Take();
      }
    }
  }
}

TEST(WeightUpdates, RotatedPairsAreMarked) {
  FS_NEEDS_DEVICE();
  for (const With with : {With::kNothing, With::kSpectra}) {
    std::mt19937_64 random(5);
    Follower follower(64, 32, 2, DType::kFp32, 0);
    follower.Step(random, 1.0, 0, 0, with);  // another matrix altogether
    if (with == With::kNothing) follower.Spectra();
    follower.Step(random, 1e-6, 0, 0, With::kRefresh);
    follower.ExpectEqual();
  }
}

TEST(WeightUpdates, TenThousandSmallSteps) {
  FS_NEEDS_DEVICE();
  std::mt19937_64 random(6);
  Follower follower(48, 16, 2, DType::kFp32, 0);
  for (int step = 0; step < 10000; ++step) {
    const bool refresh = step % 500 == 499;
    if (refresh) follower.Spectra();
    follower.Step(random, 1e-4, 0, 0, refresh ? With::kRefresh : With::kNothing);
  }
  follower.ExpectEqual();
}

TEST(WeightUpdates, NaNIsThatStepsValueAndPasses) {
  FS_NEEDS_DEVICE();
  DeviceWeight w(RandomMatrix(100, 32, 1), DType::kFp32);
  Probed probed({w.view()});
  probed.Spectra();
  probed.probe->Adopt();
  ASSERT_TRUE(probed.probe->Start(nullptr).ok());
  w.host().Set(3, 3, std::nan(""));
  w.Send();
  ASSERT_TRUE(probed.probe->Step(nullptr, 0).ok());
  EXPECT_TRUE(std::isnan(probed.Read().updates[0].sum_c[0]));
  ASSERT_TRUE(probed.probe->Clear(nullptr, false).ok());
  w.host().Set(3, 3, 0.25);
  w.Send();
  ASSERT_TRUE(probed.probe->Step(nullptr, 0).ok());
  ASSERT_TRUE(probed.probe->Clear(nullptr, false).ok());
  ASSERT_TRUE(probed.probe->Step(nullptr, 0).ok());
  const DeviceUpdates got = probed.Read().updates[0];
  EXPECT_EQ(got.sum_c[0], 0);
  EXPECT_EQ(got.nonzero[0], 0u);
}

TEST(WeightUpdates, TheSameBitsEveryTime) {
  FS_NEEDS_DEVICE();
  std::vector<std::unique_ptr<DeviceWeight>> heads;
  std::vector<kernels::WeightView> views;
  std::vector<QkPair> pairs;
  for (int h = 0; h < 24; ++h) {
    heads.push_back(
        std::make_unique<DeviceWeight>(RandomMatrix(1500, h % 2 == 0 ? 64 : 128, static_cast<uint64_t>(h)),
                                       h % 3 == 0 ? DType::kFp32 : DType::kBf16));
    views.push_back(heads.back()->view());
    if (h >= 2) pairs.push_back({h, h - 2});
  }
  std::vector<unsigned char> first;
  for (int run = 0; run < 3; ++run) {
    Probed probed(views, pairs);
    probed.Spectra();
    probed.probe->Adopt();
    ASSERT_TRUE(probed.probe->Start(nullptr).ok());
    ASSERT_TRUE(probed.probe->Spectra(nullptr).ok());
    ASSERT_TRUE(probed.probe->Refresh(nullptr, 0.1).ok());
    ASSERT_TRUE(probed.probe->SpectraAndStep(nullptr, 0.1).ok());
    probed.Read();
    auto bytes = probed.bytes;
    const auto u = probed.U(5, 1500, false);
    bytes.insert(bytes.end(), reinterpret_cast<const unsigned char*>(u.data()),
                 reinterpret_cast<const unsigned char*>(u.data() + u.size()));
    if (run == 0) first = bytes;
    EXPECT_TRUE(bytes == first) << "run " << run;
  }
}

// One captured graph serves sampled and unsampled steps: the flag decides at each replay.
TEST(WeightUpdates, CapturedOnceReplayedWithAFlag) {
  FS_NEEDS_DEVICE();
  DeviceWeight w(RandomMatrix(300, 64, 1), DType::kFp32);
  Probed probed({w.view(), w.view()}, {{0, 1}}), plain({w.view(), w.view()}, {{0, 1}});
  auto flag = DeviceBuffer::Make(0, sizeof(int));
  ASSERT_TRUE(flag.ok());
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  EXPECT_TRUE(IsCapturing(stream));
  EXPECT_TRUE(probed.probe->Spectra(stream, flag.value().as<int>()).ok());
  EXPECT_TRUE(probed.probe->ReadOut(stream, probed.bytes.data()).ok());
  cudaGraph_t graph;
  Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  EXPECT_FALSE(IsCapturing(stream));
  cudaGraphExec_t exec;
  Check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  const auto replay = [&](int on) {
    Check(cudaMemcpy(flag.value().data(), &on, sizeof on, cudaMemcpyHostToDevice), "cudaMemcpy");
    Check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return probed.probe->ResultsIn(probed.bytes.data());
  };
  EXPECT_EQ(replay(0).spectra[0].sigma[0], 0);  // as made
  const double sigma = replay(1).spectra[0].sigma[0];
  EXPECT_EQ(sigma, plain.Spectra().spectra[0].sigma[0]);
  w.host().Set(0, 0, 50);
  w.Send();
  EXPECT_EQ(replay(0).spectra[0].sigma[0], sigma);
  EXPECT_GT(replay(1).spectra[0].sigma[0], 40);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace foreshock::cuda
