#include "attention_problem.h"

#include <cmath>
#include <initializer_list>

namespace foreshock::kernels {
namespace {

KernelStatus CheckOptions(const AttentionProblem& p) {
  const RowSampling& s = p.sampling;
  if (!std::isfinite(p.scale) || !std::isfinite(p.softcap) || p.softcap < 0) return KernelStatus::kBadOption;
  if (s.row_every < 1 || s.sequence_every < 1 || s.row_offset < 0 || s.sequence_offset < 0) {
    return KernelStatus::kBadOption;
  }
  if (p.window_left < -1 || p.window_right < -1) return KernelStatus::kBadOption;
  if (p.window_left > kMaxTokens || p.window_right > kMaxTokens) return KernelStatus::kBadOption;
  if (p.query_offset < -kMaxTokens || p.query_offset > kMaxTokens) return KernelStatus::kBadOption;
  if (p.n_sinks < 0 || p.n_sinks > kMaxHeads) return KernelStatus::kBadOption;
  if (p.n_sinks > 0 && p.sinks == nullptr) return KernelStatus::kNullPointer;
  return KernelStatus::kOk;
}

KernelStatus CheckMask(const ScoreView& mask) {
  return mask.data != nullptr && !IsKnown(mask.dtype) ? KernelStatus::kBadDType : KernelStatus::kOk;
}

KernelStatus CheckOffsets(const int32_t* offsets, int64_t n, int64_t tokens) {
  if (offsets[0] < 0) return KernelStatus::kBadSequences;
  for (int64_t i = 0; i < n; ++i) {
    if (offsets[i + 1] < offsets[i]) return KernelStatus::kBadSequences;
  }
  return offsets[n] > tokens ? KernelStatus::kBadSequences : KernelStatus::kOk;
}

KernelStatus CheckSequenceShapes(const AttentionProblem& p) {
  if (p.cu_seqlens_q == nullptr) {
    if (p.cu_seqlens_k != nullptr) return KernelStatus::kNullPointer;
    return p.q.batch == p.k.batch ? KernelStatus::kOk : KernelStatus::kBadShape;
  }
  const bool fits = p.q.batch == 1 && p.k.batch == 1 && p.n_sequences >= 0 && p.n_sequences <= kMaxTokens;
  return fits ? KernelStatus::kOk : KernelStatus::kBadShape;
}

KernelStatus CheckSequenceOffsets(const AttentionProblem& p) {
  if (p.cu_seqlens_q == nullptr) return KernelStatus::kOk;
  const KernelStatus status = CheckOffsets(p.cu_seqlens_q, p.n_sequences, p.q.seq);
  if (status != KernelStatus::kOk) return status;
  return CheckOffsets(p.cu_seqlens_k == nullptr ? p.cu_seqlens_q : p.cu_seqlens_k, p.n_sequences, p.k.seq);
}

}  // namespace

KernelStatus CheckShape(const TensorView& t) {
  if (t.batch < 0 || t.seq < 0 || t.heads < 1 || t.dim < 1) return KernelStatus::kBadShape;
  if (t.batch > kMaxTokens || t.seq > kMaxTokens || t.heads > kMaxHeads || t.dim > kMaxDim) {
    return KernelStatus::kBadShape;
  }
  return t.batch * t.seq > kMaxTokens ? KernelStatus::kBadShape : KernelStatus::kOk;
}

KernelStatus CheckTensor(const TensorView& t) {
  if (!IsKnown(t.dtype) || t.dtype == DType::kFp64) return KernelStatus::kBadDType;
  const KernelStatus status = CheckShape(t);
  if (status != KernelStatus::kOk) return status;
  if (t.data == nullptr && t.batch > 0 && t.seq > 0) return KernelStatus::kNullPointer;
  return KernelStatus::kOk;
}

KernelStatus CheckAttentionArguments(const AttentionProblem& p) noexcept {
  for (const TensorView* t : {&p.q, &p.k}) {
    const KernelStatus status = CheckTensor(*t);
    if (status != KernelStatus::kOk) return status;
  }
  if (p.q.dim != p.k.dim || p.q.heads % p.k.heads != 0) return KernelStatus::kBadShape;
  for (const ScoreView* mask : {&p.additive_mask, &p.bias}) {
    const KernelStatus status = CheckMask(*mask);
    if (status != KernelStatus::kOk) return status;
  }
  const KernelStatus status = CheckOptions(p);
  return status != KernelStatus::kOk ? status : CheckSequenceShapes(p);
}

KernelStatus CheckAttention(const AttentionProblem& p) {
  const KernelStatus status = CheckAttentionArguments(p);
  return status != KernelStatus::kOk ? status : CheckSequenceOffsets(p);
}

int64_t SequenceCount(const AttentionProblem& p) {
  return p.cu_seqlens_q == nullptr ? p.q.batch : p.n_sequences;
}

Sequence SequenceAt(const AttentionProblem& p, int64_t index) {
  if (p.cu_seqlens_q == nullptr) return {index, index, 0, p.q.seq, 0, p.k.seq};
  const int32_t* k = p.cu_seqlens_k == nullptr ? p.cu_seqlens_q : p.cu_seqlens_k;
  const int64_t q_begin = p.cu_seqlens_q[index];
  return {index, 0, q_begin, p.cu_seqlens_q[index + 1] - q_begin, k[index], k[index + 1] - int64_t{k[index]}};
}

}  // namespace foreshock::kernels
