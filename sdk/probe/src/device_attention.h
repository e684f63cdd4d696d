// Attention calls whose tensors lie on one device: the probes are enqueued on the call's own stream, and
// their results come back through pinned memory.
//
// A ticket is a frame's share of that memory. Probe adds a call to it, Ready says when the device has done
// all of them, and Result reads them out. The first call of a step claims the ticket, for all devices alike:
// AttentionWatch hands them out and takes them back.
//
// Streams: each has scratch memory of its own (a lane), so that calls on different streams may overlap. Where
// there are more streams than lanes, a stream takes over the lane that was idle longest and waits, on the
// device, for what that lane holds.
//
// One thread at a time. Make allocates; Probe only where a call needs more scratch than every one before it
// on its stream. Nothing ever waits for a device. An error of CUDA's ends the device's measurements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "attention_columns.h"
#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/cuda/stream_scratch.h"
#include "foreshock/sdk/layer_spec.h"

namespace foreshock::sdk {

class DeviceAttention {
 public:
  struct Wanted {
    bool attention = false;
    bool rounding = false;
  };
  // What one call found; null: it was not asked.
  struct Found {
    size_t layer = 0;
    const kernels::AttentionHeadStats* attention = nullptr;  // one a local query head
    const kernels::RoundingHeadStats* rounding = nullptr;
    bool learned_sinks = false;
    RoundingGiven given;
  };

  // Tickets are numbered from 0.
  DeviceAttention(int device, const std::vector<LayerSpec>& layers, int tickets);
  // Makes buffers and events; what goes wrong is the failure().
  void Make();

  int device() const { return device_; }

  // Enqueues the probes of one call. Not kOk: what is wrong with the arguments (a wrong rounding problem
  // leaves the attention statistics in place). kOk also when CUDA refuses: see failure().
  kernels::KernelStatus Probe(int ticket, size_t layer, bool backward,
                              const kernels::RoundingProblem& problem, Wanted wanted,
                              cuda::Stream stream) noexcept;

  // Everything of the ticket is there, or never will be.
  bool Ready(int ticket) noexcept;
  // Calls of the ticket that can be read out, in the order in which they were made; 0 after a failure.
  size_t found_count(int ticket) const;
  Found FoundAt(int ticket, size_t index) const;
  // Device time of the ticket's calls.
  double Nanos(int ticket) const;
  // The ticket's calls are not needed any more, or were read.
  void Clear(int ticket) noexcept;

  // Why nothing is measured any more; "" while all is well.
  const std::string& failure() const { return failure_; }
  // Whether users were told.
  bool told() const { return told_; }
  void SetTold() { told_ = true; }

 private:
  static constexpr size_t kLanes = 4;
  struct Lane {
    cuda::Stream stream = nullptr;
    cuda::StreamScratch scratch;
    cuda::DeviceEvent done;  // behind the lane's last call
    uint64_t last_use = 0;   // 0: never
  };
  struct Call {
    cuda::DeviceEvent begin, end;
    Wanted done;
    bool learned_sinks = false;
    RoundingGiven given;
  };
  struct Ticket {
    cuda::PinnedBuffer host;
    std::vector<Call> calls;     // [layer][forward, backward]
    std::vector<uint32_t> made;  // indices into calls
    size_t reached = 0;          // of `made`
  };

  Status MakeAll();
  bool Check(const Status& status) noexcept;
  Lane* TakeLane(cuda::Stream stream) noexcept;
  kernels::AttentionHeadStats* AttentionOf(const Ticket& ticket, size_t layer) const;
  kernels::RoundingHeadStats* RoundingOf(const Ticket& ticket, size_t layer, bool backward) const;
  kernels::KernelStatus Launch(const Ticket& ticket, size_t layer, bool backward,
                               const kernels::RoundingProblem& problem, Wanted wanted, Lane& lane,
                               cuda::Stream stream, Call* call) noexcept;

  const int device_;
  std::vector<size_t> first_head_;  // of each layer
  size_t heads_ = 0;
  std::vector<Ticket> tickets_;
  std::array<Lane, kLanes> lanes_;
  uint64_t uses_ = 0;
  std::string failure_;
  bool told_ = false;
};

}  // namespace foreshock::sdk
