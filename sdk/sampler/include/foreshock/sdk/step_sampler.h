// Turns the calls of a training step into one frame: which step is sampled, what is measured in it, what the
// governor allows, and the hand-over to the background thread.
//
// One call at a time (the trainer's thread). After the second sampled step nothing allocates; no call locks
// or makes a system call other than reading the clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/drop_oldest_queue.h"
#include "foreshock/sdk/attention_watch.h"
#include "foreshock/sdk/device_scalars.h"
#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/governor.h"
#include "foreshock/sdk/update_snapshot.h"
#include "foreshock/sdk/weight_tracker.h"

namespace foreshock::sdk {

inline constexpr size_t kMaxDetailBytes = 1000;

// Something that happened, in fixed room. Kinds and states are the wire's numbers.
struct EventSlot {
  int64_t step = 0;
  int64_t time_unix_ns = 0;
  uint8_t kind = 0;
  uint8_t action_state = 0;
  bool has_logits = false;
  float logit_before = 0, logit_after = 0;
  uint32_t layer_count = 0;  // 0: all
  uint32_t layers[256] = {};
  char action_id[80] = "";
  char action[32] = "";
  char detail[kMaxDetailBytes + 1] = "";
};

// What travels to the background thread.
struct StepRecord {
  bool is_event = false;
  FrameSlot frame;
  EventSlot event;
};
using StepQueue = BoundedDropOldestQueue<StepRecord>;

struct SamplerOptions {
  uint32_t attention_every_steps = 10;
  uint32_t spectra_every_steps = 10;
  uint32_t projections_every_steps = 1;
  uint32_t row_every = 8;
  uint32_t sequence_every = 1;
  double budget = 0.004;
  uint64_t seed = 0;
  uint32_t replica = 0;
  uint32_t replicas = 1;
  uint32_t queue_frames = 256;
  uint64_t queue_bytes = 64u << 20;
  uint64_t snapshot_bytes = 0;  // 0: no copies of weights, and no signals that need one
  // Device time so far, of Foreshock's kernels and of all, where somebody measures it (CUPTI); it must not
  // block. Null: nobody does.
  void (*device_times)(uint64_t* own_nanos, uint64_t* all_nanos) = nullptr;
};

// Changes that arrive from outside; 0: as it is. Written by one thread, read by another.
struct SamplingRequest {
  std::atomic<uint32_t> attention_every_steps{0};
  std::atomic<uint32_t> spectra_every_steps{0};
  std::atomic<uint32_t> projections_every_steps{0};
  std::atomic<uint32_t> row_every{0};
};

// Copies text into fixed room, cut at a UTF-8 boundary. Null counts as empty.
void CopyText(const char* text, char* room, size_t room_bytes) noexcept;

class StepSampler {
 public:
  // `layers` and `clock` must outlive this.
  StepSampler(const std::vector<LayerSpec>& layers, const SamplerOptions& options, const Clock& clock);

  const FrameLayout& layout() const { return layout_; }
  StepQueue& queue() { return queue_; }
  QueueCounters queue_counters() const { return queue_.Counters(); }
  SamplingRequest& request() { return request_; }
  // Weights were replaced: directions, windows and copies start anew.
  void InvalidateWeights() noexcept {
    weights_.Invalidate();
    snapshot_.Drop();
  }
  WeightTracker& weights() { return weights_; }
  const WeightTracker& weights() const { return weights_; }
  const AttentionWatch& attention() const { return attention_; }
  // What devices could not measure, since the last call.
  std::vector<TrackerFailure> TakeFailures();
  const Governor& governor() const { return governor_; }

  bool in_step() const { return in_step_; }
  int64_t step() const { return step_; }
  bool sampled() const { return spectra_now_ || attention_now_; }
  // Steps between sampled steps as it is now.
  uint32_t sampling_interval() const noexcept;

