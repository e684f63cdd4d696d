// Views of tensors that someone else owns: a pointer, a dtype, sizes and strides. Strides count elements and
// may be 0 (broadcast) or negative. No view is checked when it is built; the kernels check what they can.
#pragma once

#include <cstdint>

#include "foreshock/sdk/dtype.h"

namespace foreshock::kernels {

// The projection of one head, W of shape [d_model, d_head] with q = x W:
// W(i, j) = data[i * row_stride + j * col_stride].
struct WeightView {
  const void* data = nullptr;
  DType dtype = DType::kFp32;
  int64_t d_model = 0;
  int64_t d_head = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
};

// How a parameter matrix is stored.
enum class ProjectionLayout : uint8_t {
  kLinear,  // [out, in] as torch.nn.Linear holds it: y = x W^T, one output a row
  kConv1d,  // [in, out] as GPT-2's Conv1D holds it: y = x W
};

// How the outputs of query, key and value projections share one parameter.
enum class QkvPacking : uint8_t {
  kConcatenated,  // all q heads, then all k heads, then all v heads
  kInterleaved,   // per key/value group: its q heads, its k head, its v head (Megatron, GPT-NeoX, Falcon)
};

enum class QkvPart : uint8_t { kQuery, kKey, kValue };

// The output column at which the head starts in a parameter whose outputs are one projection's heads.
// `outputs` is the number of outputs of the whole parameter, the other extent is d_model; rows are dense.
constexpr WeightView ProjectionColumns(const void* data, DType dtype, ProjectionLayout layout,
                                       int64_t d_model, int64_t outputs, int64_t first_output,
                                       int64_t d_head) {
  const bool linear = layout == ProjectionLayout::kLinear;
  const int64_t offset = linear ? first_output * d_model : first_output;
  const auto* bytes = static_cast<const unsigned char*>(data);
  return {bytes == nullptr ? nullptr : bytes + offset * static_cast<int64_t>(SizeOf(dtype)),
          dtype,
          d_model,
          d_head,
          linear ? 1 : outputs,
          linear ? d_model : 1};
}

// Head `head` of a parameter that holds `heads` heads of one projection and nothing else.
constexpr WeightView HeadOfProjection(const void* data, DType dtype, ProjectionLayout layout, int64_t d_model,
                                      int64_t heads, int64_t head, int64_t d_head) {
  return ProjectionColumns(data, dtype, layout, d_model, heads * d_head, head * d_head, d_head);
}

// Head `head` of one part of a fused QKV parameter. For kQuery head counts query heads, otherwise key/value
// heads. q_heads is a multiple of kv_heads.
constexpr WeightView HeadOfFusedQkv(const void* data, DType dtype, ProjectionLayout layout,
                                    QkvPacking packing, QkvPart part, int64_t d_model, int64_t q_heads,
                                    int64_t kv_heads, int64_t head, int64_t d_head) {
  int64_t slot = head;
  if (packing == QkvPacking::kConcatenated) {
    if (part == QkvPart::kKey) slot = q_heads + head;
    if (part == QkvPart::kValue) slot = q_heads + kv_heads + head;
  } else {
    const int64_t group = kv_heads > 0 ? q_heads / kv_heads : 1;
    const int64_t stride = group + 2;
    if (part == QkvPart::kQuery) slot = (head / group) * stride + head % group;
    if (part == QkvPart::kKey) slot = head * stride + group;
    if (part == QkvPart::kValue) slot = head * stride + group + 1;
  }
  return ProjectionColumns(data, dtype, layout, d_model, (q_heads + 2 * kv_heads) * d_head, slot * d_head,
                           d_head);
}

// Activations [batch, seq, heads, dim] in any order of storage.
// Packed sequences: batch is 1, seq the total number of tokens, and cu_seqlens say where each begins.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kFp32;  // bf16, fp16 or fp32
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t batch_stride = 0;
  int64_t seq_stride = 0;
  int64_t head_stride = 0;
  int64_t dim_stride = 0;

  constexpr int64_t Offset(int64_t b, int64_t s, int64_t h) const {
    return b * batch_stride + s * seq_stride + h * head_stride;
  }
};

// Dense [batch, seq, heads, dim].
constexpr TensorView Bshd(const void* data, DType dtype, int64_t batch, int64_t seq, int64_t heads,
                          int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, seq * heads * dim, heads * dim, dim, 1};
}

// Dense [batch, heads, seq, dim].
constexpr TensorView Bhsd(const void* data, DType dtype, int64_t batch, int64_t seq, int64_t heads,
                          int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, heads * seq * dim, dim, seq * dim, 1};
}

// Dense [tokens, heads, dim], the storage of packed sequences.
constexpr TensorView Packed(const void* data, DType dtype, int64_t tokens, int64_t heads, int64_t dim) {
  return Bshd(data, dtype, 1, tokens, heads, dim);
}

// A mask or a bias over [batch, query head, query, key]. Broadcast an axis with stride 0.
// Under packed sequences `batch` counts sequences, and query and key count from each sequence's start.
struct ScoreView {
  const void* data = nullptr;  // null: there is none
  DType dtype = DType::kFp32;  // not used by boolean masks, which are one byte an entry
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;

  constexpr int64_t Offset(int64_t b, int64_t h, int64_t query) const {
    return b * batch_stride + h * head_stride + query * query_stride;
  }
};

}  // namespace foreshock::kernels
