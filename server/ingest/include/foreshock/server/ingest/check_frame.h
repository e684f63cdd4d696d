// Whether a frame agrees with its source's Hello and with the steps around it.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::ingest {

// kInvalidArgument: a model of more query heads over all layers than `max_heads_per_run`.
Status CheckHeads(const wire::Model& model, uint64_t max_heads_per_run);

// The shape of the model, as the Hello gave it.
class ModelShape {
 public:
  explicit ModelShape(const wire::Model& model);
  // kInvalidArgument naming the series, the value and the limit: layers and heads that the model does not
  // have, scalars with a layer, head signals without one, parts out of range. Signals that this server does
  // not know may have any head of the layer.
  Status Check(const wire::Frame& frame) const;

 private:
  struct Heads {
    uint32_t query = 0;
    uint32_t kv = 0;
  };
  Status CheckSeries(const wire::Series& series) const;
  std::unordered_map<uint32_t, Heads> layers_;
};

// Tells wild steps from honest ones. A step is wild when it lies outside 0..max_step or more than max_jump
// from the last honest one. Should the first step of all have been the wild one, the guard notices: the third
// in a row that lies near its wild predecessors is believed, and the guard goes on from there.
class StepGuard {
 public:
  StepGuard(int64_t max_step, int64_t max_jump, std::optional<int64_t> last_step)
      : max_step_(max_step), max_jump_(max_jump), last_(last_step) {}
  // Ok, or what is wild about it.
  Status Check(int64_t step);

 private:
  static constexpr int kBelieve = 3;
  bool Near(int64_t a, int64_t b) const;

  const int64_t max_step_;
  const int64_t max_jump_;
  std::optional<int64_t> last_;
  std::optional<int64_t> last_wild_;
  int wild_in_a_row_ = 0;
};

}  // namespace foreshock::ingest
