// The weights of one device, of all layers that lie there: WeightTracker's work done by cuda::WeightProbe.
//
// A step's change is closed when the next step begins, where no frame goes out between the two: the weights
// are the same, and where that step takes spectra, their pass over W gives r too.
//
// Results come when the device has got to them: Report hands out a ticket, Ready says when its results are
// there, Write puts them into the frame they belong to. One thread at a time; after Make nothing allocates or
// waits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/cuda/weight_probe.h"
#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/layer_spec.h"

namespace foreshock::sdk {

class DeviceWeights {
 public:
  // Frames whose results may be under way at once.
  static constexpr int kTickets = 4;

  // Heads to measure, in the order they are added.
  struct Head {
    size_t layer = 0;   // index
    uint32_t head = 0;  // local
    bool key_side = false;
    bool reported = true;  // false: only another head's qk_sigma1 needs it
  };

  DeviceWeights(int device, const FrameLayout& layout) : device_(device), layout_(layout) {}

  // Before Make. Returns the head's number here.
  int32_t AddHead(const Head& head, const kernels::WeightView& view, double weight_decay);
  void AddPair(int32_t q, int32_t k) { pairs_.push_back({q, k}); }
  Status Make();

  int device() const { return device_; }
  void SetStream(cuda::Stream stream) { stream_ = stream; }
  void SetView(int32_t head, const kernels::WeightView& view);

  void BeginStep(bool spectra, bool track) noexcept;
  void EndStep(bool skipped, double learning_rate) noexcept;
  void Invalidate() noexcept;

  bool Free(int ticket) noexcept;
  // Sends the window's sums and the last spectra on their way; the next window begins.
  void Report(int ticket) noexcept;
  bool Ready(int ticket) noexcept;
  // Writes what is ready and frees the ticket.
  void Write(int ticket, FrameSlot* frame) noexcept;
  // The results are not wanted any more; the ticket is free once they are there.
  void Abandon(int ticket) noexcept { tickets_[static_cast<size_t>(ticket)].abandoned = true; }

  // Device time of a sampled step's spectra, and of one reading of the projections, as last measured.
  double spectra_nanos() const { return spectra_nanos_; }
  double projection_nanos() const { return projection_nanos_; }
  // Why nothing is measured any more; "" while all is well.
  const std::string& failure() const { return failure_; }
  // Whether users were told.
  bool told() const { return told_; }
  void SetTold() { told_ = true; }

 private:
  struct Ticket {
    cuda::PinnedBuffer host;
    cuda::DeviceEvent copied;
    // Spectra began, ended; projection began, ended.
    std::array<cuda::DeviceEvent, 4> times;
    bool used = false, abandoned = false, timed_spectra = false, timed_projection = false;
    bool has_spectra = false;
    bool empty = false;  // nothing was sent on its way
    uint32_t n = 0, skipped = 0;
  };

  bool Check(const Status& status) noexcept;
  void Mark(int which) noexcept;
  bool LeftOut() noexcept;
  void WriteHead(const Head& head, const cuda::DeviceSpectrum& spectrum, const cuda::DeviceUpdates& updates,
                 const Ticket& ticket, FrameSlot* frame) noexcept;

  const int device_;
  const FrameLayout& layout_;
  cuda::Stream stream_ = nullptr;
  std::vector<Head> heads_;
  std::vector<cuda::DeviceHead> device_heads_;  // until Make
  std::vector<cuda::QkPair> pairs_;
  std::unique_ptr<cuda::WeightProbe> probe_;
  std::array<Ticket, kTickets> tickets_;
  Ticket* timing_ = nullptr;  // the ticket that this step's times go to
  std::string failure_;
  bool told_ = false;
  double spectra_nanos_ = 0, projection_nanos_ = 0;
  bool views_changed_ = false;
  bool has_pairs_ = false, next_waiting_ = false, open_ = false, tracking_ = false, spectra_now_ = false;
  // A change that was counted is closed when the next step begins, at the learning rate of its own step.
  bool closing_ = false;
  double closing_rate_ = 0;
  uint32_t n_ = 0, skipped_ = 0;  // of the window
};

}  // namespace foreshock::sdk
