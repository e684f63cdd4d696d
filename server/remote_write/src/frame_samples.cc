#include "frame_samples.h"

#include <cmath>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/export/head_stats.h"

namespace foreshock::remote_write {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;

}  // namespace

void EachSample(const wire::Frame& frame, bool per_head,
                const std::function<void(const SeriesName& name, double value)>& each) {
  each({}, static_cast<double>(frame.step));
  for (const wire::Series& series : frame.series) {
    const SignalInfo* info = FindSignal(series.signal);
    if (info == nullptr) continue;
    if (info->scope == SignalScope::kScalar) {
      if (const auto value = exporter::ScalarOf(*info, series)) each({info->id, kNone, kNone, ""}, *value);
      continue;
    }
    const auto stats = exporter::StatsOf(*info, series);
    if (!stats || !series.layer) continue;
    for (const auto& [head, value] : stats->heads) {
      if (per_head) each({info->id, *series.layer, head, ""}, value);
    }
    const auto put = [&](const char* stat, double value) {
      each({info->id, *series.layer, kNone, stat}, value);
    };
    put("max", stats->max);
    put("min", stats->min);
    put("median", std::isnan(stats->max) ? stats->max : stats->median);
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
