// Follows W_Q and W_K of every layer over the steps: spectra when asked, growth along the frozen singular
// pairs after single optimizer steps.
//
// Calls within step t, in this order:
//   BeginStep(spectra, track, slot)  weights are W_t: spectra (if asked) go into the slot, r_i(t) is made
//   ready EndStep(...)                     weights are W_{t+1}: closes c_i(t), or leaves it out when skipped
//   Report(slot)                     writes the window's sums and begins the next window
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
  // heads: local indices. `d_model` and `d_head` of the layer.
  ProjectionTracker(std::vector<uint32_t> heads, int64_t d_model, int64_t d_head);

  size_t count() const { return heads_.size(); }
  const std::vector<uint32_t>& heads() const { return heads_; }
  void SetViews(const LayerSpec& spec, const ProjectionSpec& projection);
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
  void CloseStep(bool counted, bool skipped, double decay) noexcept;
  void Invalidate() noexcept;

  // The window's sums of measured head i, then zeroes them.
  kernels::UpdateSums Take(size_t i) noexcept;

 private:
  void Project(double* r) noexcept;
  void AdoptNext() noexcept;

  std::vector<uint32_t> heads_;
  int64_t d_model_, d_head_;
  std::vector<kernels::WeightView> views_;
  std::vector<float> u_, v_, next_u_, next_v_;
  std::vector<double> r_, r_next_;
  std::vector<kernels::UpdateAccumulator> accumulators_;
  std::vector<kernels::UpdateSums> window_;
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

  void BeginStep(bool spectra, bool track, FrameSlot* slot) noexcept;
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
  bool tracking_ = false;
};

}  // namespace foreshock::sdk
