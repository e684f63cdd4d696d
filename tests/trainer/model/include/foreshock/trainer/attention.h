#pragma once

#include <vector>

#include "foreshock/trainer/buffer.h"
#include "foreshock/trainer/fault.h"
#include "foreshock/trainer/kernels.h"
#include "foreshock/trainer/shape.h"

namespace foreshock::trainer {

// A [batch, context, heads, head_dim] tensor of floats: token t of sequence b starts at
// data + (b * context + t) * token_stride, head h lies h * head_dim further on.
struct HeadTensor {
  const float* data = nullptr;
  int token_stride = 0;
};

// Causal multi-head attention of one layer: forward, backward, and the faults of fault.h. Scores and softmax
// are fp32; the output is rounded to bf16, as a mixed-precision trainer stores it, and delta of the backward
// pass is taken from that rounded output. Owns its activations; not thread-safe.
class Attention {
 public:
  Attention(const ModelShape& shape, int layer);

  // Reads qkv [tokens, 3 d_model] (kept by the caller until backward) and fills output().
  // fault: null, or the fault that acts in this step.
  void forward(const float* qkv, const Fault* fault);

  // Reads output_gradient(), which the caller has filled, and writes dqkv [tokens, 3 d_model].
  void backward(const float* qkv, const Fault* fault, float* dqkv);

  // Parameter-free QK normalization: q / sqrt(mean(q^2) + 1e-6) a token and head, k likewise, so that
  // |scale q.k| < scale * head_dim. Takes effect with the next forward.
  void set_qk_norm(bool on) { qk_norm_ = on; }
  bool qk_norm() const { return qk_norm_; }

  // Off for derivative checks only: rounding is a step function.
  void set_round_output(bool on) { round_output_ = on; }

  float scale() const { return scale_; }
  float* output_gradient() { return output_gradient_.data(); }
  const float* output() const { return output_.data(); }
  // Largest scaled score of a head in the last forward.
  float largest_logit(int head) const { return largest_logit_[static_cast<std::size_t>(head)]; }

  // What the scores used in the last forward (normalised q, k where qk_norm is on), and the derivative of
  // that q from the last backward.
  HeadTensor q() const { return q_; }
  HeadTensor k() const { return k_; }
  HeadTensor v() const { return v_; }
  HeadTensor o() const { return {output_.data(), shape_.d_model()}; }
  HeadTensor d_o() const { return {output_gradient_.data(), shape_.d_model()}; }
  HeadTensor d_q() const { return d_q_; }

 private:
  void normalize_qk(const float* qkv);
  void round_output_of(int head, const Fault* fault);
  void head_delta(int head, const Fault* fault);
  void sequence_backward(int sequence, int head, float* dq, float* dk, int qk_stride, float* dv,
                         int v_stride);
  void normalize_qk_backward(const float* qkv, float* dqkv);
  float* probabilities(int sequence, int head);

  ModelShape shape_;
  int layer_;
  float scale_;
  const Kernels& kernels_;
  bool qk_norm_ = false;
  bool used_qk_norm_ = false;  // in the last forward
  bool round_output_ = true;
  HeadTensor q_, k_, v_, d_q_;
  std::vector<float> largest_logit_;
  Buffer p_, output_, output_gradient_;
  Buffer normal_q_, normal_k_, inverse_q_, inverse_k_, d_normal_q_, d_normal_k_;
  Buffer delta_, ds_, pack_;
};

}  // namespace foreshock::trainer
