#include "foreshock/sdk/attention_watch.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace foreshock::sdk {

using kernels::AttentionHeadStats;
using kernels::KernelStatus;
using kernels::RatioSums;
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

Status FromKernel(const LayerSpec& spec, KernelStatus status) {
  if (status == KernelStatus::kOk) return OkStatus();
  return Status(Code::kInvalidArgument,
                "layer " + std::to_string(spec.layer) + ": attention: " + kernels::KernelStatusName(status));
}

void WriteRatio(ColumnWriter writer, uint32_t head, const RatioSums& sums) noexcept {
  if (!sums.HasValue()) return;
  writer.Set(head, sums.num, sums.den);
  writer.SetMoments(head, sums.rows, sums.num_num, sums.num_den, sums.den_den);
}

void WriteSign(ColumnWriter writer, uint32_t head, double sum, double rows) noexcept {
  if (rows > 0) writer.Set(head, sum, rows);
}

}  // namespace

AttentionWatch::AttentionWatch(const std::vector<LayerSpec>& layers, const FrameLayout& layout)
    : layers_(layers), layout_(layout), state_(layers.size()) {
  size_t heads = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    heads = std::max<size_t>(heads, layers[i].local_query_heads);
    state_[i].last_logit_max.assign(layers[i].local_query_heads, std::numeric_limits<float>::quiet_NaN());
  }
  attention_.resize(heads);
  rounding_.resize(heads);
}

void AttentionWatch::BeginStep(int64_t step, bool sampled, const RowRule& rule) noexcept {
  sampled_ = sampled;
  if (!sampled) return;
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

void AttentionWatch::Complete(const LayerSpec& spec, kernels::AttentionProblem* problem) const noexcept {
  problem->scale = spec.scale;
  problem->softcap = spec.softcap;
  problem->causal = spec.causal;
  problem->window_left = spec.window_left;
  problem->window_right = spec.window_right;
  problem->sampling = sampling_;
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
  if (!WantsForward(layer) || !call.grad_enabled || call.recompute) return OkStatus();
  const LayerSpec& spec = layers_[layer];
  FS_RETURN_IF_ERROR(CheckShapes(spec, call.problem, false));
  kernels::RoundingProblem problem = call.problem;
  problem.d_o = problem.dq = TensorView();
  Complete(spec, &problem.attention);
  FS_RETURN_IF_ERROR(Reserve(kernels::ProbeAttentionWorkspaceBytes(problem.attention)));
  const KernelStatus status =
      kernels::ProbeAttention(problem.attention, attention_.data(), {workspace_.data(), workspace_.size()});
  FS_RETURN_IF_ERROR(FromKernel(spec, status));
  state_[layer].forward_done = true;
  state_[layer].micro_batch = call.micro_batch;
  WriteAttention(layer, problem.attention.n_sinks > 0, slot);
  const bool now = !state_[layer].calls_backward && problem.v.data != nullptr && problem.o.data != nullptr;
  return now ? ProbeRounding(layer, problem, slot) : OkStatus();
}

Status AttentionWatch::Backward(size_t layer, const AttentionCall& call, FrameSlot* slot) {
  if (!WantsBackward(layer) || call.micro_batch != state_[layer].micro_batch) return OkStatus();
  const LayerSpec& spec = layers_[layer];
  FS_RETURN_IF_ERROR(CheckShapes(spec, call.problem, true));
  kernels::RoundingProblem problem = call.problem;
  Complete(spec, &problem.attention);
  const Status status = ProbeRounding(layer, problem, slot);
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
  const auto column = [&](uint16_t signal) {
    return ColumnWriter(layout_, slot, static_cast<int32_t>(layer), signal);
  };
  for (uint32_t h = 0; h < spec.local_query_heads; ++h) {
    const RoundingHeadStats& head = rounding_[h];
    WriteRatio(column(kOutputRoundingBias), h, head.output_bias);
    WriteRatio(column(kOutputRoundingBiasTied), h, head.output_bias_tied);
    WriteRatio(column(kOutputRoundingBiasOther), h, head.output_bias_other);
    if (problem.d_o.data == nullptr) continue;
    WriteRatio(column(kDeltaOutputBias), h, head.delta_output);
    WriteSign(column(kDeltaOutputSignMean), h, head.delta_output_sign, head.delta_output.rows);
    if (problem.dq.data == nullptr) continue;
    WriteRatio(column(kDeltaError), h, head.delta_error);
    WriteSign(column(kDeltaErrorSignMean), h, head.delta_error_sign, head.delta_error.rows);
  }
  return OkStatus();
}

void AttentionWatch::WriteAttention(size_t layer, bool learned_sinks, FrameSlot* slot) noexcept {
  const LayerSpec& spec = layers_[layer];
  const auto column = [&](uint16_t signal) {
    return ColumnWriter(layout_, slot, static_cast<int32_t>(layer), signal);
  };
  ColumnWriter logit_max = column(kLogitMax), logit_min = column(kLogitMin), tied = column(kTiedRowFraction),
               tied_bf16 = column(kTiedRowFractionBf16), unit_p = column(kUnitPRowFraction),
               saturated = column(kSaturatedRowFraction), entropy = column(kEntropyMean),
               lse = column(kLseMean), sink = column(kSinkWeightMean);
  for (uint32_t h = 0; h < spec.local_query_heads; ++h) {
    const AttentionHeadStats& head = attention_[h];
    if (!(head.rows > 0)) continue;
    logit_max.Set(h, head.logit_max, head.rows_visited);
    logit_min.Set(h, head.logit_min, head.rows_visited);
    tied.Set(h, head.tied_rows, head.rows);
    tied_bf16.Set(h, head.tied_rows_bf16, head.rows);
    unit_p.Set(h, head.unit_p_rows, head.rows);
    saturated.Set(h, head.saturated_rows, head.rows);
    entropy.Set(h, head.entropy_sum, head.rows);
    lse.Set(h, head.lse_sum, head.rows);
    sink.Set(h, head.sink_weight_sum, head.rows);
    if (learned_sinks) column(kLearnedSinkWeightMean).Set(h, head.learned_sink_weight_sum, head.rows);
    state_[layer].last_logit_max[h] = static_cast<float>(head.logit_max);
  }
}

}  // namespace foreshock::sdk
