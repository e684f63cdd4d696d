// Decides that a head's logits begin to run away: pure, no clock, no model.
//
// For every sample it is given, per head, the saturated row fraction and the largest logit. Two things are
// compared with the head's own baseline (median and MAD of its last samples that were not excessive):
//   - the saturated fraction itself,
//   - its growth: how far the head's log(logit_max) stands above that of the median head of the model, or, by
//   a
//     larger margin, above its own past. The second is for a fault in all heads, which lifts the median as
//     well.
// A head that exceeds in saturation and in growth for 3 samples in a row triggers. No absolute logit is used:
// healthy runs live anywhere between 10 and 2,000.
//
// The figures below were tried on 45 recorded runs (docs/design/2026-11-29-sdk.md). After the constructor
// nothing allocates. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreshock::sdk {

struct TriggerOptions {
  uint32_t window = 60;             // samples in a baseline
  uint32_t min_samples = 20;        // before which a head cannot trigger
  uint32_t persistence = 3;         // excessive samples in a row
  double saturation_margin = 0.05;  // at least so far above the baseline's median (a fraction of rows)
  double growth_margin = 0.5;       // the same for the log ratio to the median head: a factor of 1.65
  double own_growth_margin = 1.2;   // the same for the log logit itself: a factor of 3.3
  double mads = 4;                  // and at least so many robust standard deviations
  // Deviations ask for no more than this. A head that grows steadily takes its baseline with it, deviations
  // and all, and one whose saturation varies widely would have to saturate more rows than there are.
  double most_growth = 1.5;    // the log ratio to the median head above its median: a factor of 4.5
  double share_of_room = 0.8;  // of what the saturated fraction can still rise
};

struct HeadReading {
  bool present = false;
  double saturated = 0;  // fraction of rows; NaN counts as excessive
  double logit_max = 0;
};

class SaturationTrigger {
 public:
  explicit SaturationTrigger(size_t heads, TriggerOptions options = {});

  // One sample of all heads. triggered[h] becomes 1 for heads that trigger now, else 0.
  void Observe(const std::vector<HeadReading>& heads, std::vector<uint8_t>* triggered) noexcept;
  // Forgets a head's baseline: after a switch its logits are of another kind.
  void Restart(size_t head) noexcept;

  size_t head_count() const { return heads_.size(); }

  // A baseline as it is saved and restored.
  struct Baseline {
    uint32_t streak = 0;
    std::vector<float> saturated, growth, logit;  // oldest first, the same length; logit is log(logit_max)
  };
  Baseline Save(size_t head) const;
  void Restore(size_t head, const Baseline& baseline);

 private:
  struct Head {
    std::vector<float> saturated, growth, logit;  // rings of options_.window
    uint32_t count = 0;
    uint32_t next = 0;
    uint32_t streak = 0;
  };
  double MedianGrowth(const std::vector<HeadReading>& heads) noexcept;
  // How far above the baseline's median: by deviations, at least and at most so much; `end`: what the value
  // cannot pass.
  struct Margin {
    double least, most, end;
  };
  bool Exceeds(const std::vector<float>& ring, uint32_t count, double value, const Margin& margin) noexcept;

  TriggerOptions options_;
  std::vector<Head> heads_;
  std::vector<double> scratch_;
};

}  // namespace foreshock::sdk
