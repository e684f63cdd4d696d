#include "foreshock/sdk/cuda/device.h"

#include <gmock/gmock.h>

#include <vector>

#include "foreshock/sdk/cuda/device_buffer.h"

namespace foreshock::cuda {
namespace {

TEST(DriverReasonTest, NamesTheDriverAndWhatIsNeeded) {
  EXPECT_EQ(DriverReason(12000, "525.147.05"), "driver 525.147.05, needs 580");
  EXPECT_EQ(DriverReason(12020, ""), "driver for CUDA 12.2, needs 580");
  EXPECT_EQ(DriverReason(0, ""), "no CUDA driver, needs NVIDIA's 580 or later");
  EXPECT_EQ(DriverReason(13000, "580.65.06"), "");
  EXPECT_EQ(DriverReason(13010, ""), "");
}

TEST(DeviceTest, HostMemoryIsTheHosts) {
  const std::vector<float> host(16);
  EXPECT_EQ(DeviceOf(host.data()), kHost);
  EXPECT_EQ(DeviceOf(nullptr), kHost);
}

TEST(DeviceTest, WithoutADeviceThereIsAReasonAndNoBuffer) {
  const Support& support = DriverSupport();
  EXPECT_EQ(support.usable, support.reason.empty());
  if (support.usable) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_FALSE(DeviceBuffer::Make(0, 16).ok());
  EXPECT_FALSE(PinnedBuffer::Make(0, 16).ok());
  EXPECT_FALSE(DeviceEvent::Make(0, true).ok());
  EXPECT_FALSE(DeviceGuard(0).ok());
}

TEST(DeviceTest, BuffersLieWhereTheyWereAskedFor) {
  if (!DriverSupport().usable) GTEST_SKIP() << "skipped: no CUDA device";
  auto device = DeviceBuffer::Make(0, 1024);
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(DeviceOf(device.value().data()), 0);
  EXPECT_EQ(DeviceOf(device.value().as<char>() + 1023), 0);
  auto pinned = PinnedBuffer::Make(0, 1024);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(DeviceOf(pinned.value().data()), kHost);
  EXPECT_FALSE(DeviceBuffer::Make(0, size_t{1} << 60).ok());
  EXPECT_FALSE(DeviceBuffer::Make(1 << 20, 16).ok());
}

}  // namespace
}  // namespace foreshock::cuda
