// Device time by kernel family, and which attention kernels really ran. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace foreshock::sdk {

class KernelTimes {
 public:
  void Add(const char* name, uint64_t nanos);
  void AddLost(uint64_t records);

  // Our own device time over all device time; 0 before the first kernel.
  double OwnShare() const;
  // The two sums. Takes no lock.
  uint64_t own_nanos() const { return own_nanos_.load(std::memory_order_relaxed); }
  uint64_t all_nanos() const { return all_nanos_.load(std::memory_order_relaxed); }
  // One JSON object. `reason`: why nothing is measured, or nothing more; empty: all is well.
  std::string Json(const std::string& reason) const;

 private:
  struct Sum {
    uint64_t calls = 0, nanos = 0;
  };
  struct Kind {
    std::string_view family;
    Sum* sum = nullptr;        // of the family
    Sum* attention = nullptr;  // of the kernel, where it is one of attention
    bool own = false;
  };
  const Kind& KindOf(const char* name);

  std::atomic<uint64_t> own_nanos_{0}, all_nanos_{0};
  mutable std::mutex mutex_;  // guards everything below
  std::unordered_map<std::string, Kind> kinds_;
  std::map<std::string_view, Sum> families_;
  std::map<std::string, Sum> attention_;
  Sum all_;
  uint64_t lost_ = 0;
};

}  // namespace foreshock::sdk
