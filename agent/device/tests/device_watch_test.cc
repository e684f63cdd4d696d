#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "foreshock/agent/device.h"

namespace foreshock::agent {
namespace {

DeviceHealth HealthBy(const std::string& library, const std::function<bool(const DeviceHealth&)>& enough) {
  DeviceOptions options;
  options.library = library;
  options.interval_ms = 1;
  const DeviceWatch watch(options);
  for (;;) {
    DeviceHealth health = watch.Health();
    if (enough(health)) return health;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Answered(const DeviceHealth& health) { return health.reason != "the driver has not answered yet"; }

TEST(DeviceWatch, ReadsWhatTheDriverKnowsAndCountsXids) {
  const DeviceHealth health = HealthBy(FAKE_NVML_WHOLE, [](const DeviceHealth& h) {
    return h.gpus.size() == 2 && h.gpus[1].xids == 1 && h.reason.empty();
  });
  const Gpu& hot = health.gpus[1];
  EXPECT_EQ(hot.index, 1u);
  EXPECT_EQ(hot.name, "GPU of tests");
  EXPECT_EQ(hot.uuid, "GPU-1");
  const std::map<std::string, double> values = {
      {"gpu_power_watts", 701.25},         {"gpu_temperature_celsius", 91},   {"gpu_sm_clock_mhz", 1980},
      {"gpu_memory_clock_mhz", 3201},      {"gpu_utilization_ratio", 0.87},   {"gpu_memory_used_bytes", 60},
      {"gpu_memory_total_bytes", 100},     {"gpu_ecc_corrected_errors", 12},  {"gpu_ecc_uncorrected_errors", 3},
      {"gpu_throttle_mask", 0x48}};
  EXPECT_EQ(hot.values, values);
  EXPECT_TRUE(hot.missing.empty());
  EXPECT_EQ(hot.throttled_by, (std::vector<std::string>{"hw_slowdown", "hw_thermal_slowdown"}));
  EXPECT_EQ(hot.last_xid, 79u);
  EXPECT_GT(hot.last_xid_unix_ns, 0);
  EXPECT_EQ(health.gpus[0].throttled_by, std::vector<std::string>{}) << "idle is no throttle";
  EXPECT_EQ(health.Warnings(), (std::vector<std::string>{
                                   "GPU 1: the driver reported 1 errors, last Xid 79", "GPU 1: 3 uncorrected memory errors",
                                   "GPU 1: clocks are held down: hw_slowdown",
                                   "GPU 1: clocks are held down: hw_thermal_slowdown"}));
}

TEST(DeviceWatch, SaysOfEachValueWhyItIsMissing) {
  const DeviceHealth health = HealthBy(FAKE_NVML_SPARSE, [](const DeviceHealth& h) { return h.gpus.size() == 1; });
  const Gpu& gpu = health.gpus[0];
  EXPECT_EQ(gpu.values, (std::map<std::string, double>{{"gpu_temperature_celsius", 50}, {"gpu_throttle_mask", 4}}));
  EXPECT_EQ(gpu.missing.at("gpu_ecc_uncorrected_errors"), "Not Supported (NVML 3)");
  EXPECT_EQ(gpu.missing.at("gpu_power_watts"), "this libnvidia-ml lacks the call");
  EXPECT_EQ(gpu.missing.at("gpu_xid_errors"), "this libnvidia-ml cannot wait for events");
  EXPECT_TRUE(health.Warnings().empty()) << "a power cap is no warning";
}

TEST(DeviceWatch, WithoutLibraryOrDriverThereIsAReason) {
  EXPECT_NE(HealthBy("libnothing-of-the-sort.so.1", Answered).reason.find("libnothing-of-the-sort.so.1"),
            std::string::npos);
  EXPECT_EQ(HealthBy(FAKE_NVML_STUB, Answered).reason, "nvmlInit: Driver Not Loaded (NVML 9)");
  EXPECT_NE(HealthBy("libdl.so.2", Answered).reason.find("lacks nvmlInit_v2"), std::string::npos);
}

TEST(DeviceWatch, CanBeSwitchedOff) {
  DeviceOptions options;
  options.enabled = false;
  EXPECT_EQ(DeviceWatch(options).Health().reason, "switched off");
}

TEST(DeviceWatch, NamesAllThrottleReasons) {
  EXPECT_EQ(ThrottleNames(0x3), std::vector<std::string>{});
  EXPECT_EQ(ThrottleNames(0x1FC).size(), 7u);
}

}  // namespace
}  // namespace foreshock::agent
