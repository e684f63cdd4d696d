// The few calls of NVML that are used, by dlopen. Declared by hand: the numbers are NVML's ABI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "foreshock/agent/device.h"
#include "foreshock/base/result.h"

namespace foreshock::agent {

// One thread at a time.
class Nvml {
 public:
  // kNotFound: the library is not there. kUnavailable: it is, and does not work (no driver, a stub), with its words.
  static Result<std::unique_ptr<Nvml>> Load(const std::string& library);
  ~Nvml();

  size_t gpus() const { return devices_.size(); }
  // Everything but the Xid errors.
  Gpu Measure(size_t index);
  // Waits up to timeout_ms for an Xid error; its GPU's index and number. Nothing when none came, or where they cannot be
  // waited for (then it waits all the same).
  struct Xid {
    size_t gpu = 0;
    uint64_t number = 0;
  };
  std::optional<Xid> WaitForXid(uint32_t timeout_ms);
  // Why Xid errors cannot be waited for; empty: they can.
  const std::string& no_xids() const { return no_xids_; }

 private:
  struct Calls;
  explicit Nvml(std::unique_ptr<Calls> calls);
  Status Begin();
  void RegisterXids();
  std::string Words(int code) const;

  const std::unique_ptr<Calls> calls_;
  std::vector<void*> devices_;
  void* events_ = nullptr;
  std::string no_xids_;
  bool begun_ = false;
};

}  // namespace foreshock::agent
