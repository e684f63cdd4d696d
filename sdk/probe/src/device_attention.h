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
// A call on a stream that is being captured becomes part of the graph, behind a flag in device memory:
// Capture. Its results stay on the device. In sampled steps the flag is up from BeginStep on, on the run's
// stream (SetStream), and EndStep sends what the graphs wrote meanwhile on its way. Scratch memory of graphs
// is kept to the end, because nobody says when a graph is gone.
//
// Attention calls on the run's stream leave their last part, adding up, to one kernel for all of them, which
// is enqueued when the step ends (FinishCalls). Other streams may be gone by then: their calls are finished
// at once.
//
// One thread at a time. Make and Capture allocate; Probe only where a call needs more scratch than every one
// before it on its stream. Nothing ever waits for a device. An error of CUDA's ends the device's
// measurements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "attention_columns.h"
#include "foreshock/sdk/cuda/attention_probe.h"
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
    bool replay = false;  // by a graph
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

  // Whether calls of the ticket that a step is about to take have their device time taken; they do until said
  // otherwise.
  void SetTimed(bool timed) { timed_ = timed; }

  // Where graphs are replayed, or what is ordered with that; the default stream until then. It lives until
  // the step that is open has ended.
  void SetStream(cuda::Stream stream) noexcept;
  // As Probe, into the graph that `stream` records; `capture` tells captures apart (cuda::CaptureOf). Of one
  // capture a layer's first call counts. All graphs of a layer share its place for results.
  kernels::KernelStatus Capture(uint64_t capture, size_t layer, bool backward,
                                const kernels::RoundingProblem& problem, Wanted wanted, cuda::Stream stream);
  // Enqueues what is left of calls so far; where a graph records the run's stream, the next time. To be
  // called at each step's end.
  void FinishCalls() noexcept;

  // A sampled step begins: replays measure from here on, rounding in layers [first, first + count), counted
  // round.
  void BeginStep(size_t first, size_t count) noexcept;
  // True when the step's replays may have found something, which needs a ticket.
  bool Owes() const { return flag_up_; }
  // The step ends; ticket -1: what was found is dropped.
  void EndStep(int ticket) noexcept;

  // Everything of the ticket is there, or never will be.
  bool Ready(int ticket) noexcept;
  // Calls of the ticket that can be read out: those of graphs (some may hold nothing: NaN rows), then the
  // others in the order in which they were made; 0 after a failure.
  size_t found_count(int ticket) const;
  Found FoundAt(int ticket, size_t index) const;
  // Whether device time was taken of all of the ticket's calls, and how much.
  bool Timed(int ticket) const;
  double Nanos(int ticket) const;
  // The ticket's calls are not needed any more, or were read.
  void Clear(int ticket) noexcept;

  // When the last Probe came, the device had not got behind the one before it (on that stream).
  bool was_behind() const { return was_behind_; }

  // Nothing on the device can still come to this memory. Where it can, this must never be destroyed: kernels
  // would write to what is somebody else's by then.
  bool Idle() const noexcept;

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
    cuda::DeviceEvent done;                   // behind the lane's last call, where that is not `last`
    const cuda::DeviceEvent* last = nullptr;  // behind the lane's last call: `done` or a call's end
    uint64_t last_use = 0;                    // 0: never
  };
  // What was asked of a call.
  struct Asked {
    Wanted done;
    bool learned_sinks = false;
    RoundingGiven given;
  };
  struct Call {
    cuda::DeviceEvent begin, end;
    bool timed = false;
    Asked asked;
  };
  struct Captured {
    uint64_t capture = 0;  // the last one that this call was part of; 0: none
    Asked asked;
  };
  struct Ticket {
    cuda::PinnedBuffer host;
    std::vector<Call> calls;         // [layer][forward, backward]
    std::vector<uint32_t> replayed;  // indices into captured_
    cuda::DeviceEvent copied;        // behind the copy of what graphs found
    bool copy_reached = true;
    std::vector<uint32_t> made;                 // indices into calls
    size_t reached = 0;                         // of `made`
    cuda::DeviceEvent finish_begins, finished;  // around the last FinishCalls
    bool has_finish = false, finish_reached = false, finish_timed = false;
  };
  // Calls on the run's stream whose partial results wait for FinishCalls.
  struct Waiting {
    static constexpr size_t kMost = 16;
    cuda::StreamScratch partials;
    cuda::Stream stream = nullptr;                // on which they were used last
    const cuda::DeviceEvent* finished = nullptr;  // behind the last use there
    size_t used = 0;                              // bytes of them
    int ticket = -1;
    std::array<cuda::AttentionToFinish, kMost> calls;
    std::array<uint32_t, kMost> at;  // indices into the ticket's calls
    size_t count = 0;
  };

  Status MakeAll();
  bool Check(const Status& status) noexcept;
  Lane* TakeLane(cuda::Stream stream) noexcept;
  bool Enter(const cuda::DeviceGuard& guard) noexcept;
  // Bytes of all results: of each head attention, rounding in forward, rounding in backward.
  size_t ResultBytes() const {
    return heads_ * (sizeof(kernels::AttentionHeadStats) + 2 * sizeof(kernels::RoundingHeadStats));
  }
  kernels::AttentionHeadStats* AttentionIn(void* results, size_t layer) const;
  kernels::RoundingHeadStats* RoundingIn(void* results, size_t layer, bool backward) const;
  void* Replayed(const Ticket& ticket) const { return ticket.host.as<unsigned char>() + ResultBytes(); }
  // flags: as flags_, or null. partials: not empty: attention is left to FinishCalls, with these.
  kernels::KernelStatus Launch(void* results, const uint32_t* flags, size_t layer, bool backward,
                               const kernels::RoundingProblem& problem, Wanted wanted,
                               kernels::Workspace scratch, kernels::Workspace partials, cuda::Stream stream,
                               Asked* asked) noexcept;
  bool RaiseFlags(size_t first, size_t count) noexcept;
  // Memory for the partial results of the ticket's call `at`; empty after a failure.
  kernels::Workspace RoomForPartials(int ticket, uint32_t at, size_t bytes) noexcept;
  // Calls that wait are not to be had any more.
  void ForgetWaiting() noexcept;

  const int device_;
  std::vector<size_t> first_head_;  // of each layer
  size_t heads_ = 0;
  std::vector<Ticket> tickets_;
  std::array<Lane, kLanes> lanes_;
  Waiting waiting_;
  uint64_t uses_ = 0;
  cuda::Stream run_stream_ = nullptr;
  cuda::DeviceBuffer flags_;          // a word for attention, then one a layer for rounding
  cuda::DeviceBuffer graph_results_;  // laid out as a ticket's
  std::vector<Captured> captured_;    // [layer][forward, backward]
  std::vector<cuda::DeviceBuffer> graph_scratch_;
  bool has_captured_ = false, flag_up_ = false, was_behind_ = false, timed_ = true;
  std::string failure_;
  bool told_ = false;
};

}  // namespace foreshock::sdk
