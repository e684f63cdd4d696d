// The inner constants of qk_runaway. `foreshock tune --constants` tries others; everybody else takes these.
// docs/rules/qk_runaway.md says what the rule does with them, docs/design/2026-11-29-detection.md how they
// came about.
#pragma once

#include <cstdint>

namespace foreshock::detect {

struct QkRunawayConstants {
  // Growth is measured over so many steps, about the memory of common optimizers (beta2 0.99 to 0.999), or
  // over 5 % of the run's age where that is longer.
  int64_t window_steps = 200;
  // The lead over the median head is measured over this share of the run's age.
  double growth_share = 0.2;
  // A run is judged once it is so many windows old, and has to say more until it is grown up.
  double young_windows = 3, grown_up_windows = 5;
  // Score from which a second signal agrees; it needs less than the first because it has its own noise.
  double agreement = 0.55;
  // Share of an update's norm along the leading direction, mean of 10 samples, that makes it directed.
  double directed = 0.15;
  // Factor on the score of a head that has lived saturated, as heads of large models do at logits of 2,000.
  double used_to_it = 0.8;
};

}  // namespace foreshock::detect
