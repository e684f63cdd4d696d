// The calls of a step.
#include <algorithm>
#include <cstddef>

#include "convert.h"
#include "foreshock/sdk/cuda/device.h"
#include "run.h"

using foreshock::Status;
namespace sdk = foreshock::sdk;

namespace {

// Adds the time until its end to a counter, and to another one where it was hidden.
class OwnTime {
 public:
  OwnTime(const foreshock::Clock& clock, int64_t* nanos)
      : clock_(clock), nanos_(nanos), start_(clock.MonotonicNanos()) {}
  ~OwnTime() {
    const int64_t took = clock_.MonotonicNanos() - start_;
    *nanos_ += took;
    if (hidden_ != nullptr) *hidden_ += took;
  }
  void HiddenIf(bool hidden, int64_t* nanos) { hidden_ = hidden ? nanos : nullptr; }

 private:
  const foreshock::Clock& clock_;
  int64_t* nanos_;
  int64_t* hidden_ = nullptr;
  const int64_t start_;
};

fs_status AttentionStatus(const Status& status) {
  return status.code() == foreshock::Code::kResourceExhausted ? FS_ERR_MEMORY : FS_ERR_SHAPE;
}

// Why a call's tensors cannot be measured where they are; null when they can.
const char* WhyNotMeasured(const sdk::AttentionCall& call) {
  if (call.device < 0) return nullptr;
  const foreshock::cuda::Support& support = foreshock::cuda::DriverSupport();
  return support.usable ? nullptr : support.reason.c_str();
}

// True when the call's stream records a CUDA graph. A program that knows no streams gives none.
bool IsCaptured(const fs_attention& in) {
  constexpr size_t kStreamEnd = offsetof(fs_attention, stream) + sizeof in.stream;
  return in.size >= kStreamEnd && in.stream != nullptr && foreshock::cuda::DriverSupport().usable &&
         foreshock::cuda::IsCapturing(in.stream);
}

}  // namespace

fs_status fs_run::StepBegin(int64_t step) {
  if (step < 0) return Fail(FS_ERR_ARGUMENT, "step: %lld, must be 0 or more", static_cast<long long>(step));
  const fs_status frozen = Freeze();
  if (frozen != FS_OK) return frozen;
  if (sampler_->in_step()) {
    StepSkipped();
    StepEnd();
  }
  own_in_step_ = hidden_in_step_ = 0;
  OwnTime own(clock_, &own_in_step_);
  own.HiddenIf(sampler_->device_is_behind(), &hidden_in_step_);
  guard_.BeginStep();
  guard_layers_.store(guard_.enabled() ? guard_.active_count() : 0, std::memory_order_relaxed);
  sampler_->Begin(step);
  return FS_OK;
}

bool fs_run::WantsForward(uint32_t layer) const noexcept {
  const int32_t index = IndexOf(layer);
  return index != kUnknown && sampler_ != nullptr && sampler_->WantsForward(static_cast<size_t>(index));
}

bool fs_run::WantsBackward(uint32_t layer) const noexcept {
  const int32_t index = IndexOf(layer);
  return index != kUnknown && sampler_ != nullptr && sampler_->WantsBackward(static_cast<size_t>(index));
}

fs_status fs_run::Forward(uint32_t layer, const fs_attention& in) { return Attend(layer, in, false); }

fs_status fs_run::Backward(uint32_t layer, const fs_attention& in) { return Attend(layer, in, true); }

