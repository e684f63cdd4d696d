#include "loss_track.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

// Median |difference| of two normal values is 0.6745 * sqrt(2) standard deviations.
constexpr double kDifferenceToSigma = 1.0484;

}  // namespace

bool LossTrack::Push(int64_t step, double loss) {
  if (!has_initial_) initial_ = loss;
  has_initial_ = true;
  if (last_step_ >= 0) jumps_.Push(std::abs(loss - last_loss_));
  last_loss_ = loss;
  if (open_.empty()) open_from_ = step;
  open_.push_back(loss);
  const bool sparse = last_step_ >= 0 && step - last_step_ >= kBlockSteps;
  last_step_ = step;
  if (!sparse && step - open_from_ + 1 < kBlockSteps) return false;
  const double block = MedianInPlace(open_);
  open_.clear();
  ++block_count_;
  blocks_.Push(block);
  level_ = blocks_.Recent(kLevelBlocks);
  if (known() && (!has_best_ || level_ < best_)) {
    best_ = level_;
    has_best_ = true;
  }
  // Noise is learned while the loss is near its best: what a divergence adds is no noise.
  const double learned = std::max(initial_ - best_, 0.0);
  const bool calm = has_best_ && level_ - best_ <= std::max(0.1 * learned, 0.02 * std::abs(best_));
  if (known() && (calm || differences_.size() < kMinNoise)) {
    differences_.Push(std::abs(block - last_block_));
  }
  last_block_ = block;
  return true;
}

void LossTrack::Restart() {
  blocks_.Clear();
  open_.clear();
  has_best_ = false;
}

double LossTrack::threshold() const {
  const double scatter = differences_.size() >= kMinNoise ? 5 * noise() : 0.1 * std::abs(best_);
  return std::max({0.1 * (initial_ - best_), scatter, 0.02 * std::abs(best_)});
}

double LossTrack::noise() const { return kDifferenceToSigma * differences_.Recent(differences_.size()); }

double LossTrack::frame_noise() const { return kDifferenceToSigma * jumps_.Recent(jumps_.size()); }

}  // namespace foreshock::detect
