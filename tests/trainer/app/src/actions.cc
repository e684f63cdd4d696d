#include "actions.h"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace foreshock::trainer {
namespace {

// Layers an action names; all of the model's when it names none. False when one is not the model's.
bool layers_of(const fs_action& action, int layers, std::vector<int>* out, std::string* why) {
  for (std::uint32_t i = 0; i < action.layer_count && i < FS_MAX_ACTION_LAYERS; ++i) {
    if (action.layers[i] >= static_cast<std::uint32_t>(layers)) {
      *why = "layer " + std::to_string(action.layers[i]) + ": the model has " + std::to_string(layers);
      return false;
    }
    out->push_back(static_cast<int>(action.layers[i]));
  }
  for (int layer = 0; action.layer_count == 0 && layer < layers; ++layer) out->push_back(layer);
  return true;
}

bool clip(fs_run* run, Training& training, int layer, double limit, std::string* why) {
  std::vector<float> factors(static_cast<std::size_t>(training.model().shape().heads));
  if (fs_qk_clip_factors(run, static_cast<std::uint32_t>(layer), limit, factors.data(),
                         static_cast<std::uint32_t>(factors.size())) != FS_OK) {
    *why = fs_last_error(run);
    return false;
  }
  for (std::size_t head = 0; head < factors.size(); ++head) {
    training.model().scale_qk(layer, static_cast<int>(head), factors[head]);
  }
  return true;
}

bool take(fs_run* run, const fs_action& action, Training& training, ActionTarget& target, std::string* why) {
  const std::string_view kind = action.kind;
  if (kind == "checkpoint") return target.checkpoint(why);
  if (kind == "stop") {
    target.stop();
    return true;
  }
  std::vector<int> layers;
  if (!layers_of(action, training.model().shape().layers, &layers, why)) return false;
  if (kind == "enable_qk_norm") {
    for (const int layer : layers) target.enable_qk_norm(layer);
    return true;
  }
  if (kind == "qk_clip") {
    if (!(action.value > 0) || !std::isfinite(action.value)) {
      *why = "qk_clip to " + std::to_string(action.value) + ": expected a logit above 0";
      return false;
    }
    for (const int layer : layers) {
      if (!clip(run, training, layer, action.value, why)) return false;
    }
    fs_weights_replaced(run);  // the jump is ours, not the optimizer's
    return true;
  }
  *why = "unknown action";
  return false;
}

}  // namespace

void take_actions(fs_run* run, Training& training, ActionTarget& target) {
  fs_action action;
  while (fs_action_poll(run, &action) == FS_OK) {
    std::string why;
    const bool taken = take(run, action, training, target, &why);
    fs_action_report(run, action.id, taken ? FS_ACTION_TAKEN : FS_ACTION_REFUSED,
                     taken ? nullptr : why.c_str());
    target.action_seen(action, taken);
  }
}

}  // namespace foreshock::trainer
