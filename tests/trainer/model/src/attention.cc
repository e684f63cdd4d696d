#include "foreshock/trainer/attention.h"

#include <cmath>
#include <limits>

#include "foreshock/trainer/bf16.h"

namespace foreshock::trainer {
namespace {

constexpr float kQkNormEpsilon = 1e-6f;

std::size_t size(int count) { return static_cast<std::size_t>(count); }

}  // namespace

Attention::Attention(const ModelShape& shape, int layer)
    : shape_(shape),
      layer_(layer),
      scale_(1.0f / std::sqrt(static_cast<float>(shape.head_dim))),
      kernels_(kernels()),
      largest_logit_(size(shape.heads)),
      p_(size(shape.batch * shape.heads) * size(shape.context * shape.context)),
      output_(size(shape.tokens() * shape.d_model())),
      output_gradient_(output_.size()),
      normal_q_(output_.size()),
      normal_k_(output_.size()),
      inverse_q_(size(shape.tokens() * shape.heads)),
      inverse_k_(inverse_q_.size()),
      d_normal_q_(output_.size()),
      d_normal_k_(output_.size()),
      delta_(size(shape.tokens())),
      ds_(size(shape.context * shape.context)),
      pack_(size(16 * (shape.context + shape.head_dim))) {}

float* Attention::probabilities(int sequence, int head) {
  const std::size_t square = size(shape_.context * shape_.context);
  return p_.data() + (size(sequence) * size(shape_.heads) + size(head)) * square;
}

void Attention::normalize_qk(const float* qkv) {
  const int d = shape_.d_model();
  const int stride = shape_.qkv_width();
  for (int h = 0; h < shape_.heads; ++h) {
    const int at = h * shape_.head_dim;
    float* inverse_q = inverse_q_.data() + h * shape_.tokens();
    float* inverse_k = inverse_k_.data() + h * shape_.tokens();
    kernels_.rms_norm(qkv + at, stride, nullptr, normal_q_.data() + at, d, inverse_q, shape_.tokens(),
                      shape_.head_dim, kQkNormEpsilon);
    kernels_.rms_norm(qkv + d + at, stride, nullptr, normal_k_.data() + at, d, inverse_k, shape_.tokens(),
                      shape_.head_dim, kQkNormEpsilon);
  }
}

void Attention::forward(const float* qkv, const Fault* fault) {
  const int d = shape_.d_model();
  const int t = shape_.context;
  used_qk_norm_ = qk_norm_;
  v_ = {qkv + 2 * d, shape_.qkv_width()};
  if (used_qk_norm_) {
    normalize_qk(qkv);
    q_ = {normal_q_.data(), d};
    k_ = {normal_k_.data(), d};
  } else {
    q_ = {qkv, shape_.qkv_width()};
    k_ = {qkv + d, shape_.qkv_width()};
  }
  for (int h = 0; h < shape_.heads; ++h) {
    const int at = h * shape_.head_dim;
    float largest = -std::numeric_limits<float>::infinity();
    for (int b = 0; b < shape_.batch; ++b) {
      const int token = b * t;
      float* p = probabilities(b, h);
      kernels_.multiply({t, t, shape_.head_dim, q_.data + token * q_.token_stride + at, q_.token_stride, 1,
                         k_.data + token * k_.token_stride + at, 1, k_.token_stride, p, t, false,
                         pack_.data()});
      kernels_.causal_softmax(p, t, scale_, &largest);
      kernels_.multiply({t, shape_.head_dim, t, p, t, 1, v_.data + token * v_.token_stride + at,
                         v_.token_stride, 1, output_.data() + token * d + at, d, false, pack_.data()});
    }
    largest_logit_[size(h)] = largest;
    if (round_output_) round_output_of(h, fault);
  }
}

void Attention::round_output_of(int head, const Fault* fault) {
  const bool faulty = fault != nullptr && fault->kind == Fault::Kind::output && fault->hits(layer_, head);
  const int ulps = faulty ? static_cast<int>(fault->amount) : 0;
  float* row = output_.data() + head * shape_.head_dim;
  for (int token = 0; token < shape_.tokens(); ++token, row += shape_.d_model()) {
    for (int i = 0; i < shape_.head_dim; ++i) row[i] = round_to_bf16(row[i]);
    for (int i = 0; ulps != 0 && i < shape_.head_dim; ++i) row[i] = step_away_from_zero(row[i], ulps);
  }
}

// delta_[token] = sum over the head of dO * O, with the delta fault on top.
void Attention::head_delta(int head, const Fault* fault) {
  const int d = shape_.d_model();
  const float* o = output_.data() + head * shape_.head_dim;
  const float* g = output_gradient_.data() + head * shape_.head_dim;
  double magnitude = 0;
  for (int token = 0; token < shape_.tokens(); ++token, o += d, g += d) {
    float sum = 0;
    for (int i = 0; i < shape_.head_dim; ++i) sum += g[i] * o[i];
    delta_[size(token)] = sum;
    magnitude += std::abs(sum);
  }
  if (fault == nullptr || fault->kind != Fault::Kind::delta || !fault->hits(layer_, head)) return;
  const auto bias = static_cast<float>(fault->amount * magnitude / shape_.tokens());
  for (int token = 0; token < shape_.tokens(); ++token) delta_[size(token)] += bias;
}

void Attention::sequence_backward(int sequence, int head, float* dq, float* dk, int qk_stride, float* dv,
                                  int v_stride) {
  const int t = shape_.context;
  const int n = shape_.head_dim;
  const int d = shape_.d_model();
  const int token = sequence * t;
  const int at = head * n;
  const float* p = probabilities(sequence, head);
  const float* g = output_gradient_.data() + token * d + at;
  float* ds = ds_.data();
  float* pack = pack_.data();
  const float* v = v_.data + token * v_.token_stride + at;
  const float* q = q_.data + token * q_.token_stride + at;
  const float* k = k_.data + token * k_.token_stride + at;
  // dV = P^T dO; dP = dO V^T; dS = P (dP - delta) scale; dQ = dS K; dK = dS^T Q
  kernels_.multiply({t, n, t, p, 1, t, g, d, 1, dv + token * v_stride + at, v_stride, false, pack});
  kernels_.multiply({t, t, n, g, d, 1, v, 1, v_.token_stride, ds, t, false, pack});
  kernels_.softmax_backward(p, ds, delta_.data() + token, t, scale_);
  kernels_.multiply(
      {t, n, t, ds, t, 1, k, k_.token_stride, 1, dq + token * qk_stride + at, qk_stride, false, pack});
  kernels_.multiply(
      {t, n, t, ds, 1, t, q, q_.token_stride, 1, dk + token * qk_stride + at, qk_stride, false, pack});
}

void Attention::normalize_qk_backward(const float* qkv, float* dqkv) {
  const int d = shape_.d_model();
  const int stride = shape_.qkv_width();
  for (int h = 0; h < shape_.heads; ++h) {
    const int at = h * shape_.head_dim;
    kernels_.rms_norm_backward(qkv + at, stride, nullptr, inverse_q_.data() + h * shape_.tokens(),
                               d_normal_q_.data() + at, d, dqkv + at, stride, false, nullptr, shape_.tokens(),
                               shape_.head_dim);
    kernels_.rms_norm_backward(qkv + d + at, stride, nullptr, inverse_k_.data() + h * shape_.tokens(),
                               d_normal_k_.data() + at, d, dqkv + d + at, stride, false, nullptr,
                               shape_.tokens(), shape_.head_dim);
  }
}

void Attention::backward(const float* qkv, const Fault* fault, float* dqkv) {
  const int d = shape_.d_model();
  const int width = shape_.qkv_width();
  float* dq = used_qk_norm_ ? d_normal_q_.data() : dqkv;
  float* dk = used_qk_norm_ ? d_normal_k_.data() : dqkv + d;
  const int qk_stride = used_qk_norm_ ? d : width;
  d_q_ = {dq, qk_stride};
  for (int h = 0; h < shape_.heads; ++h) {
    head_delta(h, fault);
    for (int b = 0; b < shape_.batch; ++b) sequence_backward(b, h, dq, dk, qk_stride, dqkv + 2 * d, width);
  }
  if (used_qk_norm_) normalize_qk_backward(qkv, dqkv);
}

}  // namespace foreshock::trainer
