#include "foreshock/sdk/cuda/device.h"

#include <cuda_runtime_api.h>

#include <fstream>

namespace foreshock::cuda {
namespace {

std::string DriverName() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string name;
  std::getline(file, name);
  return name;
}

Support FindSupport() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  std::string reason = DriverReason(version, version > 0 ? DriverName() : "");
  if (!reason.empty()) return {false, std::move(reason)};
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error != cudaSuccess || count == 0) {
    return {false, std::string("no CUDA device (") + cudaGetErrorString(error) + ")"};
  }
  return {true, ""};
}

}  // namespace

const Support& DriverSupport() {
  static const Support support = FindSupport();
  return support;
}

DeviceGuard::DeviceGuard(int device) noexcept {
  if (device == kHost) return;
  auto mode = cudaStreamCaptureModeRelaxed;
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) {
    (void)cudaGetLastError();
    ok_ = false;
    return;
  }
  active_ = true;
  mode_ = static_cast<int>(mode);
  ok_ = cudaGetDevice(&before_) == cudaSuccess;
  if (ok_ && before_ != device) ok_ = cudaSetDevice(device) == cudaSuccess;
  if (before_ == device) before_ = kHost;  // nothing to go back to
  if (!ok_) (void)cudaGetLastError();
}

DeviceGuard::~DeviceGuard() {
  if (!active_) return;
  if (before_ != kHost) (void)cudaSetDevice(before_);
  auto mode = static_cast<cudaStreamCaptureMode>(mode_);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

bool IsCapturing(Stream stream) noexcept { return CaptureOf(stream) != 0; }

uint64_t CaptureOf(Stream stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &id, nullptr, nullptr, nullptr,
                               nullptr) != cudaSuccess) {
    // The default stream while another stream captures: nothing of ours is being captured.
    (void)cudaGetLastError();
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

Status CudaStatus(int code, const char* what) {
  if (code == cudaSuccess) return OkStatus();
  (void)cudaGetLastError();  // it is told here, and nobody else should come upon it
  return Status(Code::kInternal,
                std::string(what) + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}

}  // namespace foreshock::cuda
