#pragma once

#include <cstdint>
#include <vector>

#include "foreshock/trainer/buffer.h"
#include "foreshock/trainer/shape.h"

namespace foreshock::trainer {

// Where each parameter lies in one flat array. Matrices are [input, output], row-major, so that y = x W. The
// fused qkv is [d_model, 3 d_model]: all heads of Q, then of K, then of V, concatenated; W_Q of head h is the
// [d_model, head_dim] block from column h * head_dim on, with a row stride of 3 d_model.
struct ParameterLayout {
  struct Layer {
    std::size_t attention_gain, qkv, attention_out, mlp_gain, mlp_in, mlp_out;
  };

  explicit ParameterLayout(const ModelShape& shape);

  std::size_t token_embedding, position_embedding, final_gain, unembedding;
  std::vector<Layer> layers;
  std::size_t count;  // floats in all, a multiple of 16
  // Matrices first, gains (which take no weight decay) last: [0, decayed) and [decayed, count).
  std::size_t decayed;
};

// Normal(0, 0.02) for every matrix, the two projections into the residual stream divided by sqrt(2 layers);
// gains are 1. The same seed gives the same weights.
void initialize(const ModelShape& shape, const ParameterLayout& layout, std::uint64_t seed, float* weights);

}  // namespace foreshock::trainer
