#include "convert.h"

#include <cmath>
#include <string>

#include "foreshock/sdk/cuda/device.h"

namespace foreshock::sdk {

kernels::TensorView ToView(const fs_tensor& t) {
  return {t.data,         static_cast<kernels::DType>(t.dtype),
          t.batch,        t.seq,
          t.heads,        t.dim,
          t.batch_stride, t.seq_stride,
          t.head_stride,  t.dim_stride};
}

kernels::ScoreView ToView(const fs_scores& s) {
  return {s.data,      static_cast<kernels::DType>(s.dtype), s.batch_stride, s.head_stride, s.query_stride,
          s.key_stride};
}

AttentionCall ToCall(const fs_attention& in) {
  AttentionCall call;
  call.grad_enabled = in.grad_enabled != 0;
  call.recompute = in.recompute != 0;
  call.micro_batch = in.micro_batch;
  call.device = in.device >= 0 ? in.device : cuda::DeviceOf(in.q.data);
  call.stream = in.stream;
  if (in.causal >= 0) call.causal = in.causal != 0;
  kernels::RoundingProblem& problem = call.problem;
  problem.v = ToView(in.v);
  problem.o = ToView(in.o);
  problem.d_o = ToView(in.d_o);
  problem.dq = ToView(in.dq);
  kernels::AttentionProblem& attention = problem.attention;
  attention.q = ToView(in.q);
  attention.k = ToView(in.k);
  attention.cu_seqlens_q = in.cu_seqlens_q;
  attention.cu_seqlens_k = in.cu_seqlens_k;
  attention.n_sequences = in.n_sequences;
  attention.align = in.top_left != 0 ? kernels::QueryAlign::kTopLeft : kernels::QueryAlign::kBottomRight;
  attention.query_offset = in.query_offset;
  attention.keep_mask = ToView(in.keep_mask);
  attention.additive_mask = ToView(in.additive_mask);
  attention.bias = ToView(in.bias);
  attention.alibi_slopes = in.alibi_slopes;
  attention.sinks = in.sinks;
  attention.n_sinks = in.n_sinks;
  return call;
}

ProjectionSpec ToProjection(const fs_weights& weights, uint32_t heads) {
  ProjectionSpec spec;
  spec.data = weights.data;
  spec.dtype = static_cast<kernels::DType>(weights.dtype);
  spec.row_stride = weights.row_stride;
  spec.col_stride = weights.col_stride;
  spec.weight_decay = weights.weight_decay;
  const void* memory = weights.sharded != 0 ? weights.shard_data : weights.data;
  spec.device = weights.device >= 0 ? weights.device : cuda::DeviceOf(memory);
  for (uint32_t h = 0; h < heads; ++h) {
    spec.head_offsets.push_back(weights.head_offsets != nullptr ? weights.head_offsets[h]
                                                                : h * weights.head_stride);
  }
  if (weights.sharded != 0) {
    spec.shard = ShardSpec{weights.shard_data,  static_cast<kernels::DType>(weights.shard_dtype),
                           weights.shard_begin, weights.shard_end,
                           weights.shard,       weights.shards};
  }
  return spec;
}

LayerSpec ToLayer(const fs_layer& in) {
  LayerSpec spec;
  spec.layer = in.layer;
  spec.name = in.name != nullptr ? in.name : "layer " + std::to_string(in.layer);
  spec.model_dim = in.model_dim;
  spec.query_heads = in.query_heads;
  spec.kv_heads = in.kv_heads;
  spec.head_dim = in.head_dim;
  spec.first_query_head = in.first_query_head;
  spec.local_query_heads = in.local_query_heads != 0 ? in.local_query_heads : in.query_heads;
  spec.first_kv_head = in.first_kv_head;
  spec.local_kv_heads = in.local_kv_heads != 0 ? in.local_kv_heads : in.kv_heads;
  spec.scale = in.scale;
  if (in.scale == 0 && in.head_dim > 0) spec.scale = 1 / std::sqrt(static_cast<float>(in.head_dim));
  spec.softcap = in.softcap;
  spec.causal = in.causal != 0;
  spec.window_left = in.window_left;
  spec.window_right = in.window_right;
  spec.qk_norm = in.qk_norm != 0;
  spec.dropout = in.dropout;
  return spec;
}

Status CheckDTypes(const fs_attention& attention) {
  const struct {
    const char* name;
    const fs_tensor* tensor;
  } tensors[] = {{"q", &attention.q}, {"k", &attention.k},     {"v", &attention.v},
                 {"o", &attention.o}, {"d_o", &attention.d_o}, {"dq", &attention.dq}};
  for (const auto& [name, tensor] : tensors) {
    if (tensor->data == nullptr) continue;
    if (tensor->dtype == FS_BF16 || tensor->dtype == FS_FP16 || tensor->dtype == FS_FP32) continue;
    return Status(Code::kInvalidArgument, std::string(name) + ".dtype: " + std::to_string(tensor->dtype) +
                                              ", must be FS_BF16, FS_FP16 or FS_FP32");
  }
  return OkStatus();
}

Status CheckMemory(const fs_attention& a, int device) {
  const struct {
    const char* name;
    const void* data;
  } parts[] = {{"q", a.q.data},
               {"k", a.k.data},
               {"v", a.v.data},
               {"o", a.o.data},
               {"d_o", a.d_o.data},
               {"dq", a.dq.data},
               {"cu_seqlens_q", a.cu_seqlens_q},
               {"cu_seqlens_k", a.cu_seqlens_k},
               {"keep_mask", a.keep_mask.data},
               {"additive_mask", a.additive_mask.data},
               {"bias", a.bias.data},
               {"alibi_slopes", a.alibi_slopes},
               {"sinks", a.n_sinks > 0 ? a.sinks : nullptr}};
  const auto memory = [](int of) {
    return of < 0 ? std::string("in host memory") : "on CUDA device " + std::to_string(of);
  };
  for (const auto& [name, data] : parts) {
    const int lies_on = data == nullptr ? device : cuda::DeviceOf(data);
    if (lies_on == device) continue;
    return Status(Code::kInvalidArgument,
                  std::string(name) + ": " + memory(lies_on) + ", the call's tensors are " + memory(device));
  }
  return OkStatus();
}

}  // namespace foreshock::sdk
