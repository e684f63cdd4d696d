// The loss of a run, smoothed without being fooled by single batches. Kept by RunContext, read by the loss
// rules.
//
// Frames are gathered into blocks of 10 steps (one frame each where frames are further apart), a block's loss
// is the median of its frames, and the level is the median of 9 blocks. A few outlier batches never reach the
// level.
#pragma once

#include <cstdint>
#include <vector>

#include "robust.h"

namespace foreshock::detect {

class LossTrack {
 public:
  LossTrack() : blocks_(kLevelBlocks), differences_(64), jumps_(64) {}

  // Takes a finite loss. Returns whether it closed a block: the level is new then.
  bool Push(int64_t step, double loss);
  // What follows is not comparable with what was: a resume, another context length, a guard's switch.
  void Restart();

  bool known() const { return blocks_.size() >= kMinBlocks; }
  double level() const { return level_; }
  double best() const { return best_; }        // lowest level since the start or restart
  double initial() const { return initial_; }  // first loss of the run
  int64_t blocks() const { return block_count_; }
  // How far above best() is more than noise and worth a word: a tenth of what was learned, or five times the
  // scatter of blocks around their level.
  double threshold() const;
  bool above() const { return known() && level_ - best_ > threshold(); }
  // Standard deviation of blocks, from their differences while the loss is near its best; NaN before the
  // first.
  double noise() const;
  // The same of single frames.
  double frame_noise() const;

 private:
  static constexpr int64_t kBlockSteps = 10;
  static constexpr size_t kLevelBlocks = 9;
  static constexpr size_t kMinBlocks = 5;
  static constexpr size_t kMinNoise = 8;

  RobustWindow blocks_, differences_, jumps_;
  std::vector<double> open_;  // losses of the block being gathered
  int64_t open_from_ = -1, last_step_ = -1;
  int64_t block_count_ = 0;
  double last_loss_ = 0, last_block_ = 0, level_ = 0, best_ = 0, initial_ = 0;
  bool has_initial_ = false, has_best_ = false;
};

}  // namespace foreshock::detect
