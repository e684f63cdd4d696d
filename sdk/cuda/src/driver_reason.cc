#include <cstdio>

#include "foreshock/sdk/cuda/device.h"

namespace foreshock::cuda {

std::string DriverReason(int driver_cuda, const std::string& driver_name) {
  constexpr int kNeeded = 13000;
  if (driver_cuda >= kNeeded) return "";
  if (driver_cuda <= 0 && driver_name.empty()) return "no CUDA driver, needs NVIDIA's 580 or later";
  std::string have = driver_name;
  if (have.empty()) {
    char text[48];
    std::snprintf(text, sizeof text, "for CUDA %d.%d", driver_cuda / 1000, driver_cuda % 1000 / 10);
    have = text;
  }
  return "driver " + have + ", needs 580";
}

}  // namespace foreshock::cuda
