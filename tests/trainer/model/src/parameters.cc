#include "foreshock/trainer/parameters.h"

#include <algorithm>
#include <cmath>

#include "foreshock/trainer/random.h"

namespace foreshock::trainer {

ParameterLayout::ParameterLayout(const ModelShape& shape) : layers(static_cast<std::size_t>(shape.layers)) {
  const auto d = static_cast<std::size_t>(shape.d_model());
  const auto f = static_cast<std::size_t>(shape.mlp_width());
  const auto vocabulary = static_cast<std::size_t>(shape.vocabulary);
  std::size_t next = 0;
  const auto take = [&next](std::size_t size) {
    const std::size_t at = next;
    next += size;
    return at;
  };
  token_embedding = take(vocabulary * d);
  position_embedding = take(static_cast<std::size_t>(shape.context) * d);
  for (Layer& layer : layers) {
    layer.qkv = take(d * 3 * d);
    layer.attention_out = take(d * d);
    layer.mlp_in = take(d * f);
    layer.mlp_out = take(f * d);
  }
  unembedding = take(d * vocabulary);
  decayed = next;
  for (Layer& layer : layers) {
    layer.attention_gain = take(d);
    layer.mlp_gain = take(d);
  }
  final_gain = take(d);
  count = next;
}

void initialize(const ModelShape& shape, const ParameterLayout& layout, std::uint64_t seed, float* weights) {
  constexpr double kDeviation = 0.02;
  Random random(seed ^ 0x666f726573686f63u);  // apart from the data's stream of the same seed
  for (std::size_t i = 0; i < layout.decayed; ++i) {
    weights[i] = static_cast<float>(kDeviation * random.normal());
  }
  std::fill(weights + layout.decayed, weights + layout.count, 1.0f);

  const auto residual = static_cast<float>(1 / std::sqrt(2.0 * shape.layers));
  const auto d = static_cast<std::size_t>(shape.d_model());
  const auto f = static_cast<std::size_t>(shape.mlp_width());
  for (const ParameterLayout::Layer& layer : layout.layers) {
    for (std::size_t i = 0; i < d * d; ++i) weights[layer.attention_out + i] *= residual;
    for (std::size_t i = 0; i < f * d; ++i) weights[layer.mlp_out + i] *= residual;
  }
}

}  // namespace foreshock::trainer
