// What the trainer's step path relies on: no allocation, and any thread.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "attention_fixture.h"
#include "weight_fixture.h"

namespace {
thread_local int64_t t_allocations = 0;
}  // namespace

// Not inlined: the compiler would take malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++t_allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace foreshock::kernels {
namespace {

// Every kernel once, over inputs that other threads read too; its own outputs and workspace.
class Work {
 public:
  Work(const AttentionCase& c, const WeightView& w)
      : rounding_(c.Rounding()), weight_(w), heads_(4), errors_(4) {
    const WeightSet set{&weight_, 1, &weight_, 1, nullptr};
    u_.resize(static_cast<size_t>(kPairs * w.d_model));
    v_.resize(static_cast<size_t>(kPairs * w.d_head));
    scratch_.resize(std::max({ProbeWeightsWorkspaceBytes(set), ProbeUpdateWorkspaceBytes(w.d_head),
                              ProbeAttentionWorkspaceBytes(rounding_.attention),
                              ProbeRoundingWorkspaceBytes(rounding_)}));
  }

  bool Run() {
    const Workspace workspace{scratch_.data(), scratch_.size()};
    const WeightSet set{&weight_, 1, &weight_, 1, nullptr};
    WeightProbeResult result;
    result.q = &spectrum_;
    result.qk_sigma1 = &qk_;
    result.u_q = u_.data();
    result.v_q = v_.data();
    return ProbeWeights(set, result, workspace) == KernelStatus::kOk &&
           ProjectPairs(&weight_, 1, u_.data(), weight_.d_model, v_.data(), weight_.d_head, r_) ==
               KernelStatus::kOk &&
           ProbeUpdate(weight_, weight_, weight_, weight_, &update_, workspace) == KernelStatus::kOk &&
           ProbeAttention(rounding_.attention, heads_.data(), workspace) == KernelStatus::kOk &&
           ProbeRounding(rounding_, errors_.data(), workspace) == KernelStatus::kOk;
  }

  double Sum() const {
    return spectrum_.sigma[0] + qk_ + r_[2] + update_.entropy + heads_[3].entropy_sum +
           errors_[1].delta_error.num;
  }

 private:
  RoundingProblem rounding_;
  WeightView weight_;
  HeadSpectrum spectrum_;
  UpdateSpectrum update_;
  double qk_ = 0;
  double r_[kPairs] = {};
  std::vector<float> u_, v_;
  std::vector<AttentionHeadStats> heads_;
  std::vector<RoundingHeadStats> errors_;
  std::vector<unsigned char> scratch_;
};

TEST(HotPath, AllocatesNothing) {
  const AttentionCase c(CaseOptions{});
  const StoredWeight w(RandomMatrix(64, 16, 1), DType::kBf16);
  Work work(c, w.view());
  const int64_t before = t_allocations;
  const bool ok = work.Run();
  EXPECT_EQ(t_allocations, before);
  EXPECT_TRUE(ok);
  const auto canary = std::make_unique<int>(3);
  EXPECT_GT(t_allocations, before) << "the counter counts";
}

TEST(HotPath, ThreadsShareInputs) {
  const AttentionCase c(CaseOptions{});
  const StoredWeight w(RandomMatrix(64, 16, 1), DType::kBf16);
  std::vector<Work> work(3, Work(c, w.view()));
  std::vector<std::thread> threads;
  for (Work& each : work) threads.emplace_back([&each] { EXPECT_TRUE(each.Run()); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(work[0].Sum(), work[1].Sum());
  EXPECT_EQ(work[0].Sum(), work[2].Sum());
}

}  // namespace
}  // namespace foreshock::kernels
