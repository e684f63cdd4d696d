// The rounding probe on the GPU: the suite that the CPU backend passes, and what only a device has.
#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda_fixture.h"
#include "foreshock/sdk/attention_checks.h"
#include "foreshock/sdk/cuda/rounding_probe.h"
#include "rounding_conformance.h"

namespace foreshock::cuda {
namespace {

using kernels::AttentionCase;
using kernels::CaseOptions;
using kernels::DType;
using kernels::KernelStatus;
using kernels::RoundingHeadStats;
using kernels::RoundingProblem;
using kernels::ScoreView;
using kernels::Storage;

RoundingProblem Copy(const RoundingProblem& host, DeviceCopies* copies, size_t shift = 0) {
  return {copies->Copy(host.attention, shift), copies->Copy(host.v, shift), copies->Copy(host.o, shift),
          copies->Copy(host.d_o, shift), copies->Copy(host.dq, shift)};
}

// Launches on `stream` and waits for it.
std::vector<RoundingHeadStats> RunOn(const RoundingProblem& host, KernelStatus* status, size_t shift,
                                     cudaStream_t stream = nullptr) {
  std::vector<RoundingHeadStats> heads(static_cast<size_t>(std::max<int64_t>(host.attention.q.heads, 0)));
  if (kernels::CheckRoundingArguments(host) != KernelStatus::kOk) {
    // Refused before anything is read.
    *status = LaunchRoundingProbe(host, nullptr, heads.data(), {}, stream).status;
    return heads;
  }
  DeviceCopies copies;
  const RoundingProblem p = Copy(host, &copies, shift);
  const size_t bytes = RoundingProbeWorkspaceBytes(p);
  auto* out =
      static_cast<RoundingHeadStats*>(copies.Allocate(heads.size() * sizeof(RoundingHeadStats)));  // all NaN
  const LaunchStatus launched =
      LaunchRoundingProbe(p, nullptr, out, {copies.Allocate(bytes, 8), bytes}, stream);
  *status = launched.status;
  EXPECT_EQ(launched.cuda_error, cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(heads.data(), out, heads.size() * sizeof(RoundingHeadStats), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return heads;
}

template <size_t kShift>
struct CudaRounding {
  static bool Present() { return DriverSupport().usable; }
  static std::vector<RoundingHeadStats> Run(const RoundingProblem& p, KernelStatus* status = nullptr) {
    KernelStatus ignored = KernelStatus::kOk;
    return RunOn(p, status == nullptr ? &ignored : status, kShift);
  }
  static KernelStatus WithoutWorkspace(const RoundingProblem& p) {
    RoundingHeadStats out;
    return LaunchRoundingProbe(p, nullptr, &out, {}, nullptr).status;
  }
  // bf16 on tensor cores, where the inputs are aligned: P is split into 16 bits.
  static constexpr double kTolerance = kShift == 0 ? 3e-4 : 2e-5;
  static constexpr double kExactOutput = 1e-5;
};

using Aligned = CudaRounding<0>;

}  // namespace
}  // namespace foreshock::cuda

namespace foreshock::kernels {
using CudaBackends = ::testing::Types<cuda::CudaRounding<0>, cuda::CudaRounding<1>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, RoundingConformance, CudaBackends);
}  // namespace foreshock::kernels

namespace foreshock::cuda {
namespace {

TEST(RoundingCuda, HeadSizesAroundTheKernels) {
  FS_SKIP_WITHOUT_CUDA();
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    for (const auto& [dim, v_dim] : {std::pair<int64_t, int64_t>{1, 1},
                                     {7, 3},
                                     {64, 64},
                                     {65, 64},
                                     {64, 72},
                                     {128, 128},
                                     {96, 40},
                                     {129, 16},
                                     {16, 200},
                                     {256, 256}}) {
      SCOPED_TRACE(testing::Message() << dim << " and " << v_dim);
      CaseOptions o;
      o.dtype = dtype;
      o.dim = dim;
      o.v_dim = v_dim;
      o.q_lens = {70};
      kernels::ExpectRounding<Aligned>(AttentionCase(o));
    }
  }
}

TEST(RoundingCuda, LengthsAroundTheTiles) {
  FS_SKIP_WITHOUT_CUDA();
  for (const int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 129}) {
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(length);
      CaseOptions o;
      o.q_lens = {length, length};
      o.causal = causal;
      o.seed = static_cast<uint64_t>(length);
      AttentionCase c(o);
      kernels::ExpectRounding<Aligned>(c);
      c.problem.sampling = {8, 5, 1, 0};
      kernels::ExpectRounding<Aligned>(c);
    }
  }
}

