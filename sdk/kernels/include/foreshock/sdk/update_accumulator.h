// Keeps what single optimizer steps did along the frozen singular pairs of one weight matrix: the sums behind
// update_projection, update_sign_mean and update_drift_ratio. Host code, no allocation; one thread at a time.
//
// Protocol, for one head:
//   Start(r)            r_i of the present weights with fresh pairs. Nothing is counted yet.
//   Step(r, decay)      after each optimizer step: r_i of the new weights, same pairs.
//   Skip()              the optimizer step was skipped (loss scaling): nothing counts.
//   Refresh(old, decay, now, match)
//                       instead of Step when the pairs change at this step: r_i with the old pair closes the
//                       last difference, r_i with the new pair starts the next. A pair whose match is below
//                       0.7 (MatchPairs) marks the window as rotated.
//   Take()              the sums since the last Take, then zeroes them; the last r stays.
#pragma once

#include <cstdint>

#include "foreshock/sdk/weight_probe.h"

namespace foreshock::kernels {

inline constexpr double kRotatedBelow = 0.7;

struct UpdateSums {
  double sum_c[kPairs] = {0, 0, 0};      // update_projection_i; also the numerator of the drift ratio
  double sum_abs_c[kPairs] = {0, 0, 0};  // denominator of the drift ratio; 0: drift ratio is missing
  double sum_sign[kPairs] = {0, 0, 0};   // numerator of the sign mean, denominator n
  uint32_t nonzero[kPairs] = {0, 0, 0};  // steps with c_i != 0 (NaN included); 0: sign mean is missing
  uint32_t n = 0;                        // single steps counted; 0: all are missing
  uint32_t skipped = 0;                  // steps left out of n
  bool rotated[kPairs] = {false, false, false};

  bool HasProjection() const { return n > 0; }
  bool HasSignMean(int i) const { return n > 0 && nonzero[i] > 0; }
  bool HasDriftRatio(int i) const { return n > 0 && !(sum_abs_c[i] == 0); }
};

class UpdateAccumulator {
 public:
  // Forgets everything and takes r as the present state.
  void Start(const double r[kPairs]) noexcept;

  // c_i = r_new - r_old + decay * r_old. decay is lr * lambda of the step that was just taken where weight
  // decay is decoupled and known, else 0. A NaN in r makes this c NaN, and the next one; later ones recover.
  // Before Start it acts as Start.
  void Step(const double r[kPairs], double decay) noexcept;

  void Skip() noexcept;

  // As Step(old), then goes on from `now`. match may be null: taken as 1.
  void Refresh(const double old_pair[kPairs], double decay, const double new_pair[kPairs],
               const double* match) noexcept;

  // The window cannot be trusted any more (weights replaced, directions lost): drops the sums and waits for
  // Start.
  void Invalidate() noexcept;

  bool started() const { return started_; }
  const UpdateSums& sums() const { return sums_; }
  // The c_i of the last Step or Refresh, for shards that send every step's partial value.
  const double* last_c() const { return last_c_; }

  UpdateSums Take() noexcept;

 private:
  UpdateSums sums_;
  double r_[kPairs] = {0, 0, 0};
  double last_c_[kPairs] = {0, 0, 0};
  bool started_ = false;
};

}  // namespace foreshock::kernels
