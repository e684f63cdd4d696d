// Takes from an encoded frame only some of its series, without decoding the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/wire/types.h"

namespace foreshock::store {

struct SeriesFilter {
  std::vector<uint16_t> signals = {};  // empty: all
  std::optional<uint32_t> layer = {};  // absent: all
  bool takes_all() const { return signals.empty() && !layer; }
  bool Takes(uint16_t signal, std::optional<uint32_t> of_layer) const;
};

// The frame's bytes without the series that the filter does not take. Bytes that are no frame come back as
// they are.
std::string FilterPayload(std::string_view payload, const SeriesFilter& filter);
// The same of a decoded frame.
void FilterSeries(const SeriesFilter& filter, wire::Frame* frame);
// A copy with only these series.
wire::Frame FilteredCopy(const wire::Frame& frame, const SeriesFilter& filter);

}  // namespace foreshock::store
