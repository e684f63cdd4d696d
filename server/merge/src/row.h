// A row under construction: one signal of one layer, heads by rising index.
#pragma once

#include <optional>

#include "head_merge.h"

namespace foreshock::merge {

class Row {
 public:
  Row(uint16_t signal, std::optional<uint32_t> layer) { series_.signal = signal, series_.layer = layer; }

  // Heads in rising order; nullopt: a scalar. A missing head has no value.
  void Add(std::optional<uint32_t> head, const std::optional<MergedHead>& merged, bool rotated);
  void AddFlags(uint32_t flags) { series_.flags |= flags & ~wire::kPartial; }
  // The series: without weights, moments, presence or turns where no head has them.
  wire::Series Take();

 private:
  wire::Series series_;
  bool weighted_ = true;  // every present head has a weight
  bool moments_ = true;   // and moments
};

}  // namespace foreshock::merge
