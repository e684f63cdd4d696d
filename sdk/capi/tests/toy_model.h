// A small model whose tensors are random but fixed by a seed: enough to drive the C interface as a trainer
// does.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "foreshock/foreshock.h"

namespace foreshock::testing {

struct ToyShape {
  int layers = 2, heads = 4, kv_heads = 2, dim = 8, model = 24, batch = 2, seq = 12;
};

class ToyModel {
 public:
  explicit ToyModel(ToyShape shape = {}, uint32_t seed = 1) : s(shape), random_(seed) {
    for (int l = 0; l < s.layers; ++l) {
      wq.push_back(Fill(static_cast<size_t>(s.model) * s.heads * s.dim, 0.2f));
      wk.push_back(Fill(static_cast<size_t>(s.model) * s.kv_heads * s.dim, 0.2f));
    }
    const size_t rows = static_cast<size_t>(s.batch) * s.seq;
    q = Fill(rows * s.heads * s.dim, 1);
    k = Fill(rows * s.kv_heads * s.dim, 1);
    v = Fill(rows * s.kv_heads * s.dim, 1);
    o = Fill(rows * s.heads * s.dim, 1);
    d_o = Fill(rows * s.heads * s.dim, 1);
    dq = Fill(rows * s.heads * s.dim, 1);
  }

  fs_weights Weights(int layer, bool key_side) const {
    fs_weights w;
    fs_weights_init(&w);
    w.data = (key_side ? wk : wq)[static_cast<size_t>(layer)].data();
    w.row_stride = 1;
    w.col_stride = s.model;
    w.head_stride = static_cast<int64_t>(s.dim) * s.model;
    w.weight_decay = 0.1;
    return w;
  }

  fs_status Register(fs_run* run) const {
    for (int l = 0; l < s.layers; ++l) {
      const fs_weights a = Weights(l, false), b = Weights(l, true);
      fs_layer layer = Layer(l);
      layer.wq = &a;
      layer.wk = &b;
      const fs_status status = fs_add_layer(run, &layer);
      if (status != FS_OK) return status;
    }
    return FS_OK;
  }

  fs_layer Layer(int l) const {
    fs_layer layer;
    fs_layer_init(&layer);
    layer.layer = static_cast<uint32_t>(l);
    layer.model_dim = static_cast<uint32_t>(s.model);
    layer.query_heads = static_cast<uint32_t>(s.heads);
    layer.kv_heads = static_cast<uint32_t>(s.kv_heads);
    layer.head_dim = static_cast<uint32_t>(s.dim);
    return layer;
  }

  fs_attention Attention() const {
    fs_attention a;
    fs_attention_init(&a);
    a.q = fs_tensor_bshd(q.data(), FS_FP32, s.batch, s.seq, s.heads, s.dim);
    a.k = fs_tensor_bshd(k.data(), FS_FP32, s.batch, s.seq, s.kv_heads, s.dim);
    a.v = fs_tensor_bshd(v.data(), FS_FP32, s.batch, s.seq, s.kv_heads, s.dim);
    a.o = fs_tensor_bshd(o.data(), FS_FP32, s.batch, s.seq, s.heads, s.dim);
    return a;
  }

  fs_attention WithGradients() const {
    fs_attention a = Attention();
    a.d_o = fs_tensor_bshd(d_o.data(), FS_FP32, s.batch, s.seq, s.heads, s.dim);
    a.dq = fs_tensor_bshd(dq.data(), FS_FP32, s.batch, s.seq, s.heads, s.dim);
    return a;
  }

  // Other activations and weights, as after a training step.
  void Move() {
    for (auto* t : {&q, &k, &v, &o, &d_o, &dq}) {
      for (float& x : *t) x = normal_(random_);
    }
    for (auto* side : {&wq, &wk}) {
      for (auto& w : *side) {
        for (float& x : w) x += 1e-3f * normal_(random_);
      }
    }
  }

  // One whole step, as foreshock.h's example has it.
  void Step(fs_run* run, int64_t t) {
    fs_step_begin(run, t);
    for (uint32_t l = 0; l < static_cast<uint32_t>(s.layers); ++l) {
      if (!fs_wants_attention(run, l)) continue;
      const fs_attention a = Attention();
      fs_attention_forward(run, l, &a);
    }
    fs_loss(run, 3.0 - 1e-3 * static_cast<double>(t), s.batch * s.seq);
    for (uint32_t l = 0; l < static_cast<uint32_t>(s.layers); ++l) {
      if (!fs_wants_attention_backward(run, l)) continue;
      const fs_attention a = WithGradients();
      fs_attention_backward(run, l, &a);
    }
    fs_scalar(run, FS_GRAD_NORM, 1.25);
    fs_scalar(run, FS_LEARNING_RATE, 1e-3);
    Move();
    fs_step_end(run);
  }

  ToyShape s;
  std::vector<std::vector<float>> wq, wk;
  std::vector<float> q, k, v, o, d_o, dq;

 private:
  std::vector<float> Fill(size_t n, float scale) {
    std::vector<float> out(n);
    for (float& x : out) x = scale * normal_(random_);
    return out;
  }
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace foreshock::testing
