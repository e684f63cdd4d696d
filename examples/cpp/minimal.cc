// A trainer in C++ with everything that Foreshock offers one: a handle closed by its destructor, warnings in
// the trainer's own log, the guard, and actions. The model is one attention layer (2 heads of 16, fused Q and
// K) that learns by gradient descent where the token of two places ago is.
//
//   c++ -std=c++20 minimal.cc -I .../sdk/capi/include -L .../build/lib -lforeshock -o minimal
//   FORESHOCK_ADDR=file:minimal.jsonl ./minimal
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "foreshock/foreshock.h"

namespace {

constexpr int kTokens = 32, kHeads = 2, kDim = 16, kModel = kHeads * kDim, kSteps = 1000;
constexpr float kScale = 0.25f;  // 1 / sqrt(kDim)

using Matrix = std::vector<float>;

// ---- the model
// -----------------------------------------------------------------------------------------------

struct Model {
  Matrix qk_weights = Matrix(kModel * 2 * kModel);  // [model, Q heads then K heads], row-major
  Matrix x = Matrix(kTokens * kModel);              // inputs, which are also the values
  Matrix qk = Matrix(kTokens * 2 * kModel), used = qk, d_used = qk;  // used: after the guard's normalization
  Matrix o = Matrix(kTokens * kModel), d_o = o;
  std::vector<double> p = std::vector<double>(kTokens * kTokens);

  double compute(bool normalize);
  double update(float rate);

