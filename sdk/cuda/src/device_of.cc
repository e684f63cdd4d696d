// Asks the driver that the trainer has loaded, if it has, so that this works in a build without CUDA too.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "foreshock/sdk/cuda/device.h"

namespace foreshock::cuda {
namespace {

// From the driver's documented interface: CUresult cuPointerGetAttribute(void*, CUpointer_attribute,
// CUdeviceptr).
using PointerGetAttribute = int (*)(void* data, int attribute, uint64_t pointer);
constexpr int kMemoryType = 2;         // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kDeviceOrdinal = 9;      // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr unsigned kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE

PointerGetAttribute LoadedDriver() noexcept {
  static std::atomic<PointerGetAttribute> found{nullptr};
  PointerGetAttribute call = found.load(std::memory_order_acquire);
  if (call != nullptr) return call;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  call = reinterpret_cast<PointerGetAttribute>(dlsym(library, "cuPointerGetAttribute"));
  found.store(call, std::memory_order_release);
  dlclose(library);  // the trainer holds it
  return call;
}

}  // namespace

int DeviceOf(const void* pointer) noexcept {
  const PointerGetAttribute ask = pointer == nullptr ? nullptr : LoadedDriver();
  if (ask == nullptr) return kHost;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  unsigned type = 0;
  if (ask(&type, kMemoryType, address) != 0 || type != kDeviceMemory) return kHost;
  int device = kHost;
  return ask(&device, kDeviceOrdinal, address) == 0 ? device : kHost;
}

}  // namespace foreshock::cuda
