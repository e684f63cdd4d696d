// What is said of device memory where no driver can be used. The device is named by the trainer: nothing
// reads through the pointer.
#include <gmock/gmock.h>

#include "foreshock/sdk/cuda/device.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

TEST(DeviceAbsentTest, GpuWeightsAreUnmonitoredWithTheReason) {
  const cuda::Support& support = cuda::DriverSupport();
  if (support.usable) GTEST_SKIP() << "there is a CUDA device";
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  fs_weights q = model.Weights(0, false), k = model.Weights(0, true);
  q.device = k.device = 0;
  q.data = k.data = reinterpret_cast<const void*>(uintptr_t{0x7f0000000000});  // would crash whoever reads it
  fs_layer layer = model.Layer(0);
  layer.wq = &q;
  layer.wk = &k;
  EXPECT_EQ(fs_add_layer(run, &layer), FS_OK);
  EXPECT_EQ(fs_set_stream(run, 0, nullptr), FS_OK);
  fs_attention a = model.Attention();
  a.device = 0;
  a.q.data = a.k.data = a.v.data = a.o.data = q.data;
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_attention_forward(run, 0, &a), FS_OK);
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  EXPECT_EQ(fs_layer_set_weights(run, 0, &q, &k), FS_OK);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir / "run.fsk");
  ASSERT_FALSE(recording.hellos.empty());
  std::vector<std::string> said;
  for (const auto& item : recording.hellos[0].unmonitored) said.push_back(item.name + ": " + item.reason);
  EXPECT_THAT(said, ::testing::Contains("layer 0 weights: " + support.reason));
  for (const auto& event : recording.events) said.push_back(event.detail);
  EXPECT_THAT(said, ::testing::Contains("layer 0 attention: " + support.reason));
  EXPECT_EQ(recording.frames.size(), 3u);
}

TEST(DeviceAbsentTest, StreamsAreChecked) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  EXPECT_EQ(fs_set_stream(run, -1, nullptr), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_set_stream(run, 0, nullptr), FS_ERR_STATE);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  EXPECT_EQ(fs_set_stream(nullptr, 0, nullptr), FS_OK);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
}

}  // namespace
}  // namespace foreshock::testing
