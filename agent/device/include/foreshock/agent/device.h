// The health of this node's GPUs, by NVML: ECC errors, why clocks are held down, clocks, power, temperature, Xid errors.
//
// NVML is loaded when it is there and never linked. A machine without it, with a stub of it, or with a driver that does
// not answer is no failure: `reason` says what is missing, and so does each value of a GPU that does not have it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"

namespace foreshock::agent {

struct Gpu {
  uint32_t index = 0;
  std::string name, uuid;
  // By name: gpu_power_watts, gpu_temperature_celsius, gpu_sm_clock_mhz, gpu_memory_clock_mhz, gpu_utilization_ratio,
  // gpu_memory_used_bytes, gpu_memory_total_bytes, gpu_ecc_corrected_errors, gpu_ecc_uncorrected_errors (since the GPU
  // left the factory), gpu_throttle_mask (NVML's bits).
  std::map<std::string, double> values;
  std::map<std::string, std::string> missing;  // of these names: why there is no value
  std::vector<std::string> throttled_by;       // of the mask: "hw_thermal_slowdown", ... ; not idleness
  uint64_t xids = 0;                           // errors that the driver reported since the start
  uint64_t last_xid = 0;
  int64_t last_xid_unix_ns = 0;
};

struct DeviceHealth {
  std::string reason;  // why there are no GPUs below, or why they are not up to date; empty: all is well
  int64_t measured_unix_ns = 0;
  std::vector<Gpu> gpus;
  // What somebody should look at: Xid and uncorrected ECC errors, thermal and power brakes. One line each.
  std::vector<std::string> Warnings() const;
};

struct DeviceOptions {
  bool enabled = true;
  std::string library = "libnvidia-ml.so.1";
  int64_t interval_ms = 5000;
  Clock* clock = &SystemClock::Instance();
};

// Asks from a thread of its own, because a driver in trouble may not answer for minutes. Thread-safe.
class DeviceWatch {
 public:
  explicit DeviceWatch(const DeviceOptions& options);
  // A driver that does not answer within two seconds is left behind with its thread.
  ~DeviceWatch();
  // What was measured last; with a reason when that is older than three intervals.
  DeviceHealth Health() const;

 private:
  struct State;
  const DeviceOptions options_;
  const std::shared_ptr<State> state_;
};

// The names of NVML's throttle reasons (clocks event reasons) in a mask, without idleness and what an application asked for.
std::vector<std::string> ThrottleNames(uint64_t mask);

}  // namespace foreshock::agent
