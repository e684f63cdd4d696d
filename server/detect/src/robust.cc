#include "robust.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace foreshock::detect {
namespace {

constexpr double kMadToSigma = 1.4826;
constexpr size_t kFew = 12;

// Insertion sort: for the few values of a level it beats any selection.
void SortFew(std::span<double> values) {
  for (size_t i = 1; i < values.size(); ++i) {
    const double value = values[i];
    size_t at = i;
    for (; at > 0 && values[at - 1] > value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
}

// From so many values on, a sample tells where the middle lies. The bracket is two standard deviations of a
// sample's middle rank to each side: it misses the middle in one of 25.
constexpr size_t kMany = 256, kSample = 128, kMargin = 12;

// 1 where a < b, one of them finite: the sign of the difference, which loops over many take as vector code.
uint64_t Less(double a, double b) { return std::bit_cast<uint64_t>(a - b) >> 63; }

// Values among which the one of rank `rank` (0: the least) and the one before it are.
struct Part {
  std::span<double> values;
  size_t rank;
};

// Leaves out what is certainly not near the rank: one pass that counts and one that keeps, both without
// branches that depend on the values. The same part where the sample misled.
Part Narrow(const Part& part) {
  const size_t n = part.values.size(), stride = n / kSample;
  std::array<double, kSample> sample;
  for (size_t i = 0; i < kSample; ++i) sample[i] = part.values[i * stride];
  const size_t at = part.rank * kSample / n;
  const size_t from = at - std::min(at, kMargin), to = std::min(at + kMargin, kSample - 1);
  std::nth_element(sample.begin(), sample.begin() + from, sample.end());
  const double low = sample[from];
  std::nth_element(sample.begin() + from, sample.begin() + to, sample.end());
  const double high = sample[to];
  if (!std::isfinite(low) || !std::isfinite(high)) return part;
  size_t below = 0, above = 0;
  for (const double value : part.values) {
    below += Less(value, low);
    above += Less(high, value);
  }
  if (part.rank <= below || part.rank >= n - above) return part;
  size_t kept = 0;
  for (const double value : part.values) {
    part.values[kept] = value;
    kept += 1 - (Less(value, low) | Less(high, value));
  }
  return {part.values.first(kept), part.rank - below};
}

}  // namespace

double MedianInPlace(std::span<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const bool odd = values.size() % 2 == 1;
  size_t middle = values.size() / 2;
  if (values.size() <= kFew) {
    SortFew(values);
    return odd ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  }
  while (values.size() >= kMany) {
    const Part part = Narrow({values, middle});
    const bool narrowed = part.values.size() < values.size();
    values = part.values;
    middle = part.rank;
    if (!narrowed) break;
  }
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const double upper = values[middle];
  if (odd) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), values.begin() + middle));
}

Baseline RobustBaseline(std::span<const double> values, std::vector<double>* scratch) {
  Baseline baseline;
  baseline.count = values.size();
  if (values.empty()) return baseline;
  scratch->assign(values.begin(), values.end());
  baseline.median = MedianInPlace(*scratch);
  scratch->assign(values.begin(), values.end());
  for (double& value : *scratch) value = std::abs(value - baseline.median);
  baseline.scale = kMadToSigma * MedianInPlace(*scratch);
  return baseline;
}

RobustWindow::RobustWindow(size_t capacity, size_t lag) : lag_(lag), ring_(capacity + lag) {}

void RobustWindow::Push(double value) {
  if (!std::isfinite(value)) return;
  ring_[next_] = value;
  next_ = (next_ + 1) % ring_.size();
  count_ = std::min(count_ + 1, ring_.size());
}

void RobustWindow::Clear() { count_ = next_ = 0; }

Baseline RobustWindow::Get() const {
  std::vector<double> values, scratch;
  for (size_t age = lag_; age < count_; ++age) values.push_back(At(age));
  return RobustBaseline(values, &scratch);
}

double RobustWindow::Recent(size_t n) const {
  std::vector<double> values;
  for (size_t age = 0; age < std::min(n, count_); ++age) values.push_back(At(age));
  return MedianInPlace(values);
}

}  // namespace foreshock::detect
