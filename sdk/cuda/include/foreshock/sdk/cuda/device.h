// What the SDK knows about CUDA devices, in plain C++: nobody but this component includes CUDA's headers.
// In a build without CUDA everything here is present and says so.
//
// Nothing throws, and nothing but a buffer's making starts the CUDA runtime: a trainer on the CPU never gets
// a context on a GPU it did not ask for.
#pragma once

#include <cstdint>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::cuda {

// A cudaStream_t; null is the default stream.
using Stream = void*;

inline constexpr int kHost = -1;

// The device whose memory `pointer` lies in; kHost for host memory, and while this process has not loaded a
// CUDA driver. Managed memory counts as its device's. Costs well under a microsecond; any thread.
int DeviceOf(const void* pointer) noexcept;

// Whether the kernels can run here, found out once per process at the first call (any thread). `reason` is
// what users read behind "unmonitored: ", e.g. "driver 525.147.05, needs 580"; "" when usable.
struct Support {
  bool usable = false;
  std::string reason;
};
const Support& DriverSupport();

// The reason for a driver that speaks CUDA `driver_cuda` (13000 for 13.0; 0: no driver) and calls itself
// `driver_name` ("" where unknown); "" when it is new enough.
std::string DriverReason(int driver_cuda, const std::string& driver_name);

// Makes `device` current on this thread until the end of the scope. While it lives, calls of this thread that
// a stream capture elsewhere in the process would forbid (allocation, queries) are allowed. kHost: does
// nothing. ok() is false when there is no such device.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  bool ok() const { return ok_; }

 private:
  int before_ = kHost;
  int mode_ = 0;
  bool active_ = false;
  bool ok_ = true;
};

// True while the stream records a graph: nothing runs now, and what is launched runs at each replay.
bool IsCapturing(Stream stream) noexcept;

// Tells captures apart: the same for all calls of one capture, in the whole process; 0 when nothing is
// captured on the stream.
uint64_t CaptureOf(Stream stream) noexcept;

// kInternal naming the call and CUDA's words for `code` (a cudaError_t), which is then forgotten where CUDA
// lets it be; Ok for 0.
Status CudaStatus(int code, const char* what);

}  // namespace foreshock::cuda
