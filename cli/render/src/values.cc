#include "foreshock/cli/values.h"

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/codec.h"

namespace foreshock::cli {

std::vector<HeadValue> HeadValues(const v1::Series& series) {
  // The wire codec is the one place that knows how presence and weights are packed.
  v1::Frame frame;
  *frame.add_series() = series;
  const Result<wire::Frame> decoded = wire::DecodeFrame(frame.SerializeAsString());
  if (!decoded.ok() || decoded->series.size() != 1) return {};
  const wire::Series& s = decoded->series[0];
  const SignalInfo* info = FindSignal(s.signal);
  std::vector<HeadValue> out;
  for (size_t i = 0; i < s.count(); ++i) {
    HeadValue entry{s.heads.empty() ? 0 : s.heads[i], std::nullopt};
    if (s.has(i)) {
      double sum = 0;
      for (uint32_t j = 0; j < s.values_per_head; ++j) sum += s.values[i * s.values_per_head + j];
      const std::optional<float> weight = s.weight(i);
      entry.value = info == nullptr
                        ? sum
                        : DisplayValue(*info, sum, weight ? std::optional<double>(*weight) : std::nullopt);
    }
    out.push_back(entry);
  }
  return out;
}

std::optional<double> ScalarValue(const v1::Frame& frame, std::string_view signal) {
  const SignalInfo* info = FindSignal(signal);
  if (info == nullptr) return std::nullopt;
  for (const v1::Series& series : frame.series()) {
    if (series.signal() != info->id || series.has_layer()) continue;
    const std::vector<HeadValue> values = HeadValues(series);
    if (!values.empty()) return values[0].value;
  }
  return std::nullopt;
}

std::string SignalName(const v1::Series& series) {
  const SignalInfo* info =
      series.signal() <= 0xFFFF ? FindSignal(static_cast<uint16_t>(series.signal())) : nullptr;
  return info != nullptr ? std::string(info->name) : "signal " + std::to_string(series.signal());
}

}  // namespace foreshock::cli
