// Foreshock's C++ interface: a thin, header-only layer over foreshock.h, whose rules hold here too. Nothing
// throws.
//
//   foreshock::Options options;
//   options->run = "gpt-small-7";
//   foreshock::Run run(options);              // a run that could not be opened is not attached: every call
//   is free run.AddLayer(foreshock::Layer(0, 12, 64).Weights(wq, wk)); for (int64_t t = 0; t < steps; ++t) {
//     foreshock::Step step(run, t);           // ends the step when it goes out of scope
//     ...
//   }
//   run.Close(FS_FINISHED);
#ifndef FORESHOCK_FORESHOCK_HPP_
#define FORESHOCK_FORESHOCK_HPP_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/foreshock.h"

namespace foreshock {

// fs_options with its defaults. Strings given through -> must live until the Run is made.
class Options {
 public:
  Options() { fs_options_init(&options_); }
  fs_options* operator->() { return &options_; }
  const fs_options* get() const { return &options_; }

  Options& Run(const char* name) { return Set(&fs_options::run, name); }
  Options& Address(const char* address) { return Set(&fs_options::address, address); }
  Options& Attempt(const char* attempt) { return Set(&fs_options::attempt, attempt); }
  Options& Budget(double share) { return Set(&fs_options::budget, share); }
  // An action the trainer is ready to take. The text must live until the Run is made.
  Options& Allow(const char* action) {
    allowed_.push_back(action);
    options_.allowed_actions = allowed_.data();
    options_.allowed_action_count = static_cast<uint32_t>(allowed_.size());
    return *this;
  }

  Options(const Options&) = delete;  // allowed_actions points into this object
  Options& operator=(const Options&) = delete;

 private:
  template <typename T, typename V>
  Options& Set(T fs_options::*field, V value) {
    options_.*field = value;
    return *this;
  }
  fs_options options_;
  std::vector<const char*> allowed_;
};

// W_Q or W_K stored as torch's Linear holds it: [heads * head_dim, model_dim], one output a row.
inline fs_weights LinearWeights(const void* data, fs_dtype dtype, int64_t model_dim, int64_t head_dim,
                                double weight_decay = 0) {
  fs_weights weights;
  fs_weights_init(&weights);
  weights.data = data;
  weights.dtype = dtype;
  weights.row_stride = 1;
  weights.col_stride = model_dim;
  weights.head_stride = head_dim * model_dim;
  weights.weight_decay = weight_decay;
  return weights;
}

// fs_layer with its defaults and room for its weights.
class Layer {
 public:
  Layer(uint32_t index, uint32_t heads, uint32_t head_dim) {
    fs_layer_init(&layer_);
    layer_.layer = index;
    layer_.query_heads = layer_.kv_heads = heads;
    layer_.head_dim = head_dim;
  }
  Layer& KvHeads(uint32_t heads) {
    layer_.kv_heads = heads;
    return *this;
  }
  Layer& Weights(uint32_t model_dim, const fs_weights& wq, const fs_weights& wk) {
    layer_.model_dim = model_dim;
    wq_ = wq;
    wk_ = wk;
    has_weights_ = true;
    return *this;
  }
  fs_layer* operator->() { return &layer_; }
  fs_layer Get() const {
    fs_layer layer = layer_;
    if (has_weights_) {
      layer.wq = &wq_;
      layer.wk = &wk_;
    }
    return layer;
  }