fs_status fs_run::Attend(uint32_t layer, const fs_attention& in, bool backward) {
  if (IndexOf(layer) == kUnknown) return UnknownLayer(layer);
  // What a graph records is measured at its replays, whichever step this is.
  const bool captured = IsCaptured(in);
  if (!captured && !(backward ? WantsBackward(layer) : WantsForward(layer))) return FS_OK;
  OwnTime own(clock_, &own_in_step_);
  fs_attention attention;
  fs_attention_init(&attention);
  if (!sdk::CopySized(in, &attention)) {
    return Fail(FS_ERR_ARGUMENT, "attention.size: %u, call fs_attention_init first", in.size);
  }
  if (!backward && (!attention.grad_enabled || attention.recompute)) return FS_OK;
  const Status dtypes = sdk::CheckDTypes(attention);
  if (!dtypes.ok()) return Fail(FS_ERR_DTYPE, dtypes);
  const auto index = static_cast<size_t>(IndexOf(layer));
  const sdk::AttentionCall call = sdk::ToCall(attention);
  if (const char* reason = WhyNotMeasured(call)) {
    AttentionUnmonitored(index, reason);
    return FS_OK;
  }
  const Status memory = sdk::CheckMemory(attention, call.device);
  if (!memory.ok()) return Fail(FS_ERR_ARGUMENT, memory);
  if (captured) {
    const Status status = sampler_ == nullptr ? Status(foreshock::Code::kFailedPrecondition,
                                                       "recorded into a CUDA graph before the first step")
                                              : sampler_->Capture(index, backward, call);
    if (status.code() != foreshock::Code::kFailedPrecondition)
      return status.ok() ? FS_OK : Fail(AttentionStatus(status), status);
    AttentionUnmonitored(index, status.message());
    return FS_OK;
  }
  const Status status = backward ? sampler_->Backward(index, call) : sampler_->Forward(index, call);
  own.HiddenIf(sampler_->call_was_hidden(), &hidden_in_step_);
  return status.ok() ? FS_OK : Fail(AttentionStatus(status), status);
}

fs_status fs_run::Unsharded(uint32_t layer, const void* wq, const void* wk) {
  const int32_t index = IndexOf(layer);
  if (index == kUnknown) return UnknownLayer(layer);
  if (!WantsUnsharded(layer)) return FS_OK;
  const OwnTime own(clock_, &own_in_step_);
  const sdk::LayerSpec& spec = layers_[static_cast<size_t>(index)];
  if ((wq == nullptr && spec.wq) || (wk == nullptr && spec.wk)) {
    return Fail(FS_ERR_ARGUMENT, "fs_layer_unsharded: layer %u: %s: null, must point to the whole parameter",
                layer, wq == nullptr && spec.wq ? "wq" : "wk");
  }
  if (foreshock::cuda::DeviceOf(wq) >= 0 || foreshock::cuda::DeviceOf(wk) >= 0) {
    return Fail(FS_ERR_ARGUMENT,
                "fs_layer_unsharded: layer %u: memory of a GPU, must be host memory as shard_data is", layer);
  }
  sampler_->Unsharded(static_cast<size_t>(index), spec, wq, wk);
  return FS_OK;
}

fs_status fs_run::Loss(double mean_loss, double tokens) {
  // NaN tokens would poison the step's weight for good.
  if (!(tokens > 0 && tokens < 1e18)) return Fail(FS_ERR_ARGUMENT, "tokens: %g, must be above 0", tokens);
  if (sampler_ != nullptr) sampler_->Loss(mean_loss, tokens);
  return FS_OK;
}

fs_status fs_run::Scalar(fs_scalar_id id, double value) {
  if (id != FS_GRAD_NORM && id != FS_LEARNING_RATE && id != FS_LOSS_SCALE) {
    return Fail(FS_ERR_ARGUMENT, "scalar: %d, not one of fs_scalar_id", static_cast<int>(id));
  }
  if (sampler_ != nullptr) sampler_->Scalar(static_cast<uint16_t>(id), value);
  return FS_OK;
}

// Ok, and `device` filled in; or what is wrong with the number.
fs_status fs_run::FindNumber(const char* name, NumberAt* number) const {
  if (number->value == nullptr) return Fail(FS_ERR_ARGUMENT, "%s: null", name);
  if (!foreshock::kernels::IsKnown(static_cast<foreshock::kernels::DType>(number->dtype))) {
    return Fail(FS_ERR_DTYPE, "%s.dtype: %d, not one of fs_dtype", name, static_cast<int>(number->dtype));
  }
  if (number->device < 0) number->device = foreshock::cuda::DeviceOf(number->value);
  return FS_OK;
}

