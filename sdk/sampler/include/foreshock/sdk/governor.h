// Keeps Foreshock's own time below a share of step time by stretching two intervals: that of sampled steps
// (spectra and attention), and that of the single steps that count in update_* (projections).
//
// It is told how long each step took and how long Foreshock's calls took in it, and answers with factors,
// powers of
// 2. So the grids of ranks that stretch differently still nest: a step that a slow rank samples is one that a
// fast rank samples too. Projections get at most half of the budget, samples what is left.
//
// Rising is quick (the sampled step that shows the need), falling slow (8 sampled steps in a row at which
// half the share would do). One thread; no allocation; no clock of its own.
#pragma once

#include <cstdint>

namespace foreshock::sdk {

class Governor {
 public:
  static constexpr uint32_t kMaxFactor = 1u << 20;

  // budget: share of step time, e.g. 0.004; 1 or more never stretches. interval: steps between samples at
  // factor 1. The first `warm_up` sampled steps do not count (they allocate).
  Governor(double budget, uint32_t interval, uint32_t warm_up = 2);

  // total_nanos: from the step's begin to its end, own time included. sampled: per-head signals were taken.
  // tracked: projections were taken.
  void EndStep(bool sampled, bool tracked, int64_t total_nanos, int64_t own_nanos) noexcept;

  // What Foreshock's kernels take of the device's time at the present factors, measured from outside (CUPTI):
  // where it is more than share() knows of, all is taken for that much dearer from here on. Less changes
  // nothing, because the host's time is not in it.
  void Measured(double device_share) noexcept;

  uint32_t sample_factor() const noexcept { return samples_.factor; }
  uint32_t projection_factor() const noexcept { return projections_.factor; }
  // Share of step time that is spent at the present factors, as far as is known.
  double share() const noexcept;

 private:
  struct Stretch {
    uint32_t factor = 1;
    uint32_t calm = 0;
  };
  double SampleShare(uint32_t factor) const noexcept;
  double ProjectionShare(uint32_t factor) const noexcept;
  template <typename ShareFn>
  static void Adjust(Stretch* stretch, double allowed, ShareFn share) noexcept;

  double budget_;
  uint32_t interval_;
  uint32_t warm_up_;
  Stretch samples_, projections_;
  // Moving averages in nanoseconds; negative: not known yet.
  double step_ = -1;        // the trainer's own part of a step
  double projection_ = -1;  // one reading of all projections (and what every step costs)
  double sample_ = -1;      // a sample, beyond that
  double dearer_ = 1;       // by Measured
};

}  // namespace foreshock::sdk
