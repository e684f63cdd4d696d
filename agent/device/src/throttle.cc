#include "foreshock/agent/device.h"

namespace foreshock::agent {
namespace {

struct Bit {
  uint64_t mask;
  const char* name;
};
constexpr Bit kBits[] = {{0x4, "sw_power_cap"},          {0x8, "hw_slowdown"},         {0x10, "sync_boost"},
                         {0x20, "sw_thermal_slowdown"},  {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake"},
                         {0x100, "display_clock"}};

}  // namespace

std::vector<std::string> ThrottleNames(uint64_t mask) {
  std::vector<std::string> names;
  for (const Bit& bit : kBits) {
    if ((mask & bit.mask) != 0) names.push_back(bit.name);
  }
  return names;
}

std::vector<std::string> DeviceHealth::Warnings() const {
  std::vector<std::string> lines;
  for (const Gpu& gpu : gpus) {
    const std::string who = "GPU " + std::to_string(gpu.index);
    if (gpu.xids > 0) {
      lines.push_back(who + ": the driver reported " + std::to_string(gpu.xids) + " errors, last Xid " +
                      std::to_string(gpu.last_xid));
    }
    const auto ecc = gpu.values.find("gpu_ecc_uncorrected_errors");
    if (ecc != gpu.values.end() && ecc->second > 0) {
      lines.push_back(who + ": " + std::to_string(static_cast<uint64_t>(ecc->second)) + " uncorrected memory errors");
    }
    // A power cap is how many GPUs run all day; slowdowns by hardware or heat are not.
    for (const std::string& name : gpu.throttled_by) {
      if (name == "hw_slowdown" || name == "hw_thermal_slowdown" || name == "hw_power_brake" ||
          name == "sw_thermal_slowdown") {
        lines.push_back(who + ": clocks are held down: " + name);
      }
    }
  }
  return lines;
}

}  // namespace foreshock::agent
