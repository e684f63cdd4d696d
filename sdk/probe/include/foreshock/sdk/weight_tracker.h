// Follows W_Q and W_K of every layer over the steps: spectra when asked, growth along the frozen singular
// pairs after single optimizer steps.
//
// Calls within step t, in this order:
//   BeginStep(spectra, track, slot)  weights are W_t: spectra (if asked) go into the slot, r_i(t) is made
//   ready EndStep(...)                     weights are W_{t+1}: closes c_i(t), or leaves it out when skipped
//   Report(slot)                     writes the window's sums and begins the next window
//
// A sharded layer (FSDP2) is whole only during the forward pass: then Unsharded takes its spectra, and every
// rank derives the same pairs. r_i is read from the rank's own shard, and Report writes each step's partial
// c_i with a hash of the pairs instead of sums, because signs mean something only after the server has added
// all shards.
//
// Pairs taken at t come into use after step t: so one window is measured along one pair from end to end, and
// the frame of t closes the window that began at the last frame with spectra.
//
// Weights in a GPU's memory are measured there, all layers of a device at once, on the device's stream
// (SetStream). What Report finds for them comes later: the frame carries a ticket, and Complete writes it
// once Ready says so.
//
// One thread at a time. After the constructor nothing allocates, and nothing ever waits for a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/layer_spec.h"
#include "foreshock/sdk/tracker_failure.h"
#include "foreshock/sdk/update_accumulator.h"
#include "foreshock/sdk/weight_probe.h"

namespace foreshock::sdk {

// Heads of one side (W_Q or W_K) of one layer whose weights this replica measures.
class ProjectionTracker {
 public:
  // heads: local indices. `d_model` and `d_head` of the layer. `partial_room`: single steps of a shard's
  // window that are kept; 0: not sharded.
  ProjectionTracker(std::vector<uint32_t> heads, int64_t d_model, int64_t d_head, uint32_t partial_room = 0);

  size_t count() const { return heads_.size(); }
  const std::vector<uint32_t>& heads() const { return heads_; }
  void SetViews(const LayerSpec& spec, const ProjectionSpec& projection);
  // The whole parameter of a shard is at `data` for a while.
  void PointAt(const LayerSpec& spec, const void* data) noexcept;
  const kernels::WeightView* views() const { return views_.data(); }

  // Where ProbeWeights puts the new pairs.
  float* next_u() { return next_u_.data(); }
  float* next_v() { return next_v_.data(); }
  const float* u(size_t i) const { return u_.data() + i * kernels::kPairs * static_cast<size_t>(d_model_); }
  const float* v(size_t i) const { return v_.data() + i * kernels::kPairs * static_cast<size_t>(d_head_); }
  bool has_pairs() const { return has_pairs_; }

  // New pairs are there. The first ones come into use at once.
  void PairsTaken() noexcept;
  // Makes r_i of the present weights the start of the next difference, unless it is already.
  void OpenStep() noexcept;
  // The optimizer ran (counted: OpenStep was called) or did not; new pairs come into use.
  void CloseStep(int64_t step, bool counted, bool skipped, double decay) noexcept;
  void Invalidate() noexcept;

  // The window's sums of measured head i, then zeroes them.
  kernels::UpdateSums Take(size_t i) noexcept;
  // The same, and keeps them.
  kernels::UpdateSums Peek(size_t i) const noexcept;

  // A shard's window: its single steps, oldest first; of head i the c of pair p at these steps, and the hash
  // of the pairs that they were taken along. Fewer than it counted (0) when they did not fit.
  uint32_t partial_count() const { return partial_lost_ ? 0 : partial_count_; }
  int64_t partial_step(uint32_t k) const { return partial_steps_[k]; }
  const double* partial(size_t i, int p) const {
    return partial_c_.data() + (i * kernels::kPairs + static_cast<size_t>(p)) * partial_room_;
  }
  uint64_t partial_hash(size_t i) const { return window_hash_[i]; }
  void EndPartialWindow() noexcept { partial_count_ = 0, partial_lost_ = false; }

