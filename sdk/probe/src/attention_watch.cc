#include "foreshock/sdk/attention_watch.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "attention_columns.h"
#include "device_attention.h"

namespace foreshock::sdk {

using kernels::AttentionHeadStats;
using kernels::KernelStatus;
using kernels::RoundingHeadStats;
using kernels::TensorView;

namespace {

Status Bad(const LayerSpec& spec, const std::string& field, const std::string& value,
           const std::string& limit) {
  return Status(Code::kInvalidArgument,
                "layer " + std::to_string(spec.layer) + ": " + field + ": " + value + ", " + limit);
}

// dim 0: any. like: has the same batch and sequence length; null: any.
Status CheckTensor(const LayerSpec& spec, const char* name, const TensorView& tensor, uint32_t heads,
                   int64_t dim, const TensorView* like = nullptr) {
  const std::string field(name);
  if (tensor.data == nullptr) return Bad(spec, field + ".data", "null", "must point to the tensor");
  if (tensor.heads != heads) {
    return Bad(spec, field + ".heads", std::to_string(tensor.heads),
               "this rank's are " + std::to_string(heads));
  }
  if (dim > 0 && tensor.dim != dim) {
    return Bad(spec, field + ".dim", std::to_string(tensor.dim), "must be " + std::to_string(dim));
  }
  if (like != nullptr && (tensor.batch != like->batch || tensor.seq != like->seq)) {
    return Bad(spec, field + " [batch, seq]",
               "[" + std::to_string(tensor.batch) + ", " + std::to_string(tensor.seq) + "]",
               "must be [" + std::to_string(like->batch) + ", " + std::to_string(like->seq) + "]");
  }
  return OkStatus();
}

}  // namespace

AttentionWatch::AttentionWatch(const std::vector<LayerSpec>& layers, const FrameLayout& layout)
    : layers_(layers), layout_(layout), state_(layers.size()), turns_(layers.size()) {
  size_t heads = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    heads = std::max<size_t>(heads, layers[i].local_query_heads);
    state_[i].last_logit_max.assign(layers[i].local_query_heads, std::numeric_limits<float>::quiet_NaN());
  }
  attention_.resize(heads);
  rounding_.resize(heads);
}

AttentionWatch::~AttentionWatch() {
  for (auto& device : devices_) {
    if (!device->Idle()) (void)device.release();
  }
}

Status AttentionWatch::FromKernel(const LayerSpec& spec, KernelStatus status) {
  if (status == KernelStatus::kOk) return OkStatus();
  return Status(Code::kInvalidArgument,
                "layer " + std::to_string(spec.layer) + ": attention: " + kernels::KernelStatusName(status));
}

void AttentionWatch::BeginStep(int64_t step, bool sampled, const RowRule& rule) noexcept {
  sampled_ = sampled;
  if (!sampled) return;
  ever_sampled_ = true;
  turns_.Next(step - last_sample_);
  last_sample_ = step;
  timed_ = last_timed_ < 0 || step < last_timed_ || step - last_timed_ >= kStepsBetweenTimes;
  if (timed_) last_timed_ = step;
  for (auto& device : devices_) {
    device->SetTimed(timed_);
    device->BeginStep(turns_.first(), turns_.count());
  }
  for (LayerState& state : state_) {
    state.calls_backward = state.calls_backward || state.backward_done;
    state.forward_done = state.backward_done = false;
  }
  const auto at = static_cast<uint64_t>(step);
  sampling_.row_every = static_cast<int32_t>(rule.row_every);
  sampling_.row_offset = kernels::SampleOffset(rule.seed, at, sampling_.row_every);
  sampling_.sequence_every = static_cast<int32_t>(rule.sequence_every);
  sampling_.sequence_offset = kernels::SampleOffset(~rule.seed, at, sampling_.sequence_every);
}

Status AttentionWatch::CheckShapes(const LayerSpec& spec, const kernels::RoundingProblem& problem,
                                   bool backward) const {
  const TensorView& q = problem.attention.q;
  const TensorView& k = problem.attention.k;
  FS_RETURN_IF_ERROR(CheckTensor(spec, "q", q, spec.local_query_heads, spec.head_dim));
  FS_RETURN_IF_ERROR(CheckTensor(spec, "k", k, spec.local_kv_heads, spec.head_dim));
  if (k.batch != q.batch) {
    return Bad(spec, "k.batch", std::to_string(k.batch), "q has " + std::to_string(q.batch));
  }
  const bool rounding = problem.v.data != nullptr && problem.o.data != nullptr;
  if (rounding) {
    FS_RETURN_IF_ERROR(CheckTensor(spec, "v", problem.v, spec.local_kv_heads, 0, &k));
    FS_RETURN_IF_ERROR(CheckTensor(spec, "o", problem.o, spec.local_query_heads, problem.v.dim, &q));
  }
  if (!backward) return OkStatus();
  if (!rounding) return Bad(spec, "v.data or o.data", "null", "backward needs q, k, v and o again");
  FS_RETURN_IF_ERROR(CheckTensor(spec, "d_o", problem.d_o, spec.local_query_heads, problem.v.dim, &q));
  if (problem.dq.data == nullptr) return OkStatus();
  return CheckTensor(spec, "dq", problem.dq, spec.local_query_heads, spec.head_dim, &q);
}

