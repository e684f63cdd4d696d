// What becomes of a head's r: changes of single steps, counted into the window that is read out with a frame.
#pragma once

#include "weight_tables.h"

namespace foreshock::cuda {

__device__ inline double SignOf(double c) {
  return c > 0 ? 1.0 : (c < 0 ? -1.0 : c);
}  // 0 and NaN as they are

// One single-step change along pair i.
__device__ inline void CountStep(UpdateRecord* u, int i, double r, double decay) {
  const double c = (r - u->r[i]) + decay * u->r[i];
  u->sum_c[i] += c;
  u->sum_abs_c[i] += fabs(c);
  u->sum_sign[i] += SignOf(c);
  if (!(c == 0)) ++u->nonzero[i];
  u->last_c[i] = c;
}

}  // namespace foreshock::cuda