 private:
  void Project(double* r) noexcept;
  void AdoptNext() noexcept;
  void KeepPartial(int64_t step) noexcept;

  std::vector<uint32_t> heads_;
  int64_t d_model_, d_head_;
  const ProjectionSpec* projection_ = nullptr;  // of a shard
  std::vector<kernels::WeightView> views_;
  std::vector<float> u_, v_, next_u_, next_v_;
  std::vector<double> r_, r_next_;
  std::vector<kernels::UpdateAccumulator> accumulators_;
  std::vector<kernels::UpdateSums> window_;
  std::vector<HeadPart> parts_;  // of a shard, one a head; empty: not sharded
  uint32_t partial_room_ = 0, partial_count_ = 0;
  bool partial_lost_ = false;
  std::vector<double> partial_c_;
  std::vector<int64_t> partial_steps_;
  std::vector<uint64_t> hash_, window_hash_;  // of the pairs in use; of those of the present window
  bool has_pairs_ = false;
  bool next_waiting_ = false;
  bool open_ = false;  // r_ is that of the present weights along the present pairs
};

class DeviceWeights;

class WeightTracker {
 public:
  // Copy `replica` of `replicas` measures the heads h with h % replicas == replica. `layers` and `layout`
  // must outlive this.
  WeightTracker(const std::vector<LayerSpec>& layers, const FrameLayout& layout, uint32_t replica,
                uint32_t replicas);
  ~WeightTracker();

  // The layer's memory moved: views are built anew.
  void SetViews(size_t layer_index, const LayerSpec& spec);

  void BeginStep(int64_t step, bool spectra, bool track, FrameSlot* slot) noexcept;
  // A sharded layer whose spectra are due and have not been taken in this step.
  bool WantsUnsharded(size_t layer_index) const noexcept;
  // Its whole parameters are at wq and wk now (where ProjectionSpec::data would point).
  void Unsharded(size_t layer_index, const LayerSpec& spec, const void* wq, const void* wk,
                 FrameSlot* slot) noexcept;
  // learning_rate 0 where it is not known.
  void EndStep(bool skipped, double learning_rate) noexcept;
  void Report(FrameSlot* slot) noexcept;
  // The weights were replaced: everything starts anew at the next spectra.
  void Invalidate() noexcept;

  // The stream on which the weights of a device are read; the default stream until then. Between steps.
  void SetStream(int device, void* stream);
  // Devices owe nothing for this frame any more, or have failed.
  bool Ready(const FrameSlot& slot) noexcept;
  // Writes what the devices found. give_up: they are not waited for, what is not there stays missing.
  void Complete(FrameSlot* slot, bool give_up) noexcept;
  // Devices that could not be set up, or failed since the last call.
  std::vector<TrackerFailure> TakeFailures();
  // Device time of the last known spectra, and of one reading of the projections.
  double device_spectra_nanos() const noexcept;
  double device_projection_nanos() const noexcept;

  // Pairs now in use of a local head, where the weights are in host memory: kPairs vectors each, one after
  // the other; false while there are none, or when another replica measures that head.
  bool Pairs(size_t layer_index, bool key_side, uint32_t local_head, const float** u,
             const float** v) const noexcept;

 private:
  struct Layer;
  void ProbeLayer(Layer& layer, FrameSlot* slot) noexcept;

  const FrameLayout& layout_;
  DeviceWeights& OnDevice(int device);
  void AddToDevice(Layer& layer, const LayerSpec& spec, const std::vector<uint32_t>& q_heads,
                   const std::vector<uint32_t>& k_heads);

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::unique_ptr<DeviceWeights>> devices_;
  std::vector<TrackerFailure> failures_;
  std::vector<unsigned char> workspace_;
  int64_t step_ = 0;
  bool tracking_ = false;
};

}  // namespace foreshock::sdk
