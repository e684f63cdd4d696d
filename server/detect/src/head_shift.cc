#include "head_shift.h"

namespace foreshock::detect {

HeadShift::HeadShift(size_t heads)
    : level_(heads, 0, kLevelSamples),
      past_(heads, kBaselineSamples, kLevelSamples),
      baseline_(heads),
      since_(heads, -1),
      shifted_samples_(heads) {}

void HeadShift::Push(const StepView& step, const HeadValues& values, const RunContext& context) {
  const bool refresh = samples_++ % kRefreshSamples == 0;
  for (size_t head = 0; head < baseline_.size(); ++head) {
    if (context.guard_switched(head / step.heads())) {
      level_.Clear(head);
      past_.Clear(head);
      baseline_[head] = Baseline();
      since_[head] = -1;
      shifted_samples_[head] = 0;
    }
    if (!values.Finite(head)) continue;
    level_.Push(head, values.value[head]);
    const bool frozen = since_[head] >= 0 && shifted_samples_[head] < kThawSamples;
    if (frozen) continue;
    past_.Push(head, values.value[head]);
    if (refresh || baseline_[head].count < kMinBaseline) baseline_[head] = past_.Get(head);
  }
}

void HeadShift::Mark(size_t head, bool shifted, int64_t step) {
  if (!shifted) {
    since_[head] = -1;
    shifted_samples_[head] = 0;
    return;
  }
  if (since_[head] < 0) since_[head] = step;
  ++shifted_samples_[head];
}

}  // namespace foreshock::detect
