#include "foreshock/sdk/step_sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

namespace foreshock::sdk {
namespace {

uint32_t SampleInterval(const SamplerOptions& options) {
  const uint32_t attention = options.attention_every_steps, spectra = options.spectra_every_steps;
  if (attention == 0 || spectra == 0) return std::max(1u, std::max(attention, spectra));
  return std::min(attention, spectra);
}

// Windows of a shard that the governor stretches up to 4 times fit.
uint32_t PartialRoom(const SamplerOptions& options) {
  const uint64_t steps =
      uint64_t{4} * options.spectra_every_steps / std::max(options.projections_every_steps, 1u);
  return static_cast<uint32_t>(std::clamp<uint64_t>(steps, 16, 512));
}

}  // namespace

void CopyText(const char* text, char* room, size_t room_bytes) noexcept {
  if (room_bytes == 0) return;
  size_t length = text == nullptr ? 0 : strnlen(text, room_bytes);
  if (length >= room_bytes) {
    length = room_bytes - 1;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  if (length > 0) std::memcpy(room, text, length);
  room[length] = '\0';
}

size_t StepSampler::QueueCapacity(const FrameLayout& layout, const SamplerOptions& options) {
  const size_t by_bytes = options.queue_bytes / (layout.SlotBytes() + sizeof(StepRecord));
  return std::max<size_t>(4, std::min<size_t>(options.queue_frames, by_bytes));
}

size_t StepSampler::HeldFrames(const FrameLayout& layout) noexcept {
  const size_t by_bytes = kHeldBytes / std::max<size_t>(layout.SlotBytes(), 1);
  return std::clamp(by_bytes, kLeastHeldFrames, kMostHeldFrames);
}

StepSampler::StepSampler(const std::vector<LayerSpec>& layers, const SamplerOptions& options,
                         const Clock& clock)
    : clock_(clock),
      options_(options),
      layout_(layers, options.snapshot_bytes > 0, PartialRoom(options)),
      weights_(layers, layout_, options.replica, std::max(options.replicas, 1u)),
      snapshot_(layers, layout_, options.replica, std::max(options.replicas, 1u), options.snapshot_bytes),
      attention_(layers, layout_),
      scalars_(layout_, HeldFrames(layout_) + 1),
      governor_(options.budget, SampleInterval(options)),
      queue_(QueueCapacity(layout_, options)) {
  queue_.ForEachSlot([this](StepRecord& record) { record.frame.Shape(layout_); });
  frame_.Shape(layout_);
  held_.resize(HeldFrames(layout_));
  for (FrameSlot& frame : held_) frame.Shape(layout_);
}

uint32_t StepSampler::sampling_interval() const noexcept {
  return SampleInterval(options_) * governor_.sample_factor();
}

// Steps on the grid of multiples; the first step of the process always.
bool StepSampler::Due(int64_t step, uint32_t every, uint32_t factor) const noexcept {
  if (every == 0) return false;
  return first_step_ || step % (static_cast<int64_t>(every) * factor) == 0;
}

void StepSampler::TakeRequest() noexcept {
  const auto take = [](std::atomic<uint32_t>& wish, uint32_t* option) {
    if (wish.load(std::memory_order_relaxed) == 0) return;
    const uint32_t value = wish.exchange(0, std::memory_order_relaxed);
    if (value != 0) *option = std::min(value, 1u << 30);
  };
  take(request_.attention_every_steps, &options_.attention_every_steps);
  take(request_.spectra_every_steps, &options_.spectra_every_steps);
  take(request_.projections_every_steps, &options_.projections_every_steps);
  take(request_.row_every, &options_.row_every);
}

void StepSampler::Begin(int64_t step) noexcept {
  begin_nanos_ = clock_.MonotonicNanos();
  TakeRequest();
  in_step_ = true;
  skipped_ = has_loss_ = false;
  loss_sum_ = loss_tokens_ = device_loss_tokens_ = learning_rate_ = 0;
  step_ = step;
  frame_.Clear();
  frame_.step = step;
  spectra_now_ = Due(step, options_.spectra_every_steps, governor_.sample_factor());
  attention_now_ = Due(step, options_.attention_every_steps, governor_.sample_factor());
  tracked_now_ = options_.spectra_every_steps > 0 &&
                 Due(step, options_.projections_every_steps, governor_.projection_factor());
  if (first_step_) window_from_ = step - 1;
  first_step_ = false;
  weights_.BeginStep(step, spectra_now_, tracked_now_, &frame_);
  if (spectra_now_) snapshot_.Take();
  attention_.BeginStep(step, attention_now_, {options_.row_every, options_.sequence_every, options_.seed});
}

Status StepSampler::Forward(size_t layer, const AttentionCall& call) {
  return in_step_ ? attention_.Forward(layer, call, &frame_) : OkStatus();
}

Status StepSampler::Backward(size_t layer, const AttentionCall& call) {
  return in_step_ ? attention_.Backward(layer, call, &frame_) : OkStatus();
}

void StepSampler::Loss(double mean_loss, double tokens) noexcept {
  if (!in_step_) return;
  has_loss_ = true;
  loss_sum_ += mean_loss * tokens;
  loss_tokens_ += tokens;
}

void StepSampler::Scalar(uint16_t signal, double value) noexcept {
  if (!in_step_) return;
  ColumnWriter(layout_, &frame_, -1, signal).Set(0, value);
  if (signal == kLearningRate) learning_rate_ = std::isfinite(value) ? value : 0;
}

Status StepSampler::LossAt(const void* value, kernels::DType dtype, int device, cuda::Stream stream,
                           double tokens) noexcept {
  if (!in_step_) return OkStatus();
  FS_RETURN_IF_ERROR(scalars_.Add(kLoss, value, dtype, device, stream, tokens));
  device_loss_tokens_ += tokens;
  return OkStatus();
}

Status StepSampler::ScalarAt(uint16_t signal, const void* value, kernels::DType dtype, int device,
                             cuda::Stream stream) noexcept {
  if (!in_step_) return OkStatus();
  // The projections of this step need a rate now: the last one that arrived.
  if (signal == kLearningRate) learning_rate_ = scalars_.learning_rate();
  return scalars_.Add(signal, value, dtype, device, stream, 0);
}

void StepSampler::WriteScalars(int64_t own_nanos) noexcept {
  const auto set = [this](uint16_t signal, double value) {
    ColumnWriter(layout_, &frame_, -1, signal).Set(0, value);
  };
  frame_.scalars_ticket = scalars_.Close(loss_sum_, loss_tokens_);
  if (has_loss_ && loss_tokens_ > 0 && device_loss_tokens_ == 0) {
    ColumnWriter(layout_, &frame_, -1, kLoss).Set(0, loss_sum_ / loss_tokens_, loss_tokens_);
  }
  const double tokens = loss_tokens_ + device_loss_tokens_;
  if (tokens > 0) set(kTokens, tokens);
  set(kStepSeconds, static_cast<double>(clock_.MonotonicNanos() - begin_nanos_) * 1e-9);
  set(kProbeHostSeconds, static_cast<double>(own_nanos) * 1e-9);
  set(kSamplingInterval, sampling_interval());
}

FrameSlot& StepSampler::Finish(int64_t own_nanos, int64_t hidden_nanos) noexcept {
  const int64_t start = clock_.MonotonicNanos();
  device_is_behind_ = held_count_ > 0 && !IsReady(held_[(held_first_ + held_count_ - 1) % held_.size()]);
  attention_.EndStep(&frame_);
  weights_.EndStep(skipped_, learning_rate_);
  frame_.window_from = window_from_;
  frame_.skipped = skipped_;
  frame_.sampled = sampled();
  if (spectra_now_) {
    weights_.Report(&frame_);
    skipped_ ? snapshot_.Drop() : snapshot_.Report(&frame_);
    window_from_ = step_;
  }
  const int64_t now = clock_.MonotonicNanos();
  own_nanos += now - start;
  if (device_is_behind_) hidden_nanos += now - start;
  frame_.time_unix_ns = clock_.WallNanos();
  WriteScalars(own_nanos);
  // Device time is known a few steps later; until then the last known one stands for this step's.
  double device = tracked_now_ ? weights_.device_projection_nanos() : 0;
  if (spectra_now_) device += weights_.device_spectra_nanos();
  if (attention_now_) device += attention_.device_nanos();
  governor_.EndStep(sampled(), tracked_now_, now - begin_nanos_,
                    own_nanos - hidden_nanos + static_cast<int64_t>(device));
  if (options_.device_times != nullptr) AskDeviceTimes(now);
  in_step_ = false;
  return frame_;
}

// Records of kernels arrive in bundles, seconds late: over a window of half a minute that is little. A window
// in which the factors changed says nothing of either.
void StepSampler::AskDeviceTimes(int64_t now_nanos) noexcept {
  constexpr int64_t kWindowNanos = 30'000'000'000;
  const uint32_t samples = governor_.sample_factor(), projections = governor_.projection_factor();
  const bool changed = samples != asked_sample_factor_ || projections != asked_projection_factor_;
  if (!changed && now_nanos - asked_nanos_ < kWindowNanos) return;
  uint64_t own = 0, all = 0;
  options_.device_times(&own, &all);
  if (!changed && all > all_device_nanos_) {
    governor_.Measured(static_cast<double>(own - own_device_nanos_) /
                       static_cast<double>(all - all_device_nanos_));
  }
  asked_nanos_ = now_nanos;
  own_device_nanos_ = own;
  all_device_nanos_ = all;
  asked_sample_factor_ = samples;
  asked_projection_factor_ = projections;
}

void StepSampler::Hold() noexcept {
  // Publish left room: a full ring gives up its oldest.
  std::swap(held_[(held_first_ + held_count_) % held_.size()], frame_);
  ++held_count_;
}

bool StepSampler::IsReady(const FrameSlot& frame) noexcept {
  return scalars_.Ready(frame.scalars_ticket) && weights_.Ready(frame) && attention_.Ready(frame);
}

FrameSlot* StepSampler::Complete(bool give_up) noexcept {
  if (held_count_ == 0) return nullptr;
  FrameSlot& frame = held_[held_first_];
  give_up = give_up || held_count_ == held_.size();
  if (!give_up && !IsReady(frame)) return nullptr;
  weights_.Complete(&frame, give_up);
  attention_.Complete(&frame, give_up);
  scalars_.Write(frame.scalars_ticket, give_up, &frame);
  frame.scalars_ticket = -1;
  if (frame.device_nanos > 0)
    ColumnWriter(layout_, &frame, -1, kProbeDeviceSeconds).Set(0, frame.device_nanos * 1e-9);
  return &frame;
}

void StepSampler::Release() noexcept {
  StepRecord& record = queue_.Slot();
  record.is_event = false;
  std::swap(record.frame, held_[held_first_]);
  queue_.Publish();
  held_first_ = (held_first_ + 1) % held_.size();
  --held_count_;
}

void StepSampler::Drain(int64_t deadline_nanos) noexcept {
  while (held_count_ > 0) {
    const bool give_up = clock_.MonotonicNanos() >= deadline_nanos;
    if (Complete(give_up) != nullptr) {
      Release();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

std::vector<TrackerFailure> StepSampler::TakeFailures() {
  std::vector<TrackerFailure> failures = weights_.TakeFailures();
  for (TrackerFailure& failure : attention_.TakeFailures()) failures.push_back(std::move(failure));
  return failures;
}

void StepSampler::PublishEvent(const EventSlot& event) noexcept {
  StepRecord& record = queue_.Slot();
  record.is_event = true;
  record.event = event;
  queue_.Publish();
}

}  // namespace foreshock::sdk
