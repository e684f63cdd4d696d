#include "group.h"

#include "word_codec.h"

namespace foreshock::store {
namespace {

constexpr uint8_t kGroupVersion = 1;
constexpr size_t kMaxRowsOfGroup = 1 << 20;
constexpr size_t kMaxColumns = 1 << 20;
constexpr size_t kMaxVariants = 255;  // of a signal and layer

}  // namespace

wire::Frame GroupRows::Frame(size_t row) const {
  wire::Frame frame;
  frame.step = steps[row];
  frame.seq = static_cast<uint64_t>(seqs[row]);
  frame.time_unix_ns = static_cast<uint64_t>(times[row]);
  frame.dropped_before = static_cast<uint64_t>(dropped[row]);
  frame.window_from = window_from[row];
  frame.skipped = skipped[row] != 0;
  return frame;
}

std::string GroupRows::Encode() const {
  std::string out;
  ByteWriter w(&out);
  w.U8(kGroupVersion);
  w.Varint(size());
  for (const auto* list : {&steps, &seqs, &times, &dropped, &window_from}) w.Ints(*list);
  PutBits(skipped, &out);
  w.Varint(columns.size());
  for (const ColumnName& column : columns) {
    w.Varint(column.signal);
    w.Varint(column.layer ? uint64_t{*column.layer} + 1 : 0);
    w.U8(column.variant);
  }
  return out;
}

Result<GroupRows> GroupRows::Decode(std::string_view bytes) {
  const Status malformed(Code::kDataLoss, "rows of a sealed group: malformed or torn");
  ByteReader r(bytes);
  if (r.U8() != kGroupVersion) return malformed;
  GroupRows rows;
  const size_t count = r.Size(kMaxRowsOfGroup);
  for (auto* list : {&rows.steps, &rows.seqs, &rows.times, &rows.dropped, &rows.window_from}) {
    *list = r.Ints(count);
  }
  if (!ReadBits(&r, count, &rows.skipped)) return malformed;
  const size_t columns = r.Size(kMaxColumns);
  for (size_t i = 0; r.ok() && i < columns; ++i) {
    ColumnName name;
    name.signal = static_cast<uint16_t>(r.Size(UINT16_MAX));
    const uint64_t layer = r.Size(0xFFFFFFFF);
    if (layer > 0) name.layer = static_cast<uint32_t>(layer - 1);
    name.variant = r.U8();
    rows.columns.push_back(name);
  }
  if (!r.at_end() || count == 0) return malformed;
  for (size_t i = 1; i < count; ++i) {
    if (rows.steps[i] <= rows.steps[i - 1]) return malformed;
  }
  return rows;
}

bool GroupBuilder::Add(const wire::Frame& frame) {
  if (frame.parts > 1 || size() >= kMaxRowsOfGroup || (size() > 0 && frame.step <= last_step())) return false;
  for (const wire::Series& series : frame.series) {
    if (!IsSound(series)) return false;
  }
  // Series keep their order: each is looked for behind the one before, and enters there where it is new.
  std::vector<size_t> targets;
  std::optional<std::vector<size_t>> grown;  // order_ with the new ones
  const size_t old_columns = columns_.size();
  size_t position = 0;
  for (const wire::Series& series : frame.series) {
    const std::vector<size_t>& order = grown ? *grown : order_;
    size_t found = position;
    while (found < order.size() && !HasShape(series, columns_[order[found]].shape())) ++found;
    if (found == order.size()) {
      if (!grown) grown = order_;
      grown->insert(grown->begin() + static_cast<ptrdiff_t>(position), columns_.size());
      columns_.emplace_back(ShapeOf(series), expected_rows_);
      found = position;
    }
    targets.push_back((grown ? *grown : order_)[found]);
    position = found + 1;
  }
  if (grown) {
    if (HasTooManyVariants()) {
      columns_.resize(old_columns);
      return false;
    }
    order_ = *std::move(grown);
  }
  for (size_t i = 0; i < targets.size(); ++i) columns_[targets[i]].Add(size(), frame.step, frame.series[i]);
  rows_.steps.push_back(frame.step);
  rows_.seqs.push_back(static_cast<int64_t>(frame.seq));
  rows_.times.push_back(static_cast<int64_t>(frame.time_unix_ns));
  rows_.dropped.push_back(static_cast<int64_t>(frame.dropped_before));
  rows_.window_from.push_back(frame.window_from);
  rows_.skipped.push_back(frame.skipped ? 1 : 0);
  return true;
}

bool GroupBuilder::HasTooManyVariants() const {
  std::map<std::pair<uint16_t, std::optional<uint32_t>>, size_t> seen;
  for (const Column& column : columns_) {
    if (++seen[{column.shape().signal, column.shape().layer}] > kMaxVariants) return true;
  }
  return false;
}

void GroupBuilder::Encode(const std::function<void(const ColumnName&, std::string_view)>& each) {
  std::map<std::pair<uint16_t, std::optional<uint32_t>>, uint32_t> variants, next;
  for (const Column& column : columns_) ++variants[{column.shape().signal, column.shape().layer}];
  rows_.columns.clear();
  for (const size_t i : order_) {
    const std::pair key(columns_[i].shape().signal, columns_[i].shape().layer);
    rows_.columns.push_back({key.first, key.second, static_cast<uint8_t>(next[key]++)});
  }
  each({}, rows_.Encode());
  std::string bytes;
  for (size_t k = 0; k < order_.size(); ++k) {
    const ColumnName& name = rows_.columns[k];
    columns_[order_[k]].EncodeInto(variants[{name.signal, name.layer}], &bytes);
    each(name, bytes);
  }
}

}  // namespace foreshock::store
