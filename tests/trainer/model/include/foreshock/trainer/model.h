#pragma once

#include <cstdint>
#include <vector>

#include "foreshock/trainer/block.h"
#include "foreshock/trainer/buffer.h"
#include "foreshock/trainer/fault.h"
#include "foreshock/trainer/parameters.h"
#include "foreshock/trainer/shape.h"

namespace foreshock::trainer {

// A byte-level GPT with learned positions, in fp32 but for the attention output (bf16). All memory is
// allocated by the constructor; forward and backward neither allocate nor call the system. Not thread-safe.
class Model {
 public:
  Model(const ModelShape& shape, std::uint64_t seed);

  // Mean cross-entropy (nats a token) of `targets` given `inputs`, shape.tokens() bytes each, sequence after
  // sequence. `fault` is null or acts in this pass; backward() uses the same one.
  double forward(const unsigned char* inputs, const unsigned char* targets, const Fault* fault);

  // Derivative of the last forward's loss into gradients() (overwritten). Call at most once a forward.
  void backward();

  const ModelShape& shape() const { return shape_; }
  const ParameterLayout& layout() const { return layout_; }
  Buffer& weights() { return weights_; }
  const Buffer& weights() const { return weights_; }
  Buffer& gradients() { return gradients_; }

  Attention& attention(int layer) { return blocks_[static_cast<std::size_t>(layer)].attention(); }
  const Attention& attention(int layer) const { return blocks_[static_cast<std::size_t>(layer)].attention(); }
  // The fused [d_model, 3 d_model] projection of a layer (see ParameterLayout).
  const float* qkv_weights(int layer) const;

  // Largest scaled attention score of any head in the last forward.
  float largest_logit() const;

  // QK-clip: multiplies W_Q and W_K of one head by `factor` each, so that its scores shrink by its square.
  void scale_qk(int layer, int head, float factor);

 private:
  void embed(const unsigned char* inputs);

  ModelShape shape_;
  ParameterLayout layout_;
  const Kernels& kernels_;
  Buffer weights_, gradients_;
  std::vector<Block> blocks_;
  std::vector<unsigned char> inputs_;
  const Fault* fault_ = nullptr;
  Buffer x_, normal_, inverse_, logits_, d_x_, d_normal_, pack_;
};

}  // namespace foreshock::trainer