kernels::RoundingProblem AttentionWatch::ProblemOf(const LayerSpec& spec, const AttentionCall& call,
                                                   bool backward) const noexcept {
  kernels::RoundingProblem problem = call.problem;
  if (!backward) problem.d_o = problem.dq = TensorView();
  problem.attention.scale = spec.scale;
  problem.attention.softcap = spec.softcap;
  problem.attention.causal = call.causal.value_or(spec.causal);
  problem.attention.window_left = spec.window_left;
  problem.attention.window_right = spec.window_right;
  problem.attention.sampling = sampling_;
  return problem;
}

Status AttentionWatch::Reserve(size_t bytes) {
  if (bytes <= workspace_.size()) return OkStatus();
  try {
    workspace_.resize(bytes);
  } catch (const std::exception&) {
    return Status(Code::kResourceExhausted,
                  "attention workspace: " + std::to_string(bytes) + " bytes, no memory");
  }
  return OkStatus();
}

Status AttentionWatch::Forward(size_t layer, const AttentionCall& call, FrameSlot* slot) {
  call_was_hidden_ = false;
  if (!WantsForward(layer) || !call.grad_enabled || call.recompute) return OkStatus();
  const LayerSpec& spec = layers_[layer];
  FS_RETURN_IF_ERROR(CheckShapes(spec, call.problem, false));
  const kernels::RoundingProblem problem = ProblemOf(spec, call, false);
  const bool rounding =
      !state_[layer].calls_backward && problem.v.data != nullptr && problem.o.data != nullptr;
  state_[layer].on_device = call.device >= 0;
  if (call.device >= 0) return ProbeOnDevice(layer, false, call, problem, rounding, slot);
  FS_RETURN_IF_ERROR(Reserve(kernels::ProbeAttentionWorkspaceBytes(problem.attention)));
  const KernelStatus status =
      kernels::ProbeAttention(problem.attention, attention_.data(), {workspace_.data(), workspace_.size()});
  FS_RETURN_IF_ERROR(FromKernel(spec, status));
  state_[layer].forward_done = true;
  state_[layer].micro_batch = call.micro_batch;
  WriteAttention(layout_, slot, static_cast<int32_t>(layer), attention_.data(), spec.local_query_heads,
                 problem.attention.n_sinks > 0);
  KeepLogits(layer, attention_.data());
  return rounding ? ProbeRounding(layer, problem, slot) : OkStatus();
}

Status AttentionWatch::Backward(size_t layer, const AttentionCall& call, FrameSlot* slot) {
  call_was_hidden_ = false;
  if (!WantsBackward(layer) || call.micro_batch != state_[layer].micro_batch) return OkStatus();
  const LayerSpec& spec = layers_[layer];
  FS_RETURN_IF_ERROR(CheckShapes(spec, call.problem, true));
  const kernels::RoundingProblem problem = ProblemOf(spec, call, true);
  const Status status = call.device >= 0 ? ProbeOnDevice(layer, true, call, problem, true, slot)
                                         : ProbeRounding(layer, problem, slot);
  state_[layer].backward_done = status.ok();
  return status;
}

Status AttentionWatch::ProbeRounding(size_t layer, const kernels::RoundingProblem& problem, FrameSlot* slot) {
  const LayerSpec& spec = layers_[layer];
  if (spec.dropout > 0) return OkStatus();  // not defined: P is not the softmax
  FS_RETURN_IF_ERROR(Reserve(kernels::ProbeRoundingWorkspaceBytes(problem)));
  const KernelStatus status =
      kernels::ProbeRounding(problem, rounding_.data(), {workspace_.data(), workspace_.size()});
  FS_RETURN_IF_ERROR(FromKernel(spec, status));
  WriteRounding(layout_, slot, static_cast<int32_t>(layer), rounding_.data(), spec.local_query_heads,
                {problem.d_o.data != nullptr, problem.dq.data != nullptr});
  return OkStatus();
}

void AttentionWatch::KeepLogits(size_t layer, const AttentionHeadStats* heads) noexcept {
  std::vector<float>& last = state_[layer].last_logit_max;
  for (size_t h = 0; h < last.size(); ++h) {
    if (heads[h].rows > 0) last[h] = static_cast<float>(heads[h].logit_max);
  }
}

}  // namespace foreshock::sdk
