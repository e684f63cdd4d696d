// Statistics of one attention call per layer and sampled step, from the trainer's tensors into a frame slot.
//
// Of a step's calls the first forward of a layer that is grad-enabled and not recomputed counts, and the
// first backward of the same micro-batch. Rounding signals are measured once a sample: in the backward of
// layers that have shown they call it, else in the forward.
//
// Calls whose tensors lie on a CUDA device are measured there, on the call's stream. What they find comes
// later: the frame carries a ticket, and Complete writes it once Ready says so. The tensors must stay as they
// are in the order of that stream, not of the host.
//
// On a device layers take turns with the rounding signals, the dearest (RoundingTurns).
//
// One thread at a time. Allocates only at the first call on a device, and when a call needs a larger
// workspace than every one before it; nothing ever waits for a device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/layer_spec.h"
#include "foreshock/sdk/rounding_probe.h"
#include "foreshock/sdk/rounding_turns.h"
#include "foreshock/sdk/tracker_failure.h"

namespace foreshock::sdk {

// What a trainer hands over: tensors, masks and positions of one call. Scale, soft-cap and window come from
// the layer, and causality where the call does not say.
struct AttentionCall {
  kernels::RoundingProblem problem;
  bool grad_enabled = true;
  bool recompute = false;
  uint32_t micro_batch = 0;
  int device = -1;         // the CUDA device of the tensors; -1: host memory
  void* stream = nullptr;  // on a device: where they are ready
  std::optional<bool> causal;
};

struct RowRule {
  uint32_t row_every = 8;
  uint32_t sequence_every = 1;
  uint64_t seed = 0;
};

class DeviceAttention;

class AttentionWatch {
 public:
  AttentionWatch(const std::vector<LayerSpec>& layers, const FrameLayout& layout);
  ~AttentionWatch();

  // Opens (sampled) or skips the step. The rows visited follow from rule.seed and the step alone.
  void BeginStep(int64_t step, bool sampled, const RowRule& rule) noexcept;

  bool WantsForward(size_t layer) const noexcept { return sampled_ && !state_[layer].forward_done; }
  // False too where a device's layer is not in turn: its backward would find nothing more.
  bool WantsBackward(size_t layer) const noexcept {
    const LayerState& state = state_[layer];
    const bool waits = state.on_device && state.calls_backward && !turns_.Has(layer);
    return sampled_ && state.forward_done && !state.backward_done && !waits;
  }

  // Ok too when the call is not the one to sample. kInvalidArgument names field, value and limit.
  Status Forward(size_t layer, const AttentionCall& call, FrameSlot* slot);
  Status Backward(size_t layer, const AttentionCall& call, FrameSlot* slot);
  // A call on a stream that is being captured, at any time: becomes part of the graph, and measures at its
  // replays within sampled steps, the rows that the last sampled step would have visited. Allocates.
  // kFailedPrecondition before the first sampled step.
  Status Capture(size_t layer, bool backward, const AttentionCall& call);
  // Where graphs of a device are replayed, or what is ordered with that; the default stream until then.
  void SetStream(int device, void* stream);
  // The step's last call: sends on their way what replays found.
  void EndStep(FrameSlot* slot) noexcept;

  // Devices owe nothing for this frame any more, or have failed.
  bool Ready(const FrameSlot& slot) noexcept;
  // Writes what the devices found. give_up: they are not waited for, what is not there stays missing.
  void Complete(FrameSlot* slot, bool give_up) noexcept;
  // Devices that failed, and layers that could not be measured there, since the last call.
  std::vector<TrackerFailure> TakeFailures();
  // The last Forward or Backward enqueued its work while the device was still busy with that of the call
  // before: what it took on the host the device's queue hides.
  bool call_was_hidden() const noexcept { return call_was_hidden_; }
  // Device time of the last sampled step that is known; 0 where nothing lies on a device.
  double device_nanos() const noexcept { return device_nanos_; }

  // logit_max of the layer's last sample, one per local query head; NaN where nothing was measured.
  const std::vector<float>& last_logit_max(size_t layer) const { return state_[layer].last_logit_max; }

 private:
  struct LayerState {
    bool forward_done = false;
    bool backward_done = false;
    bool calls_backward = false;  // seen in an earlier sample
    bool on_device = false;       // the last forward
    bool bad_sequences = false, sequences_told = false, rounding_told = false;
    uint32_t micro_batch = 0;
    std::vector<float> last_logit_max;
  };
  static constexpr int kTickets = 4;  // sampled frames whose results may be under way at once
  enum class TicketUse : uint8_t { kFree, kWaits, kAbandoned };

  static Status FromKernel(const LayerSpec& spec, kernels::KernelStatus status);
  Status CheckShapes(const LayerSpec& spec, const kernels::RoundingProblem& problem, bool backward) const;
  // The call's problem, with what the layer and the step say of it.
  kernels::RoundingProblem ProblemOf(const LayerSpec& spec, const AttentionCall& call,
                                     bool backward) const noexcept;
  Status Reserve(size_t bytes);
  Status ProbeRounding(size_t layer, const kernels::RoundingProblem& problem, FrameSlot* slot);
  Status ProbeOnDevice(size_t layer, bool backward, const AttentionCall& call,
                       const kernels::RoundingProblem& problem, bool rounding, FrameSlot* slot);
  DeviceAttention* OnDevice(int device);
  int TakeTicket() noexcept;
  bool TicketReady(int ticket) noexcept;
  void FreeTicket(int ticket) noexcept;
  void WriteFound(DeviceAttention& device, int ticket, FrameSlot* slot) noexcept;
  void KeepLogits(size_t layer, const kernels::AttentionHeadStats* heads) noexcept;
  bool RoundingFits(size_t layer, const kernels::RoundingProblem& problem);

  const std::vector<LayerSpec>& layers_;
  const FrameLayout& layout_;
  std::vector<LayerState> state_;
  std::vector<kernels::AttentionHeadStats> attention_;  // as many as the widest layer has heads
  std::vector<kernels::RoundingHeadStats> rounding_;
  std::vector<unsigned char> workspace_;
  std::vector<std::unique_ptr<DeviceAttention>> devices_;
  std::vector<std::pair<int, void*>> streams_;  // by device
  std::array<TicketUse, kTickets> tickets_{};
  std::vector<TrackerFailure> failures_;
  double device_nanos_ = 0;
  RoundingTurns turns_;
  int64_t last_sample_ = 0;  // step
  kernels::RowSampling sampling_;
  // Events cost the device time, so where samples come closer device time is not taken of each.
  static constexpr int64_t kStepsBetweenTimes = 7;
  int64_t last_timed_ = -1;  // step; -1: none
  bool timed_ = true;
  bool sampled_ = false;
  bool ever_sampled_ = false;
  bool call_was_hidden_ = false;
};

}  // namespace foreshock::sdk
