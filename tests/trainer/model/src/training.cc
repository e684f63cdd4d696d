#include "foreshock/trainer/training.h"

#include <algorithm>
#include <cmath>

#include "foreshock/trainer/kernels.h"

namespace foreshock::trainer {

Training::Training(const TrainingConfig& config, const Corpus& corpus)
    : config_(config),
      model_(config.shape, config.seed),
      sampler_(corpus, config.shape.batch, config.shape.context, config.seed),
      first_moment_(model_.layout().count),
      second_moment_(model_.layout().count) {}

void Training::compute() {
  const Fault* fault = fault_active() ? &config_.fault : nullptr;
  sampler_.draw();
  result_.step = step_;
  result_.loss = model_.forward(sampler_.inputs(), sampler_.targets(), fault);
  model_.backward();
  result_.grad_norm = std::sqrt(
      kernels().sum_of_squares(model_.gradients().data(), static_cast<int>(model_.gradients().size())));
  const double warm =
      static_cast<double>(step_ + 1) / static_cast<double>(std::max<std::int64_t>(config_.warmup_steps, 1));
  result_.learning_rate = config_.learning_rate * std::min(1.0, warm);
  result_.skipped = !std::isfinite(result_.grad_norm);
}

void Training::update() {
  ++step_;
  if (result_.skipped) return;
  ++updates_;
  const double clip = config_.clip_norm;
  AdamStep adam{};
  adam.learning_rate = static_cast<float>(result_.learning_rate);
  adam.beta1 = static_cast<float>(config_.beta1);
  adam.beta2 = static_cast<float>(config_.beta2);
  adam.epsilon = static_cast<float>(config_.epsilon);
  adam.correction1 = static_cast<float>(1 - std::pow(config_.beta1, static_cast<double>(updates_)));
  adam.correction2 = static_cast<float>(1 - std::pow(config_.beta2, static_cast<double>(updates_)));
  adam.gradient_scale =
      clip > 0 && result_.grad_norm > clip ? static_cast<float>(clip / result_.grad_norm) : 1.0f;
  adam.decay = static_cast<float>(result_.learning_rate * config_.weight_decay);
  const int decayed = static_cast<int>(model_.layout().decayed);
  const int all = static_cast<int>(model_.layout().count);
  float* w = model_.weights().data();
  const float* g = model_.gradients().data();
  float* m = first_moment_.data();
  float* v = second_moment_.data();
  kernels().adamw(w, g, m, v, decayed, adam);
  adam.decay = 0;
  kernels().adamw(w + decayed, g + decayed, m + decayed, v + decayed, all - decayed, adam);
}

}  // namespace foreshock::trainer
