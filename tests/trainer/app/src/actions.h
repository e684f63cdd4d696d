#pragma once

#include <cstdint>
#include <string>

#include "foreshock/foreshock.h"
#include "foreshock/trainer/training.h"

namespace foreshock::trainer {

// What a trainer can do when Foreshock asks. A method returns false, with the reason in `why`, to refuse.
class ActionTarget {
 public:
  virtual ~ActionTarget() = default;
  virtual void enable_qk_norm(int layer) = 0;
  virtual bool checkpoint(std::string* why) = 0;
  virtual void stop() = 0;
  virtual void action_seen(const fs_action& action, bool taken) = 0;  // for the log
};

// Takes every action whose moment has come: enable_qk_norm, qk_clip, checkpoint, stop. Called between steps.
void take_actions(fs_run* run, Training& training, ActionTarget& target);

}  // namespace foreshock::trainer