fs_status fs_run::LossAt(NumberAt number, double tokens) {
  const fs_status found = FindNumber("loss", &number);
  if (found != FS_OK) return found;
  const auto dtype = static_cast<foreshock::kernels::DType>(number.dtype);
  if (number.device < 0) return Loss(foreshock::kernels::LoadDouble(number.value, dtype, 0), tokens);
  if (!(tokens > 0 && tokens < 1e18)) return Fail(FS_ERR_ARGUMENT, "tokens: %g, must be above 0", tokens);
  if (sampler_ == nullptr) return FS_OK;
  OwnTime own(clock_, &own_in_step_);
  own.HiddenIf(sampler_->device_is_behind(), &hidden_in_step_);
  return NumberStatus(sampler_->LossAt(number.value, dtype, number.device, number.stream, tokens));
}

fs_status fs_run::ScalarAt(fs_scalar_id id, NumberAt number) {
  const fs_status found = FindNumber("scalar", &number);
  if (found != FS_OK) return found;
  const auto dtype = static_cast<foreshock::kernels::DType>(number.dtype);
  if (number.device < 0) return Scalar(id, foreshock::kernels::LoadDouble(number.value, dtype, 0));
  if (id != FS_GRAD_NORM && id != FS_LEARNING_RATE && id != FS_LOSS_SCALE) {
    return Fail(FS_ERR_ARGUMENT, "scalar: %d, not one of fs_scalar_id", static_cast<int>(id));
  }
  if (sampler_ == nullptr) return FS_OK;
  OwnTime own(clock_, &own_in_step_);
  own.HiddenIf(sampler_->device_is_behind(), &hidden_in_step_);
  return NumberStatus(
      sampler_->ScalarAt(static_cast<uint16_t>(id), number.value, dtype, number.device, number.stream));
}

// Numbers that cannot be read are missing. Why is said once, as for everything that is not measured.
fs_status fs_run::NumberStatus(const Status& status) {
  if (status.ok()) return FS_OK;
  if (status.code() == foreshock::Code::kResourceExhausted) return Fail(FS_ERR_LIMIT, status);
  if (!numbers_told_) Unmonitored("loss and scalars on a device", status.message().c_str());
  numbers_told_ = true;
  return FS_OK;
}

fs_status fs_run::StepSkipped() {
  if (sampler_ == nullptr || !sampler_->in_step())
    return Fail(FS_ERR_STATE, "fs_step_skipped: no step has begun");
  sampler_->Skipped();
  return FS_OK;
}

fs_status fs_run::StepEnd() {
  if (sampler_ == nullptr || !sampler_->in_step())
    return Fail(FS_ERR_STATE, "fs_step_end: no step has begun");
  const int64_t before = own_in_step_;
  int64_t at_end = 0;
  {
    const OwnTime own(clock_, &at_end);
    const bool sampled = sampler_->sampled();
    last_step_ = sampler_->step();
    MarkGuardedLayers(sampler_->Finish(before, hidden_in_step_));
    sampler_->Publish([this](sdk::FrameSlot& frame) {
      if (frame.sampled) ObserveFrame(frame);
    });
    FlushEvents();
    TellFailures();
    CollectActions();
    steps_.fetch_add(1, std::memory_order_relaxed);
    if (sampled) sampled_steps_.fetch_add(1, std::memory_order_relaxed);
    sampling_interval_.store(sampler_->sampling_interval(), std::memory_order_relaxed);
  }
  own_nanos_.fetch_add(static_cast<uint64_t>(before + at_end), std::memory_order_relaxed);
  return FS_OK;
}
