// Losses and scalars on a GPU: each in the frame of its own step, however late it is ready.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "foreshock/base/catalogue.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/cuda/device_buffer.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

double ScalarOf(const wire::Frame& frame, uint16_t signal) {
  for (const auto& series : frame.series) {
    if (static_cast<uint16_t>(series.signal) == signal) return series.values.at(0);
  }
  return NAN;
}

class DeviceNumbersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::DriverSupport().usable) GTEST_SKIP() << "skipped: no CUDA device";
    address_ = "file:" + (dir_ / "run.fsk");
    fs_options options = TestOptions(address_);
    ASSERT_EQ(fs_open(&options, &run_), FS_OK);
    ASSERT_EQ(model_.Register(run_), FS_OK);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    numbers_ = cuda::DeviceBuffer::Make(0, kCount * sizeof(float)).value();
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&host_), kCount * sizeof(float)), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (host_ != nullptr) cudaFreeHost(host_);
  }
  // In the stream's order, as a kernel would.
  const float* Put(int at, float value) {
    host_[at] = value;
    float* there = numbers_.as<float>() + at;
    EXPECT_EQ(cudaMemcpyAsync(there, host_ + at, sizeof(float), cudaMemcpyHostToDevice, stream_),
              cudaSuccess);
    return there;
  }

  static constexpr int kCount = 4096;
  TempDir dir_;
  std::string address_;
  ToyModel model_;
  fs_run* run_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cuda::DeviceBuffer numbers_;
  float* host_ = nullptr;
};

TEST_F(DeviceNumbersTest, ComeInTheFrameOfTheirStep) {
  constexpr int kSteps = 40;
  for (int t = 0; t < kSteps; ++t) {
    EXPECT_EQ(fs_step_begin(run_, t), FS_OK);
    const auto at = static_cast<float>(t);
    EXPECT_EQ(fs_loss_at(run_, Put(4 * t, at), FS_FP32, 0, stream_, 10), FS_OK);
    EXPECT_EQ(fs_loss_at(run_, Put(4 * t + 1, at + 4), FS_FP32, -1, stream_, 30), FS_OK);
    EXPECT_EQ(fs_scalar_at(run_, FS_GRAD_NORM, Put(4 * t + 2, -at), FS_FP32, 0, stream_), FS_OK);
    if (t % 2 == 0) {
      EXPECT_EQ(fs_loss(run_, at + 8, 40), FS_OK);  // the host knows this one
    }
    EXPECT_EQ(fs_step_end(run_), FS_OK);
  }
  EXPECT_EQ(fs_close(run_, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  ASSERT_EQ(recording.frames.size(), size_t{kSteps});
  for (int t = 0; t < kSteps; ++t) {
    const wire::Frame& frame = recording.frames[static_cast<size_t>(t)];
    EXPECT_EQ(frame.step, t);
    const double device = t + 3.0;
    EXPECT_FLOAT_EQ(static_cast<float>(ScalarOf(frame, kLoss)),
                    static_cast<float>(t % 2 == 0 ? (device + t + 8) / 2 : device));
    EXPECT_EQ(ScalarOf(frame, kTokens), t % 2 == 0 ? 80 : 40);
    EXPECT_EQ(ScalarOf(frame, kGradNorm), -t);
  }
}

// What a busy device does: nothing is ready for many steps. No call waits, and no frame is lost.
TEST_F(DeviceNumbersTest, AStreamThatStandsStillHoldsNothingUp) {
  std::unique_ptr<int> gate = std::make_unique<int>(0);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_,
                [](void* open) {
                  while (__atomic_load_n(static_cast<int*>(open), __ATOMIC_ACQUIRE) == 0) {
                  }
                },
                gate.get()),
            cudaSuccess);
  constexpr int kSteps = 100;
  for (int t = 0; t < kSteps; ++t) {
    EXPECT_EQ(fs_step_begin(run_, t), FS_OK);
    EXPECT_EQ(fs_loss_at(run_, Put(t, static_cast<float>(t)), FS_FP32, 0, stream_, 10), FS_OK);
    EXPECT_EQ(fs_step_end(run_), FS_OK);
  }
  __atomic_store_n(gate.get(), 1, __ATOMIC_RELEASE);
  EXPECT_EQ(fs_close(run_, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  ASSERT_EQ(recording.frames.size(), size_t{kSteps});
  int with = 0;
  for (int t = 0; t < kSteps; ++t) {
    const wire::Frame& frame = recording.frames[static_cast<size_t>(t)];
    EXPECT_EQ(frame.step, t);
    const double loss = ScalarOf(frame, kLoss);
    if (!std::isnan(loss)) {
      EXPECT_EQ(loss, t) << "late, never another step's";
      ++with;
    }
  }
  EXPECT_GE(with, 16) << "frames that were still held have theirs";
  EXPECT_LT(with, kSteps) << "the others went without";
}

TEST_F(DeviceNumbersTest, MoreThanSixtyFourAStepAreRefused) {
  EXPECT_EQ(fs_step_begin(run_, 0), FS_OK);
  const float* one = Put(0, 1);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(fs_loss_at(run_, one, FS_FP32, 0, stream_, 1), FS_OK);
  EXPECT_EQ(fs_loss_at(run_, one, FS_FP32, 0, stream_, 1), FS_ERR_LIMIT);
  EXPECT_EQ(fs_step_end(run_), FS_OK);
  EXPECT_EQ(fs_close(run_, FS_FINISHED), FS_OK);
  EXPECT_EQ(ScalarOf(ReadRecording(dir_ / "run.fsk").frames.at(0), kTokens), 64);
}

}  // namespace
}  // namespace foreshock::testing
