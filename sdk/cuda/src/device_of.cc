// Asks the driver that the trainer has loaded, if it has, so that this works in a build without CUDA too.
#include <dlfcn.h>
#include <link.h>

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

// How many libraries this process has loaded so far. dlopen allocates when it finds nothing, and DeviceOf
// runs in steps: it is asked again only when this has changed.
uint64_t LibrariesLoaded() noexcept {
  uint64_t count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_adds;
        return 1;  // the first entry tells
      },
      &count);
  return count;
}

PointerGetAttribute LoadedDriver() noexcept {
  static std::atomic<PointerGetAttribute> found{nullptr};
  PointerGetAttribute call = found.load(std::memory_order_acquire);
  if (call != nullptr) return call;
  static std::atomic<uint64_t> looked_at{0};
  const uint64_t loaded = LibrariesLoaded();
  if (looked_at.load(std::memory_order_relaxed) == loaded) return nullptr;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    looked_at.store(loaded, std::memory_order_relaxed);
    return nullptr;
  }
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