  void Begin(int64_t step) noexcept;
  bool WantsForward(size_t layer) const noexcept { return in_step_ && attention_.WantsForward(layer); }
  bool WantsBackward(size_t layer) const noexcept { return in_step_ && attention_.WantsBackward(layer); }
  // A sharded layer whose whole parameters are wanted in this step's forward pass.
  bool WantsUnsharded(size_t layer) const noexcept { return in_step_ && weights_.WantsUnsharded(layer); }
  void Unsharded(size_t layer, const LayerSpec& spec, const void* wq, const void* wk) noexcept {
    if (in_step_) weights_.Unsharded(layer, spec, wq, wk, &frame_);
  }
  Status Forward(size_t layer, const AttentionCall& call);
  Status Backward(size_t layer, const AttentionCall& call);
  // A call on a stream that is being captured; in a step or not. See AttentionWatch.
  Status Capture(size_t layer, bool backward, const AttentionCall& call) {
    return attention_.Capture(layer, backward, call);
  }
  // The stream on which weights are read and graphs are replayed. Between steps.
  void SetStream(int device, void* stream) {
    weights_.SetStream(device, stream);
    attention_.SetStream(device, stream);
  }
  void Loss(double mean_loss, double tokens) noexcept;
  void Scalar(uint16_t signal, double value) noexcept;
  // The same of a number on a device, which is read when the device gets there (device_scalars.h). tokens: of
  // a loss.
  Status LossAt(const void* value, kernels::DType dtype, int device, cuda::Stream stream,
                double tokens) noexcept;
  Status ScalarAt(uint16_t signal, const void* value, kernels::DType dtype, int device,
                  cuda::Stream stream) noexcept;
  void Skipped() noexcept { skipped_ = true; }
  // Completes the frame as far as the host can and returns it; Publish hands it over. own_nanos: time spent
  // in Foreshock since Begin; hidden_nanos: the part of it that a device's queue hides, which is no cost (a
  // call that launches waits there until the queue has room).
  FrameSlot& Finish(int64_t own_nanos, int64_t hidden_nanos = 0) noexcept;
  // At the last Finish a device was more than a step behind the host: the host's time around it is hidden.
  bool device_is_behind() const noexcept { return device_is_behind_; }
  // The same of the last Forward or Backward, by the calls of attention.
  bool call_was_hidden() const noexcept { return attention_.call_was_hidden(); }
  // Hands over the finished frame and those before it, in order, as soon as devices owe them nothing: a frame
  // waits for at most 16 to 64 steps (as memory allows), then goes without what is missing. `observe` sees
  // every complete frame just before it goes.
  template <typename Fn>
  void Publish(Fn&& observe) noexcept {
    Hold();
    while (FrameSlot* frame = Complete(false)) {
      observe(*frame);
      Release();
    }
  }
  void Publish() noexcept {
    Publish([](FrameSlot&) {});
  }
  // Hands over everything, waiting for devices until the monotonic time `deadline_nanos`. May sleep: for the
  // end.
  void Drain(int64_t deadline_nanos) noexcept;

  // An event record to fill; PublishEvent hands it over. Not between Finish and Publish. Within a step it
  // goes ahead of the step's frame.
  void PublishEvent(const EventSlot& event) noexcept;

 private:
  // Steps that a frame may wait for a device.
  static constexpr size_t kLeastHeldFrames = 16, kMostHeldFrames = 64;
  static constexpr size_t kHeldBytes = 16u << 20;  // beyond kLeastHeldFrames
  static size_t HeldFrames(const FrameLayout& layout) noexcept;

  void Hold() noexcept;
  // Devices owe the frame nothing any more.
  bool IsReady(const FrameSlot& frame) noexcept;
  // The oldest held frame, completed; null when there is none or it has to wait. give_up: it waits no more.
  FrameSlot* Complete(bool give_up) noexcept;
  void Release() noexcept;
  static size_t QueueCapacity(const FrameLayout& layout, const SamplerOptions& options);
  bool Due(int64_t step, uint32_t every, uint32_t factor) const noexcept;
  void TakeRequest() noexcept;
  void WriteScalars(int64_t own_nanos) noexcept;
  // Tells the governor what the device's own records say, now and then.
  void AskDeviceTimes(int64_t now_nanos) noexcept;

  const Clock& clock_;
  SamplerOptions options_;
  FrameLayout layout_;
  WeightTracker weights_;
  UpdateSnapshot snapshot_;
  AttentionWatch attention_;
  DeviceScalars scalars_;
  Governor governor_;
  SamplingRequest request_;
  StepQueue queue_;
  FrameSlot frame_;              // the step's
  std::vector<FrameSlot> held_;  // a ring: finished, swapped into the queue when complete
  size_t held_first_ = 0, held_count_ = 0;

  bool in_step_ = false;
  bool first_step_ = true;
  bool spectra_now_ = false, attention_now_ = false, tracked_now_ = false;
  bool skipped_ = false;
  bool device_is_behind_ = false;
  int64_t step_ = 0;
  int64_t begin_nanos_ = 0;
  int64_t window_from_ = 0;
  double loss_sum_ = 0, loss_tokens_ = 0;
  bool has_loss_ = false;
  double device_loss_tokens_ = 0;
  double learning_rate_ = 0;
  // When device_times was asked last, what it said, and the factors since.
  int64_t asked_nanos_ = 0;
  uint64_t own_device_nanos_ = 0, all_device_nanos_ = 0;
  uint32_t asked_sample_factor_ = 0, asked_projection_factor_ = 0;
};

}  // namespace foreshock::sdk
