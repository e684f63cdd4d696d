#include "foreshock/trainer/model.h"

#include <algorithm>
#include <cstring>

#include "linear.h"

namespace foreshock::trainer {
Model::Model(const ModelShape& shape, std::uint64_t seed)
    : shape_(shape), layout_(shape), kernels_(kernels()), weights_(layout_.count), gradients_(layout_.count) {
  initialize(shape, layout_, seed, weights_.data());
  for (int i = 0; i < shape.layers; ++i)
    blocks_.emplace_back(shape, layout_.layers[static_cast<std::size_t>(i)], i);
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  const std::size_t narrow = tokens * static_cast<std::size_t>(shape.d_model());
  inputs_.resize(tokens);
  x_ = Buffer(narrow);
  normal_ = Buffer(narrow);
  inverse_ = Buffer(tokens);
  logits_ = Buffer(tokens * static_cast<std::size_t>(shape.vocabulary));
  d_x_ = Buffer(narrow);
  d_normal_ = Buffer(narrow);
  pack_ = Buffer(linear_workspace(shape));
}

void Model::embed(const unsigned char* inputs) {
  const int d = shape_.d_model();
  for (int token = 0; token < shape_.tokens(); ++token) {
    const float* e = weights_.data() + layout_.token_embedding + static_cast<std::size_t>(inputs[token] * d);
    const float* p =
        weights_.data() + layout_.position_embedding + static_cast<std::size_t>(token % shape_.context * d);
    float* x = x_.data() + token * d;
    for (int i = 0; i < d; ++i) x[i] = e[i] + p[i];
  }
}

double Model::forward(const unsigned char* inputs, const unsigned char* targets, const Fault* fault) {
  const int n = shape_.tokens();
  const int d = shape_.d_model();
  fault_ = fault;
  std::copy(inputs, inputs + n, inputs_.begin());
  embed(inputs);
  for (Block& block : blocks_) block.forward(weights_.data(), x_.data(), fault);
  kernels_.rms_norm(x_.data(), d, weights_.data() + layout_.final_gain, normal_.data(), d, inverse_.data(), n,
                    d, kRmsEpsilon);
  linear(kernels_, normal_.data(), n, d, weights_.data() + layout_.unembedding, shape_.vocabulary,
         logits_.data(), false, pack_.data());
  return kernels_.cross_entropy(logits_.data(), targets, n, shape_.vocabulary);
}

void Model::backward() {
  const int n = shape_.tokens();
  const int d = shape_.d_model();
  gradients_.clear();
  float* g = gradients_.data();
  linear_backward(kernels_, normal_.data(), n, d, weights_.data() + layout_.unembedding, shape_.vocabulary,
                  logits_.data(), d_normal_.data(), g + layout_.unembedding, pack_.data());
  kernels_.rms_norm_backward(x_.data(), d, weights_.data() + layout_.final_gain, inverse_.data(),
                             d_normal_.data(), d, d_x_.data(), d, false, g + layout_.final_gain, n, d);
  for (int i = shape_.layers - 1; i >= 0; --i) {
    blocks_[static_cast<std::size_t>(i)].backward(weights_.data(), d_x_.data(), g, fault_);
  }
  for (int token = 0; token < n; ++token) {
    const int byte = inputs_[static_cast<std::size_t>(token)];
    float* e = g + layout_.token_embedding + static_cast<std::size_t>(byte * d);
    float* p = g + layout_.position_embedding + static_cast<std::size_t>(token % shape_.context * d);
    const float* dx = d_x_.data() + token * d;
    for (int i = 0; i < d; ++i) {
      e[i] += dx[i];
      p[i] += dx[i];
    }
  }
}

const float* Model::qkv_weights(int layer) const {
  return weights_.data() + layout_.layers[static_cast<std::size_t>(layer)].qkv;
}

float Model::largest_logit() const {
  float largest = attention(0).largest_logit(0);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (int head = 0; head < shape_.heads; ++head) {
      const float logit = attention(layer).largest_logit(head);
      if (logit > largest || logit != logit) largest = logit;
    }
  }
  return largest;
}

void Model::scale_qk(int layer, int head, float factor) {
  const int d = shape_.d_model();
  float* w = weights_.data() + layout_.layers[static_cast<std::size_t>(layer)].qkv + head * shape_.head_dim;
  for (int row = 0; row < d; ++row, w += shape_.qkv_width()) {
    for (int i = 0; i < shape_.head_dim; ++i) {
      w[i] *= factor;
      w[d + i] *= factor;
    }
  }
}

}  // namespace foreshock::trainer