 private:
  double attend(int head);
};

fs_tensor heads_of(const Matrix& m, int from, int stride) {
  fs_tensor t = fs_tensor_bshd(m.data() + from, FS_FP32, 1, kTokens, kHeads, kDim);
  t.seq_stride = stride;
  t.batch_stride = static_cast<int64_t>(kTokens) * stride;
  return t;
}

double Model::compute(bool normalize) {
  std::fill(qk.begin(), qk.end(), 0.0f);
  for (int t = 0; t < kTokens; ++t)
    for (int i = 0; i < kModel; ++i)
      for (int j = 0; j < 2 * kModel; ++j)
        qk[t * 2 * kModel + j] += x[t * kModel + i] * qk_weights[i * 2 * kModel + j];
  used = qk;
  std::fill(d_used.begin(), d_used.end(), 0.0f);
  for (const int part : {0, kModel}) {  // FORESHOCK: the guard's normalization, ready-made
    const fs_tensor in = heads_of(qk, part, 2 * kModel), out = heads_of(used, part, 2 * kModel);
    if (normalize) fs_qk_norm_forward(&in, &out);
  }
  double loss = 0;
  for (int h = 0; h < kHeads; ++h) loss += attend(h);
  return loss;
}

// Forward and backward of one head; returns its part of the mean squared error.
double Model::attend(int head) {
  const auto q = [&](int t) { return used.data() + t * 2 * kModel + head * kDim; };
  const auto k = [&](int t) { return q(t) + kModel; };
  double loss = 0;
  for (int t = 0; t < kTokens; ++t) {
    double total = 0, delta = 0;
    for (int s = 0; s <= t; ++s) {
      double score = 0;
      for (int i = 0; i < kDim; ++i) score += kScale * q(t)[i] * k(s)[i];
      total += p[s] = std::exp(score);
    }
    for (int i = 0; i < kDim; ++i) {
      const int at = t * kModel + head * kDim + i;
      double mixed = 0;
      for (int s = 0; s <= t; ++s) mixed += p[s] / total * x[s * kModel + head * kDim + i];
      const double error = mixed - (t >= 2 ? x[at - 2 * kModel] : 0);
      o[at] = static_cast<float>(mixed);
      d_o[at] = static_cast<float>(2 * error / (kTokens * kModel));
      delta += d_o[at] * mixed;
      loss += error * error / (kTokens * kModel);
    }
    for (int s = 0; s <= t; ++s) {
      double dp = 0;
      for (int i = 0; i < kDim; ++i)
        dp += d_o[t * kModel + head * kDim + i] * x[s * kModel + head * kDim + i];
      const auto ds = static_cast<float>(kScale * p[s] / total * (dp - delta));
      float* dq = d_used.data() + t * 2 * kModel + head * kDim;
      float* dk = d_used.data() + s * 2 * kModel + kModel + head * kDim;
      for (int i = 0; i < kDim; ++i) dq[i] += ds * k(s)[i], dk[i] += ds * q(t)[i];
    }
  }
  return loss;
}

double Model::update(float rate) {  // d_used by now holds the derivative of qk; returns the gradient's norm
  double squares = 0;
  for (int i = 0; i < kModel; ++i)
    for (int j = 0; j < 2 * kModel; ++j) {
      float g = 0;
      for (int t = 0; t < kTokens; ++t) g += x[t * kModel + i] * d_used[t * 2 * kModel + j];
      qk_weights[i * 2 * kModel + j] -= rate * g;
      squares += static_cast<double>(g) * g;
    }
  return std::sqrt(squares);
}

// ---- FORESHOCK: all that a trainer adds
// ----------------------------------------------------------------------

struct Close {
  void operator()(fs_run* fs) const { fs_close(fs, FS_FINISHED); }
};
using Handle = std::unique_ptr<fs_run, Close>;

Handle open_watched(const Model& model) {
  static constexpr std::array<const char*, 2> kActions = {"enable_qk_norm", "stop"};
  fs_options options;
  fs_options_init(&options);
  options.run = "minimal-cpp";
  options.budget = 1;  // a step this small would leave no room for 0.4 %
  options.allowed_actions = kActions.data();
  options.allowed_action_count = kActions.size();
  options.log = [](void*, fs_log_level, const char* message) {
    std::cerr << "foreshock: " << message << '\n';
  };
  fs_run* fs = nullptr;
  fs_open(&options, &fs);

  fs_weights wq;
  fs_weights_init(&wq);
  wq.data = model.qk_weights.data();
  wq.row_stride = 2 * kModel;
  wq.col_stride = 1;
  wq.head_stride = kDim;
  fs_weights wk = wq;
  wk.data = model.qk_weights.data() + kModel;
  fs_layer layer;
  fs_layer_init(&layer);
  layer.model_dim = kModel;
  layer.query_heads = layer.kv_heads = kHeads;
  layer.head_dim = kDim;
  layer.wq = &wq;
  layer.wk = &wk;
  fs_add_layer(fs, &layer);

  fs_guard_options guard;
  fs_guard_options_init(&guard);
  guard.automatic = 1;
  if (fs_guard_enable(fs, &guard) != FS_OK) std::cerr << "no guard: " << fs_last_error(fs) << '\n';
  return Handle(fs);
}

void show_attention(fs_run* fs, const Model& model) {
  if (!fs_wants_attention(fs, 0) && !fs_wants_attention_backward(fs, 0)) return;
  fs_attention a;
  fs_attention_init(&a);
  a.q = heads_of(model.used, 0, 2 * kModel);
  a.k = heads_of(model.used, kModel, 2 * kModel);
  a.v = heads_of(model.x, 0, kModel);
  a.o = heads_of(model.o, 0, kModel);
  a.d_o = heads_of(model.d_o, 0, kModel);
  a.dq = heads_of(model.d_used, 0, 2 * kModel);
  fs_attention_forward(fs, 0, &a);
  fs_attention_backward(fs, 0, &a);
}

// False: training is to stop. enable_qk_norm needs no more than being taken: with the guard enabled it
// switches the guard on.
bool take_actions(fs_run* fs) {
  bool go_on = true;
  fs_action action;
  while (fs_action_poll(fs, &action) == FS_OK) {
    std::cerr << action.issuer << " asks for " << action.kind << ": " << action.reason << '\n';
    if (std::string_view(action.kind) == "stop") go_on = false;
    fs_action_report(fs, action.id, FS_ACTION_TAKEN, nullptr);
  }
  return go_on;
}

}  // namespace

int main() {
  constexpr float kRate = 5;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.2f);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Model model;
  for (float& w : model.qk_weights) w = normal(random);
  const Handle fs = open_watched(model);

  double loss = 0;
  bool go_on = true;
  int step = 0;
  for (; step < kSteps && go_on; ++step) {
    for (float& value : model.x) value = uniform(random);
    for (int t = 0; t < kTokens; ++t) {
      model.x[t * kModel] = std::cos(0.4f * static_cast<float>(t));
      model.x[t * kModel + kDim] = std::sin(0.4f * static_cast<float>(t));
    }
    fs_step_begin(fs.get(), step);
    const bool normalize = fs_guard_active(fs.get(), 0) != 0;
    loss = model.compute(normalize);
    show_attention(fs.get(), model);
    for (const int part : {0, kModel}) {  // back through the guard's normalization
      const fs_tensor in = heads_of(model.qk, part, 2 * kModel), d = heads_of(model.d_used, part, 2 * kModel);
      if (normalize) fs_qk_norm_backward(&in, &d, &d);
    }
    fs_loss(fs.get(), loss, kTokens);
    fs_scalar(fs.get(), FS_GRAD_NORM, model.update(kRate));
    fs_scalar(fs.get(), FS_LEARNING_RATE, kRate);
    fs_step_end(fs.get());
    go_on = take_actions(fs.get());
  }
  std::printf("%d steps, loss %.4f\n", step, loss);
}