 private:
  fs_layer layer_;
  fs_weights wq_, wk_;
  bool has_weights_ = false;
};

// Owns a handle. Movable. Closed as stopped by the destructor when Close was not called.
class Run {
 public:
  Run() = default;
  explicit Run(const Options& options) { status_ = fs_open(options.get(), &run_); }
  ~Run() { Close(FS_STOPPED); }
  Run(Run&& other) noexcept : run_(std::exchange(other.run_, nullptr)), status_(other.status_) {}
  Run& operator=(Run&& other) noexcept {
    if (this != &other) {
      Close(FS_STOPPED);
      run_ = std::exchange(other.run_, nullptr);
      status_ = other.status_;
    }
    return *this;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  fs_run* get() const { return run_; }
  fs_status open_status() const { return status_; }
  bool attached() const { return fs_attached(run_) != 0; }
  std::string last_error() const { return fs_last_error(run_); }

  fs_status AddLayer(const Layer& layer) {
    const fs_layer plain = layer.Get();
    return fs_add_layer(run_, &plain);
  }
  fs_status Unmonitored(const std::string& name, const std::string& reason) {
    return fs_unmonitored(run_, name.c_str(), reason.c_str());
  }
  fs_status Event(fs_event_kind kind, int64_t step, const std::string& detail = "") {
    return fs_event(run_, kind, step, detail.c_str());
  }
  fs_status EnableGuard(bool automatic = true) {
    fs_guard_options options;
    fs_guard_options_init(&options);
    options.automatic = automatic ? 1 : 0;
    return fs_guard_enable(run_, &options);
  }
  bool GuardActive(uint32_t layer) const { return fs_guard_active(run_, layer) != 0; }
  // State to keep beside the model's; empty while the guard is not enabled.
  std::vector<char> GuardState() const {
    size_t bytes = 0;
    if (fs_guard_save(run_, nullptr, &bytes) != FS_OK) return {};
    std::vector<char> state(bytes);
    if (fs_guard_save(run_, state.data(), &bytes) != FS_OK) return {};
    return state;
  }
  fs_status RestoreGuard(const std::vector<char>& state) {
    return fs_guard_restore(run_, state.data(), state.size());
  }

  // Calls take(action) for every action whose moment has come and reports its answer: true for taken. Call it
  // between steps.
  void PollActions(const std::function<bool(const fs_action&)>& take) {
    fs_action action;
    while (fs_action_poll(run_, &action) == FS_OK) {
      fs_action_report(run_, action.id, take(action) ? FS_ACTION_TAKEN : FS_ACTION_REFUSED, nullptr);
    }
  }

  fs_stats Stats() const {
    fs_stats stats;
    fs_stats_init(&stats);
    fs_get_stats(run_, &stats);
    return stats;
  }

  fs_status Close(fs_end end) { return fs_close(std::exchange(run_, nullptr), end); }

 private:
  fs_run* run_ = nullptr;
  fs_status status_ = FS_OK;
};

// One optimizer step, from construction to destruction.
class Step {
 public:
  Step(Run& run, int64_t step) : run_(run.get()) { fs_step_begin(run_, step); }
  ~Step() { fs_step_end(run_); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Forward of one layer; fill(attention) is called only when the layer is to be sampled.
  template <typename Fill>
  fs_status Forward(uint32_t layer, Fill&& fill) {
    if (!fs_wants_attention(run_, layer)) return FS_OK;
    fs_attention attention;
    fs_attention_init(&attention);
    fill(attention);
    return fs_attention_forward(run_, layer, &attention);
  }
  template <typename Fill>
  fs_status Backward(uint32_t layer, Fill&& fill) {
    if (!fs_wants_attention_backward(run_, layer)) return FS_OK;
    fs_attention attention;
    fs_attention_init(&attention);
    fill(attention);
    return fs_attention_backward(run_, layer, &attention);
  }
  fs_status Loss(double mean_loss, double tokens) { return fs_loss(run_, mean_loss, tokens); }
  fs_status GradNorm(double value) { return fs_scalar(run_, FS_GRAD_NORM, value); }
  fs_status LearningRate(double value) { return fs_scalar(run_, FS_LEARNING_RATE, value); }
  fs_status LossScale(double value) { return fs_scalar(run_, FS_LOSS_SCALE, value); }
  fs_status Skipped() { return fs_step_skipped(run_); }

 private:
  fs_run* run_;
};

}  // namespace foreshock

#endif  // FORESHOCK_FORESHOCK_HPP_
