#pragma once

#include "foreshock/trainer/attention.h"
#include "foreshock/trainer/buffer.h"
#include "foreshock/trainer/fault.h"
#include "foreshock/trainer/parameters.h"
#include "foreshock/trainer/shape.h"

namespace foreshock::trainer {

// One pre-norm transformer block: x += W_out attention(norm(x)); x += W_2 gelu(W_1 norm(x)). Norms are
// RMSNorm with a gain, matrices have no bias. Holds its activations from forward to backward; parameters
// belong to the caller (flat arrays laid out by ParameterLayout).
class Block {
 public:
  Block(const ModelShape& shape, const ParameterLayout::Layer& at, int layer);

  // x [tokens, d_model] is read and updated in place.
  void forward(const float* weights, float* x, const Fault* fault);
  // dx comes in as the derivative of the block's output and leaves as that of its input; parameter
  // derivatives are added to `gradients`.
  void backward(const float* weights, float* dx, float* gradients, const Fault* fault);

  Attention& attention() { return attention_; }
  const Attention& attention() const { return attention_; }

 private:
  ModelShape shape_;
  ParameterLayout::Layer at_;
  const Kernels& kernels_;
  Attention attention_;
  Buffer input_, normal_1_, inverse_1_, qkv_;
  Buffer middle_, normal_2_, inverse_2_, hidden_, activated_;
  Buffer d_qkv_, d_hidden_, d_normal_, pack_;
};

}  // namespace foreshock::trainer
