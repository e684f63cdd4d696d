#include "group_reader.h"

#include <algorithm>

#include "keys.h"

namespace foreshock::store {
namespace {

std::string ChunkPrefix(const FramesOf& source, const SealedGroup& group) {
  return GroupKey(Table::kChunk, {source.run, source.attempt, source.rank, 0}, group.first, group.seal);
}

bool Wanted(const std::vector<uint16_t>& signals, uint16_t signal) {
  return signals.empty() || std::find(signals.begin(), signals.end(), signal) != signals.end();
}

Status Missing(const SealedGroup& group, const Status& status) {
  return Status(Code::kDataLoss,
                "sealed group of steps from " + std::to_string(group.first) + ": " + status.message());
}

}  // namespace

Result<GroupReader> GroupReader::Open(const Database::View& view, const FramesOf& source,
                                      const SealedGroup& group) {
  GroupReader reader(view, ChunkPrefix(source, group));
  std::string key = reader.key_;
  AppendColumn({}, &key);
  const Result<std::string> bytes = view.Get(key);
  if (!bytes.ok()) return Missing(group, bytes.status());
  FS_ASSIGN_OR_RETURN(reader.rows_, GroupRows::Decode(*bytes));
  return reader;
}

// In the order of the frames' series. One scan when all are wanted.
Result<std::vector<Column>> GroupReader::Columns(const std::vector<uint16_t>& signals,
                                                 size_t below_row) const {
  std::map<ColumnName, size_t> places;
  for (const ColumnName& name : rows_.columns) {
    if (Wanted(signals, name.signal)) places.emplace(name, places.size());
  }
  // Names come in the order of the frames; the map's own order is that of the keys.
  size_t next = 0;
  for (const ColumnName& name : rows_.columns) {
    const auto it = places.find(name);
    if (it != places.end()) it->second = next++;
  }
  std::vector<std::optional<Column>> found(places.size());
  Status trouble;
  const auto take = [&](std::string_view key, std::string_view value) {
    const auto name = ParseColumn(key);
    if (!name || name->signal == 0) return true;
    const auto it = places.find(*name);
    if (it == places.end()) return true;
    Result<Column> column = Column::Decode(name->signal, name->layer, value, static_cast<int64_t>(below_row));
    if (!column.ok()) {
      trouble = column.status();
      return false;
    }
    found[it->second] = std::move(column).value();
    return true;
  };
  if (signals.empty()) {
    FS_RETURN_IF_ERROR(view_.Scan(key_, {}, take));
  } else {
    for (const uint16_t signal : signals) {
      std::string prefix = key_;
      AppendColumnPrefix(signal, &prefix);
      FS_RETURN_IF_ERROR(view_.Scan(prefix, {}, take));
    }
  }
  if (!trouble.ok()) return trouble;
  std::vector<Column> columns;
  for (auto& column : found) {
    if (!column) return Status(Code::kDataLoss, "sealed group: a chunk is missing");
    if (column->rows() == 0) continue;
    if (static_cast<size_t>(column->group_rows().back()) >= rows_.size() ||
        column->group_rows().front() < 0) {
      return Status(Code::kDataLoss, "sealed group: a chunk of another group");
    }
    columns.push_back(*std::move(column));
  }
  return columns;
}

Status GroupReader::EachColumn(const std::function<void(const Column&)>& each) const {
  Status trouble;
  FS_RETURN_IF_ERROR(view_.Scan(key_, {}, [&](std::string_view key, std::string_view value) {
    const auto name = ParseColumn(key);
    if (!name || name->signal == 0) return true;
    const Result<Column> column = Column::Decode(name->signal, name->layer, value);
    trouble = column.status();
    if (trouble.ok()) each(*column);
    return trouble.ok();
  }));
  return trouble;
}

Result<std::vector<wire::Frame>> GroupReader::Frames(int64_t from, int64_t to,
                                                     const std::vector<uint16_t>& signals) const {
  const auto begin = static_cast<size_t>(std::lower_bound(rows_.steps.begin(), rows_.steps.end(), from) -
                                         rows_.steps.begin());
  const auto end =
      static_cast<size_t>(std::upper_bound(rows_.steps.begin(), rows_.steps.end(), to) - rows_.steps.begin());
  std::vector<wire::Frame> frames;
  if (begin >= end) return frames;
  for (size_t row = begin; row < end; ++row) frames.push_back(rows_.Frame(row));
  FS_ASSIGN_OR_RETURN(const std::vector<Column> columns, Columns(signals, end));
  for (const Column& column : columns) {
    for (size_t i = 0; i < column.rows(); ++i) {
      const auto row = static_cast<size_t>(column.group_rows()[i]);
      if (row >= begin && row < end) frames[row - begin].series.push_back(column.Row(i));
    }
  }
  return frames;
}

Result<std::optional<wire::Frame>> GroupReader::Newest(int64_t from, int64_t to,
                                                       const std::vector<uint16_t>& signals) const {
  int64_t row = -1;
  const auto in_range = [&](int64_t step) { return step >= from && step <= to; };
  if (signals.empty()) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (in_range(rows_.steps[i])) row = static_cast<int64_t>(i);
    }
  }
  if (signals.empty() && row < 0) return std::optional<wire::Frame>();
  const size_t below = signals.empty() ? static_cast<size_t>(row) + 1 : rows_.size();
  FS_ASSIGN_OR_RETURN(const std::vector<Column> columns, Columns(signals, below));
  for (const Column& column : columns) {
    for (size_t i = 0; i < column.rows() && !signals.empty(); ++i) {
      if (in_range(column.steps()[i])) row = std::max(row, column.group_rows()[i]);
    }
  }
  if (row < 0) return std::optional<wire::Frame>();
  wire::Frame frame = rows_.Frame(static_cast<size_t>(row));
  for (const Column& column : columns) {
    const auto& rows = column.group_rows();
    const auto it = std::lower_bound(rows.begin(), rows.end(), row);
    if (it != rows.end() && *it == row) {
      frame.series.push_back(column.Row(static_cast<size_t>(it - rows.begin())));
    }
  }
  return std::optional<wire::Frame>(std::move(frame));
}

Result<std::vector<Column>> ReadColumns(const Database::View& view, const FramesOf& source,
                                        const SealedGroup& group, uint16_t signal,
                                        std::optional<std::optional<uint32_t>> layer) {
  std::vector<Column> columns;
  if (!layer) {
    std::string prefix = ChunkPrefix(source, group);
    AppendColumnPrefix(signal, &prefix);
    Status trouble;
    FS_RETURN_IF_ERROR(view.Scan(prefix, {}, [&](std::string_view key, std::string_view value) {
      const auto name = ParseColumn(key);
      if (!name) return true;
      Result<Column> column = Column::Decode(signal, name->layer, value);
      trouble = column.status();
      if (trouble.ok()) columns.push_back(std::move(column).value());
      return trouble.ok();
    }));
    if (!trouble.ok()) return trouble;
    return columns;
  }
  for (uint32_t variant = 0; columns.empty() ? variant == 0 : variant < columns[0].variants(); ++variant) {
    std::string key = ChunkPrefix(source, group);
    AppendColumn({signal, *layer, static_cast<uint8_t>(variant)}, &key);
    const Result<std::string> bytes = view.Get(key);
    if (bytes.status().code() == Code::kNotFound && variant == 0) break;
    if (!bytes.ok()) return Missing(group, bytes.status());
    FS_ASSIGN_OR_RETURN(Column column, Column::Decode(signal, *layer, *bytes));
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace foreshock::store
