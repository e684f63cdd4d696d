#include "foreshock/sdk/saturation_trigger.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::sdk {
namespace {

constexpr double kMadToSigma = 1.4826;
constexpr double kSmallestLogit = 1e-3;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double LogLogit(double logit_max) { return std::log(std::max(logit_max, kSmallestLogit)); }

// Upper median of the first n entries; reorders them.
double Median(std::vector<double>& values, size_t n) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(n / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<ptrdiff_t>(n));
  return *middle;
}

}  // namespace

SaturationTrigger::SaturationTrigger(size_t heads, TriggerOptions options)
    : options_(options), heads_(heads), scratch_(std::max<size_t>(heads, options.window)) {
  for (Head& head : heads_) {
    head.saturated.resize(options_.window);
    head.growth.resize(options_.window);
    head.logit.resize(options_.window);
  }
}

double SaturationTrigger::MedianGrowth(const std::vector<HeadReading>& heads) noexcept {
  size_t n = 0;
  for (const HeadReading& head : heads) {
    if (head.present && std::isfinite(head.logit_max)) scratch_[n++] = LogLogit(head.logit_max);
  }
  return n == 0 ? 0 : Median(scratch_, n);
}

bool SaturationTrigger::Exceeds(const std::vector<float>& ring, uint32_t count, double value,
                                const Margin& margin) noexcept {
  if (!std::isfinite(value)) return true;
  for (uint32_t i = 0; i < count; ++i) scratch_[i] = ring[i];
  const double median = Median(scratch_, count);
  for (uint32_t i = 0; i < count; ++i) scratch_[i] = std::fabs(ring[i] - median);
  const double mad = Median(scratch_, count);
  const double by_deviations = options_.mads * kMadToSigma * mad;
  const double capped = std::min({by_deviations, margin.most, options_.share_of_room * (margin.end - median)});
  return value - median > std::max(margin.least, capped);
}

void SaturationTrigger::Observe(const std::vector<HeadReading>& readings,
                                std::vector<uint8_t>* triggered) noexcept {
  const double typical = MedianGrowth(readings);
  for (size_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    const HeadReading& reading = readings[h];
    (*triggered)[h] = 0;
    if (!reading.present) continue;
    const double logit = std::isnan(reading.logit_max) ? reading.logit_max : LogLogit(reading.logit_max);
    const double growth = logit - typical;
    const bool settled = head.count >= options_.min_samples;
    const Margin saturation{options_.saturation_margin, kNoLimit, 1};
    const Margin beside{options_.growth_margin, options_.most_growth, kNoLimit};
    const Margin own{options_.own_growth_margin, kNoLimit, kNoLimit};
    const bool excess =
        settled && Exceeds(head.saturated, head.count, reading.saturated, saturation) &&
        (Exceeds(head.growth, head.count, growth, beside) || Exceeds(head.logit, head.count, logit, own));
    if (excess) {
      (*triggered)[h] = ++head.streak >= options_.persistence;
      continue;  // what is excessive does not become the baseline
    }
    head.streak = 0;
    if (!std::isfinite(growth) || !std::isfinite(reading.saturated)) continue;
    head.saturated[head.next] = static_cast<float>(reading.saturated);
    head.growth[head.next] = static_cast<float>(growth);
    head.logit[head.next] = static_cast<float>(logit);
    head.next = (head.next + 1) % options_.window;
    head.count = std::min(head.count + 1, options_.window);
  }
}

void SaturationTrigger::Restart(size_t head) noexcept {
  heads_[head].count = heads_[head].next = heads_[head].streak = 0;
}

SaturationTrigger::Baseline SaturationTrigger::Save(size_t index) const {
  const Head& head = heads_[index];
  Baseline baseline;
  baseline.streak = head.streak;
  const uint32_t oldest = head.count < options_.window ? 0 : head.next;
  for (uint32_t i = 0; i < head.count; ++i) {
    baseline.saturated.push_back(head.saturated[(oldest + i) % options_.window]);
    baseline.growth.push_back(head.growth[(oldest + i) % options_.window]);
    baseline.logit.push_back(head.logit[(oldest + i) % options_.window]);
  }
  return baseline;
}

void SaturationTrigger::Restore(size_t index, const Baseline& baseline) {
  Head& head = heads_[index];
  const size_t all = std::min({baseline.saturated.size(), baseline.growth.size(), baseline.logit.size()});
  const size_t kept = std::min<size_t>(all, options_.window);
  for (size_t i = 0; i < kept; ++i) {
    head.saturated[i] = baseline.saturated[all - kept + i];
    head.growth[i] = baseline.growth[all - kept + i];
    head.logit[i] = baseline.logit[all - kept + i];
  }
  head.count = static_cast<uint32_t>(kept);
  head.next = head.count % options_.window;
  head.streak = baseline.streak;
}

}  // namespace foreshock::sdk