// Masked keys whose values are not finite must not reach a row.
TEST(RoundingCuda, MaskedNanStaysOut) {
  FS_SKIP_WITHOUT_CUDA();
  AttentionCase c(CaseOptions{});
  for (int64_t d = 0; d < 16; ++d) {
    c.v.Set(0, 32, 0, d, NAN);  // only the last row sees it
    c.k.Set(1, 20, 1, d, INFINITY);
  }
  kernels::ExpectRounding<Aligned>(c);
}

TEST(RoundingCuda, MasksAndBiases) {
  FS_SKIP_WITHOUT_CUDA();
  AttentionCase c(CaseOptions{});
  std::vector<uint8_t> keep(33 * 33);
  std::vector<float> bias(33 * 33);
  for (size_t i = 0; i < keep.size(); ++i) {
    keep[i] = i % 7 != 3;
    bias[i] = i % 11 == 5 ? -INFINITY : 0.01f * static_cast<float>(i % 100);
  }
  c.problem.keep_mask = {keep.data(), DType::kFp32, 0, 0, 33, 1};
  c.problem.bias = {bias.data(), DType::kFp32, 0, 0, 33, 1};
  c.problem.softcap = 4;
  const std::vector<RoundingHeadStats> cpu = kernels::RunRounding(c.Rounding()),
                                       gpu = Aligned::Run(c.Rounding());
  for (size_t h = 0; h < cpu.size(); ++h) {
    const RoundingHeadStats &a = cpu[h], &b = gpu[h];
    EXPECT_EQ(a.output_elements, b.output_elements);
    EXPECT_NEAR(a.output_bias.Value(), b.output_bias.Value(), 2e-5 * std::abs(a.output_bias.Value()) + 1e-3);
    EXPECT_NEAR(a.output_bias.den, b.output_bias.den, 2e-5 * a.output_bias.den);
    EXPECT_EQ(a.delta_error.rows, b.delta_error.rows);
    EXPECT_NEAR(a.delta_error.num, b.delta_error.num,
                1e-4 * std::sqrt(a.delta_error.num_num * a.delta_error.rows));
  }
}

TEST(RoundingCuda, BadOffsetsLeaveNoRows) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.storage = Storage::kPacked;
  AttentionCase c(o);
  c.cu_q[1] = 100;
  KernelStatus status = KernelStatus::kOk;
  for (const RoundingHeadStats& head : RunOn(c.Rounding(), &status, 0)) {
    EXPECT_EQ(head.output_bias.rows, 0);
    EXPECT_EQ(head.delta_error.rows, 0);
  }
}

