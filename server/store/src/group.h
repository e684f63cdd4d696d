// A sealed group: consecutive frames of one incarnation, turned into the frames' own row of facts and
// one column a signal and layer (docs/formats/store.md).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "column.h"
#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::store {

// A column's name within its group.
struct ColumnName {
  uint16_t signal = 0;  // 0: the rows themselves
  std::optional<uint32_t> layer;
  uint8_t variant = 0;  // tells columns of one signal and layer apart
  auto operator<=>(const ColumnName&) const = default;
};

// What a group knows of its frames beside their series: one entry a frame, steps rising.
struct GroupRows {
  std::vector<int64_t> steps, seqs, times, dropped, window_from;
  std::vector<uint8_t> skipped;
  std::vector<ColumnName> columns;  // in the order in which the frames had them

  size_t size() const { return steps.size(); }
  // The frame of a row without its series.
  wire::Frame Frame(size_t row) const;
  std::string Encode() const;
  static Result<GroupRows> Decode(std::string_view bytes);
};

class GroupBuilder {
 public:
  // Room for so many rows is made at once.
  explicit GroupBuilder(size_t expected_rows = 0) : expected_rows_(expected_rows) {}
  // A whole frame (of one part) of a step above those before. False: it cannot be sealed and is left out.
  bool Add(const wire::Frame& frame);
  size_t size() const { return rows_.size(); }
  int64_t first_step() const { return rows_.steps.front(); }
  int64_t last_step() const { return rows_.steps.back(); }
  // Every chunk of the group, the rows' own first. Not empty. The bytes live for the call.
  void Encode(const std::function<void(const ColumnName&, std::string_view)>& each);

 private:
  bool HasTooManyVariants() const;

  const size_t expected_rows_;
  GroupRows rows_;
  std::vector<Column> columns_;
  std::vector<size_t> order_;  // indices into columns_
};

}  // namespace foreshock::store
