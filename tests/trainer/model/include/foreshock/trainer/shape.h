#pragma once

namespace foreshock::trainer {

// The sizes of one GPT. Plain data; nothing checks it. head_dim, context and vocabulary must be multiples of
// 16, because the kernels work on whole vectors, and a checkpoint holds at most 64 layers.
struct ModelShape {
  int layers = 2;
  int heads = 4;
  int head_dim = 16;
  int context = 64;  // tokens a sequence
  int batch = 8;     // sequences a step
  int vocabulary = 256;
  int mlp_factor = 4;

  int d_model() const { return heads * head_dim; }
  int qkv_width() const { return 3 * d_model(); }
  int mlp_width() const { return mlp_factor * d_model(); }
  int tokens() const { return batch * context; }

  bool operator==(const ModelShape&) const = default;
};

}  // namespace foreshock::trainer
