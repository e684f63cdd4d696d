#include "foreshock/trainer/block.h"

#include <cstring>

#include "linear.h"

namespace foreshock::trainer {
Block::Block(const ModelShape& shape, const ParameterLayout::Layer& at, int layer)
    : shape_(shape), at_(at), kernels_(kernels()), attention_(shape, layer) {
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  const std::size_t narrow = tokens * static_cast<std::size_t>(shape.d_model());
  const std::size_t wide = tokens * static_cast<std::size_t>(shape.mlp_width());
  input_ = Buffer(narrow);
  normal_1_ = Buffer(narrow);
  inverse_1_ = Buffer(tokens);
  qkv_ = Buffer(3 * narrow);
  middle_ = Buffer(narrow);
  normal_2_ = Buffer(narrow);
  inverse_2_ = Buffer(tokens);
  hidden_ = Buffer(wide);
  activated_ = Buffer(wide);
  d_qkv_ = Buffer(3 * narrow);
  d_hidden_ = Buffer(wide);
  d_normal_ = Buffer(narrow);
  pack_ = Buffer(linear_workspace(shape));
}

void Block::forward(const float* weights, float* x, const Fault* fault) {
  const int n = shape_.tokens();
  const int d = shape_.d_model();
  const int f = shape_.mlp_width();
  float* pack = pack_.data();
  std::memcpy(input_.data(), x, input_.bytes());
  kernels_.rms_norm(x, d, weights + at_.attention_gain, normal_1_.data(), d, inverse_1_.data(), n, d,
                    kRmsEpsilon);
  linear(kernels_, normal_1_.data(), n, d, weights + at_.qkv, 3 * d, qkv_.data(), false, pack);
  attention_.forward(qkv_.data(), fault);
  linear(kernels_, attention_.output(), n, d, weights + at_.attention_out, d, x, true, pack);

  std::memcpy(middle_.data(), x, middle_.bytes());
  kernels_.rms_norm(x, d, weights + at_.mlp_gain, normal_2_.data(), d, inverse_2_.data(), n, d, kRmsEpsilon);
  linear(kernels_, normal_2_.data(), n, d, weights + at_.mlp_in, f, hidden_.data(), false, pack);
  kernels_.gelu(hidden_.data(), activated_.data(), n * f);
  linear(kernels_, activated_.data(), n, f, weights + at_.mlp_out, d, x, true, pack);
}

void Block::backward(const float* weights, float* dx, float* gradients, const Fault* fault) {
  const int n = shape_.tokens();
  const int d = shape_.d_model();
  const int f = shape_.mlp_width();
  float* pack = pack_.data();
  linear_backward(kernels_, activated_.data(), n, f, weights + at_.mlp_out, d, dx, d_hidden_.data(),
                  gradients + at_.mlp_out, pack);
  kernels_.gelu_backward(hidden_.data(), d_hidden_.data(), n * f);
  linear_backward(kernels_, normal_2_.data(), n, d, weights + at_.mlp_in, f, d_hidden_.data(),
                  d_normal_.data(), gradients + at_.mlp_in, pack);
  kernels_.rms_norm_backward(middle_.data(), d, weights + at_.mlp_gain, inverse_2_.data(), d_normal_.data(),
                             d, dx, d, true, gradients + at_.mlp_gain, n, d);

  linear_backward(kernels_, attention_.output(), n, d, weights + at_.attention_out, d, dx,
                  attention_.output_gradient(), gradients + at_.attention_out, pack);
  attention_.backward(qkv_.data(), fault, d_qkv_.data());
  linear_backward(kernels_, normal_1_.data(), n, d, weights + at_.qkv, 3 * d, d_qkv_.data(), d_normal_.data(),
                  gradients + at_.qkv, pack);
  kernels_.rms_norm_backward(input_.data(), d, weights + at_.attention_gain, inverse_1_.data(),
                             d_normal_.data(), d, dx, d, true, gradients + at_.attention_gain, n, d);
}

}  // namespace foreshock::trainer
