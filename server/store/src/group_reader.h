// Reads sealed groups back into frames and columns.
#pragma once

#include <functional>
#include <vector>

#include "group.h"
#include "layout.h"

namespace foreshock::store {

class GroupReader {
 public:
  // `view` must outlive the reader. kDataLoss when a chunk is missing or malformed.
  static Result<GroupReader> Open(const Database::View& view, const FramesOf& source,
                                  const SealedGroup& group);

  const GroupRows& rows() const { return rows_; }
  // Whole frames of the steps in [from, to], rising, with the series of these signals (empty: all).
  Result<std::vector<wire::Frame>> Frames(int64_t from, int64_t to,
                                          const std::vector<uint16_t>& signals) const;
  // The newest frame at or before `to` that has one of the signals (empty: any frame), with only these;
  // nullopt: none.
  Result<std::optional<wire::Frame>> Newest(int64_t from, int64_t to,
                                            const std::vector<uint16_t>& signals) const;

  // Every column, in the order of keys, one at a time.
  Status EachColumn(const std::function<void(const Column&)>& each) const;

 private:
  GroupReader(const Database::View& view, std::string key) : view_(view), key_(std::move(key)) {}
  // Of the group's rows below one; columns that have none are left out.
  Result<std::vector<Column>> Columns(const std::vector<uint16_t>& signals, size_t below_row) const;

  const Database::View& view_;
  std::string key_;  // what the group's chunk keys begin with
  GroupRows rows_;
};

// Columns of one signal in a group: of this layer (nullopt in an engaged optional: scalars), or of all.
// Empty when it has none.
Result<std::vector<Column>> ReadColumns(const Database::View& view, const FramesOf& source,
                                        const SealedGroup& group, uint16_t signal,
                                        std::optional<std::optional<uint32_t>> layer);

}  // namespace foreshock::store
