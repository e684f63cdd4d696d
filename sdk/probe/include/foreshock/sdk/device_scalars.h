// Numbers of a step that lie on a device, such as the loss: copied to the host when the device gets there,
// written into their frame then. Nobody waits.
//
// One call at a time. The first number allocates (pinned memory, events), and so does the first one of each
// further stream; nothing after that.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/dtype.h"
#include "foreshock/sdk/frame_layout.h"

namespace foreshock::sdk {

class DeviceScalars {
 public:
  // Numbers of one step: losses of micro-batches and scalars together.
  static constexpr size_t kNumbers = 64;
  // Streams that one step's numbers may come from.
  static constexpr size_t kStreams = 4;

  // frames: that may wait at once, the open one included.
  DeviceScalars(const FrameLayout& layout, size_t frames) : layout_(layout), tickets_(frames) {}

  // One number of the open step. weight: a loss's tokens; other signals have none, and their last number
  // counts. `value` is read in the stream's order. kResourceExhausted naming the limit: more than kNumbers or
  // kStreams; kUnavailable: every ticket waits, or the stream records a graph; else what CUDA said. A number
  // that was not taken is missing.
  Status Add(uint16_t signal, const void* value, kernels::DType dtype, int device, cuda::Stream stream,
             double weight) noexcept;

  // The step ends: its ticket, or -1 where it has no numbers on a device. loss_sum, loss_tokens: losses that
  // were known on the host, to be put together with those on devices.
  int Close(double loss_sum, double loss_tokens) noexcept;
  // Everything of the ticket is there, or its device has failed. -1 is always ready.
  bool Ready(int ticket) noexcept;
  // Writes what is there and frees the ticket; -1 does nothing. give_up: what is not there stays missing.
  void Write(int ticket, bool give_up, FrameSlot* frame) noexcept;

  // The last learning rate that was read from a device; 0: none.
  double learning_rate() const { return learning_rate_; }

 private:
  struct Number {
    uint16_t signal = 0;
    kernels::DType dtype = kernels::DType::kFp32;
    double weight = 0;
  };
  struct Source {
    int device = -1;
    cuda::Stream stream = nullptr;
    cuda::DeviceEvent event;  // of `device`; behind the last number from the stream
  };
  struct Ticket {
    bool used = false;
    size_t numbers = 0, sources = 0;
    double loss_sum = 0, loss_tokens = 0;
    std::array<Number, kNumbers> number;
    std::array<Source, kStreams> source;
  };

  Status Open(int device) noexcept;
  Result<Source*> SourceOf(Ticket& ticket, int device, cuda::Stream stream) noexcept;
  unsigned char* RoomOf(size_t ticket, size_t number) const {
    return host_.as<unsigned char>() + (ticket * kNumbers + number) * sizeof(double);
  }

  const FrameLayout& layout_;
  cuda::PinnedBuffer host_;
  std::vector<Ticket> tickets_;
  int open_ = -1;
  double learning_rate_ = 0;
};

}  // namespace foreshock::sdk
