// Memory that kernels read and write: on a device, or pinned on the host. Move-only owners.
#pragma once

#include <cstddef>

#include "foreshock/base/result.h"
#include "foreshock/sdk/cuda/device.h"

namespace foreshock::cuda {

// Zeroed when made. Making and freeing one may wait for the device, so both happen outside steps.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // kUnimplemented without CUDA, kInternal with CUDA's words when the device has no room.
  static Result<DeviceBuffer> Make(int device, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  int device_ = kHost;
};

// Host memory that copies run to and from without waiting. Zeroed when made.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> Make(int device, size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  int device_ = kHost;
};

// A point in a stream's work that the host can ask about without waiting.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  // timed: NanosSince may be asked.
  static Result<DeviceEvent> Make(int device, bool timed);
  ~DeviceEvent();
  DeviceEvent(DeviceEvent&& other) noexcept;
  DeviceEvent& operator=(DeviceEvent&& other) noexcept;

  Status Record(Stream stream) const noexcept;
  // What `stream` gets from here on runs behind the event; the host goes on.
  Status Await(Stream stream) const noexcept;
  // Ok: everything before it is done. kUnavailable: not yet. kInternal: the device failed.
  Status Reached() const noexcept;
  // Device time between two timed events that were both reached; 0 when it cannot be told.
  double NanosSince(const DeviceEvent& earlier) const noexcept;

 private:
  void* event_ = nullptr;
  int device_ = kHost;
};

// Enqueued on `stream`; the memory must stay until it has passed.
Status FillAsync(void* device, int byte, size_t bytes, Stream stream) noexcept;
Status CopyToHostAsync(void* pinned, const void* device, size_t bytes, Stream stream) noexcept;

}  // namespace foreshock::cuda
