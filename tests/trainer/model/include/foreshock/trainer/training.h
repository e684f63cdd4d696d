#pragma once

#include <cstdint>
#include <string>

#include "foreshock/trainer/buffer.h"
#include "foreshock/trainer/data.h"
#include "foreshock/trainer/fault.h"
#include "foreshock/trainer/model.h"

namespace foreshock::trainer {

struct TrainingConfig {
  ModelShape shape;
  std::uint64_t seed = 1;
  double learning_rate = 3e-3;
  std::int64_t warmup_steps = 100;  // linear from 0; constant afterwards
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // decoupled, on matrices and embeddings
  double clip_norm = 1.0;     // global gradient norm; 0 turns clipping off
  Fault fault;
};

// What one optimizer step was.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;       // nats a token, before the update
  double grad_norm = 0;  // global, before clipping
  double learning_rate = 0;
  bool skipped = false;  // the gradient was not finite: weights unchanged
};

// Model, data and AdamW, one step at a time, in three parts so that a caller can look at what lies between
// them:
//   training.compute();   // batch, forward, backward: activations, gradients, W_t
//   training.update();    // clip, AdamW: W_{t+1}; step() moves on
// Neither allocates nor calls the system.
class Training {
 public:
  // The corpus must outlive this object.
  Training(const TrainingConfig& config, const Corpus& corpus);

  void compute();
  void update();

  std::int64_t step() const { return step_; }  // of the next or running compute()
  const StepResult& result() const { return result_; }
  bool fault_active() const { return config_.fault.active(step_); }
  const TrainingConfig& config() const { return config_; }
  Model& model() { return model_; }
  const Model& model() const { return model_; }

  // Everything that decides the following steps goes to, and comes from, one file (its layout heads
  // src/checkpoint.cc).
  // save() replaces `path` atomically and durably. restore() leaves the object unchanged when it fails: not a
  // checkpoint, damaged, or of another shape. False and a sentence in `error` in every failure.
  bool save(const std::string& path, std::string* error) const;
  bool restore(const std::string& path, std::string* error);

 private:
  TrainingConfig config_;
  Model model_;
  Sampler sampler_;
  Buffer first_moment_, second_moment_;
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;  // AdamW's t
  StepResult result_;
};

}  // namespace foreshock::trainer
