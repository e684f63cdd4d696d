// fs_loss_at and fs_scalar_at: numbers in memory. On a CUDA device too where there is one.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "foreshock/base/catalogue.h"
#include "foreshock/sdk/cuda/device.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

class NumbersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    address_ = "file:" + (dir_ / "run.fsk");
    fs_options options = TestOptions(address_);
    ASSERT_EQ(fs_open(&options, &run_), FS_OK);
    ASSERT_EQ(model_.Register(run_), FS_OK);
  }
  Recording Close() {
    EXPECT_EQ(fs_close(run_, FS_FINISHED), FS_OK);
    return ReadRecording(dir_ / "run.fsk");
  }
  // NaN where the frame does not have it.
  static double Scalar(const wire::Frame& frame, uint16_t signal) {
    for (const auto& series : frame.series) {
      if (static_cast<uint16_t>(series.signal) == signal) return series.values.at(0);
    }
    return NAN;
  }

  TempDir dir_;
  std::string address_;
  ToyModel model_;
  fs_run* run_ = nullptr;
};

TEST_F(NumbersTest, OfHostMemoryAreReadAtOnceInEveryDtype) {
  EXPECT_EQ(fs_step_begin(run_, 0), FS_OK);
  double f64 = 2.5;
  float f32 = 0.75F;
  uint16_t bf16 = 0x4040, fp16 = 0x4200;  // both 3
  EXPECT_EQ(fs_loss_at(run_, &f64, FS_FP64, -1, nullptr, 30), FS_OK);
  EXPECT_EQ(fs_loss_at(run_, &bf16, FS_BF16, -1, nullptr, 10), FS_OK);
  EXPECT_EQ(fs_scalar_at(run_, FS_GRAD_NORM, &fp16, FS_FP16, -1, nullptr), FS_OK);
  EXPECT_EQ(fs_scalar_at(run_, FS_LEARNING_RATE, &f32, FS_FP32, -1, nullptr), FS_OK);
  f64 = f32 = NAN;
  EXPECT_EQ(fs_step_end(run_), FS_OK);
  const Recording recording = Close();
  ASSERT_EQ(recording.frames.size(), 1u);
  EXPECT_FLOAT_EQ(Scalar(recording.frames[0], kLoss), (2.5F * 30 + 3 * 10) / 40);
  EXPECT_EQ(Scalar(recording.frames[0], kTokens), 40);
  EXPECT_EQ(Scalar(recording.frames[0], kGradNorm), 3);
  EXPECT_EQ(Scalar(recording.frames[0], kLearningRate), 0.75);
}

TEST_F(NumbersTest, WrongOnesAreRefused) {
  const float value = 1;
  EXPECT_EQ(fs_step_begin(run_, 0), FS_OK);
  EXPECT_EQ(fs_loss_at(run_, nullptr, FS_FP32, -1, nullptr, 1), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_loss_at(run_, &value, static_cast<fs_dtype>(9), -1, nullptr, 1), FS_ERR_DTYPE);
  EXPECT_EQ(fs_loss_at(run_, &value, FS_FP32, -1, nullptr, 0), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_loss_at(run_, &value, FS_FP32, 0, nullptr, NAN), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_scalar_at(run_, static_cast<fs_scalar_id>(99), &value, FS_FP32, 0, nullptr), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_step_end(run_), FS_OK);
  EXPECT_EQ(fs_loss_at(nullptr, &value, FS_FP32, -1, nullptr, 1), FS_OK);
  EXPECT_TRUE(std::isnan(Scalar(Close().frames.at(0), kLoss)));
}

TEST_F(NumbersTest, WithoutADeviceThoseOnOneAreMissingAndSaidOnce) {
  if (cuda::DriverSupport().usable) GTEST_SKIP() << "there is a CUDA device";
  const auto* nowhere = reinterpret_cast<const void*>(uintptr_t{0x7f0000000000});
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(fs_step_begin(run_, t), FS_OK);
    EXPECT_EQ(fs_loss_at(run_, nowhere, FS_FP32, 0, nullptr, 8), FS_OK);
    EXPECT_EQ(fs_scalar_at(run_, FS_GRAD_NORM, nowhere, FS_FP32, 0, nullptr), FS_OK);
    EXPECT_EQ(fs_step_end(run_), FS_OK);
  }
  const Recording recording = Close();
  ASSERT_EQ(recording.frames.size(), 3u);
  EXPECT_TRUE(std::isnan(Scalar(recording.frames[2], kLoss)));
  int said = 0;
  for (const auto& event : recording.events)
    said += event.detail.find("scalars on a device") != std::string::npos;
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace foreshock::testing