// Sequences that lie more than 2^31 elements apart, on tensor cores and (misaligned) off them: the same bits.
TEST(RoundingCuda, MoreThanTwoToThe31Elements) {
  FS_SKIP_WITHOUT_CUDA();
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  if (free_bytes < (size_t{10} << 30)) GTEST_SKIP() << "skipped: needs 10 GiB of device memory";
  constexpr int64_t kApart = (int64_t{1} << 31) + 4096, kRoom = 1 << 18;
  CaseOptions o;
  o.dim = o.v_dim = 64;
  o.q_lens = {200, 200};
  const AttentionCase c(o);
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    DeviceCopies copies;
    const auto room = static_cast<size_t>(kApart + 6 * kRoom + 1);
    auto* far = static_cast<unsigned char*>(copies.Allocate(room * sizeof(float)));
    RoundingProblem p = Copy(c.Rounding(), &copies);
    int64_t at = static_cast<int64_t>(shift);  // of a tensor's first element, in its own elements
    for (kernels::TensorView* t : {&p.attention.q, &p.attention.k, &p.v, &p.o, &p.d_o, &p.dq}) {
      const size_t size = kernels::SizeOf(t->dtype), bytes = static_cast<size_t>(t->batch_stride) * size;
      ASSERT_LE(t->batch_stride, kRoom);
      for (int64_t b = 0; b < 2; ++b) {
        ASSERT_EQ(cudaMemcpy(far + static_cast<size_t>(at + b * kApart) * size,
                             static_cast<const unsigned char*>(t->data) + static_cast<size_t>(b) * bytes,
                             bytes, cudaMemcpyDeviceToDevice),
                  cudaSuccess);
      }
      t->data = far + static_cast<size_t>(at) * size;
      t->batch_stride = kApart;
      at += kRoom;
    }
    std::vector<RoundingHeadStats> got(4);
    const size_t out_bytes = got.size() * sizeof got[0], bytes = RoundingProbeWorkspaceBytes(p);
    auto* out = static_cast<RoundingHeadStats*>(copies.Allocate(out_bytes));
    ASSERT_TRUE(LaunchRoundingProbe(p, nullptr, out, {copies.Allocate(bytes), bytes}, nullptr).ok());
    ASSERT_EQ(cudaMemcpy(got.data(), out, out_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    KernelStatus status = KernelStatus::kOk;
    const std::vector<RoundingHeadStats> want = RunOn(c.Rounding(), &status, shift);
    ASSERT_GT(want[0].output_elements, 0);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), out_bytes), 0);
  }
}

TEST(RoundingCuda, TheSameBitsEveryTime) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.q_lens = {300, 300};
  o.dim = o.v_dim = 64;
  const AttentionCase c(o);
  const std::vector<RoundingHeadStats> first = Aligned::Run(c.Rounding());
  for (int i = 0; i < 3; ++i) {
    const std::vector<RoundingHeadStats> again = Aligned::Run(c.Rounding());
    EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof first[0]), 0);
  }
}

TEST(RoundingCuda, WideHeadsAreRefused) {
  CaseOptions o;
  o.dim = 257;
  KernelStatus status = KernelStatus::kOk;
  const AttentionCase c(o);
  EXPECT_EQ(RoundingProbeWorkspaceBytes(c.Rounding()), 0u);
  RoundingHeadStats out[4];
  status = LaunchRoundingProbe(c.Rounding(), nullptr, out, {}, nullptr).status;
  EXPECT_EQ(status, KernelStatus::kBadShape);
}

// One captured graph serves sampled and unsampled steps.
TEST(RoundingCuda, AFlagSwitchesACapturedGraph) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.storage = Storage::kPacked;
  const AttentionCase c(o);
  DeviceCopies copies;
  const RoundingProblem p = Copy(c.Rounding(), &copies);
  const size_t bytes = RoundingProbeWorkspaceBytes(p), out_bytes = 4 * sizeof(RoundingHeadStats);
  const kernels::Workspace workspace{copies.Allocate(bytes), bytes};
  auto* out = static_cast<RoundingHeadStats*>(copies.Allocate(out_bytes));
  const uint32_t off = 0, on = 1;
  uint32_t* flag = copies.Copy(&off, 1);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_TRUE(LaunchRoundingProbe(p, flag, out, workspace, stream).ok());
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
  const auto replay = [&](uint32_t value) {
    EXPECT_EQ(cudaMemcpy(flag, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    std::vector<RoundingHeadStats> heads(4);
    EXPECT_EQ(cudaMemcpy(heads.data(), out, out_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return heads;
  };
  EXPECT_TRUE(std::isnan(replay(off)[0].output_bias.num)) << "as it was filled";
  const std::vector<RoundingHeadStats> got = replay(on), want = Aligned::Run(c.Rounding());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), out_bytes), 0);
  EXPECT_EQ(cudaGraphExecDestroy(runnable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace foreshock::cuda
