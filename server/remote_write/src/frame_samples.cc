#include "frame_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "foreshock/base/catalogue.h"

namespace foreshock::remote_write {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;
// Not of the catalogue's texts: compared by address nowhere, only shown.
constexpr const char *kMaxStat = "max", *kMedianStat = "median", *kMinStat = "min";

double MedianOf(std::vector<double>* values) {
  const size_t half = values->size() / 2;
  const auto middle = values->begin() + static_cast<ptrdiff_t>(half);
  std::nth_element(values->begin(), middle, values->end());
  if (values->size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values->begin(), middle)) / 2;
}

}  // namespace

void EachSample(const wire::Frame& frame, bool per_head,
                const std::function<void(const SeriesName& name, double value)>& each) {
  each({}, static_cast<double>(frame.step));
  std::vector<double> numbers;
  for (const wire::Series& series : frame.series) {
    const SignalInfo* info = FindSignal(series.signal);
    if (info == nullptr || series.values_per_head != 1 || series.values.size() != series.count()) continue;
    if (info->scope == SignalScope::kScalar) {
      const auto value =
          series.has(0) ? DisplayValue(*info, series.values[0], series.weight(0)) : std::nullopt;
      if (value) each({info->id, kNone, kNone, ""}, *value);
      continue;
    }
    if (!series.layer) continue;
    numbers.clear();
    bool nan = false;
    for (size_t i = 0; i < series.heads.size(); ++i) {
      const auto value =
          series.has(i) ? DisplayValue(*info, series.values[i], series.weight(i)) : std::nullopt;
      if (!value) continue;
      if (per_head) each({info->id, *series.layer, series.heads[i], ""}, *value);
      nan = nan || std::isnan(*value);
      numbers.push_back(*value);
    }
    if (numbers.empty()) continue;
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const auto put = [&](const char* stat, double value) {
      each({info->id, *series.layer, kNone, stat}, value);
    };
    put(kMaxStat, nan ? kNan : *std::max_element(numbers.begin(), numbers.end()));
    put(kMinStat, nan ? kNan : *std::min_element(numbers.begin(), numbers.end()));
    put(kMedianStat, nan ? kNan : MedianOf(&numbers));
  }
}

Labels LabelsOf(const std::string& run, const SeriesName& name) {
  const SignalInfo* info = FindSignal(name.signal);
  std::string metric = "foreshock_" + (info == nullptr ? "step" : std::string(info->name));
  if (name.head != kNone) metric += "_head";
  Labels labels = {{"__name__", std::move(metric)}, {"run", run}};
  if (name.layer != kNone) labels.emplace_back("layer", std::to_string(name.layer));
  if (name.head != kNone) labels.emplace_back("head", std::to_string(name.head));
  if (*name.stat != '\0') labels.emplace_back("stat", name.stat);
  return labels;
}

}  // namespace foreshock::remote_write
