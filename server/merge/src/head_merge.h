// Merging one head (or scalar) of one signal over ranks.
#pragma once

#include <optional>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/types.h"

namespace foreshock::merge {

// Entry `index` of a rank's series.
struct Entry {
  uint32_t rank = 0;
  const wire::Series* series = nullptr;
  size_t index = 0;

  float value() const { return series->values[index * series->values_per_head]; }
  std::optional<float> weight() const { return series->weight(index); }
  bool rotated() const { return !series->rotated.empty() && series->rotated[index] != 0; }
};

struct MergedHead {
  float value = 0;
  std::optional<float> weight;
  std::optional<std::vector<float>> moments;  // kMomentsPerHead of them
};

// Entries by rising rank, at least one, all present, none partial.
MergedHead MergeHead(const SignalInfo& info, const std::vector<Entry>& entries);

// The entry that holds the extreme; NaN is more extreme than anything.
const Entry& ExtremeEntry(const std::vector<Entry>& entries, bool largest);

}  // namespace foreshock::merge
