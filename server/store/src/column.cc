#include "column.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "foreshock/wire/codec.h"
#include "word_codec.h"

namespace foreshock::store {
namespace {

constexpr uint8_t kColumnVersion = 1;
constexpr size_t kMaxRowsOfColumn = 1 << 20;
constexpr size_t kMaxHeadsOfShape = 65'536;
enum Parts : uint8_t { kMoments = 1, kHashes = 2, kPresent = 4, kRotated = 8, kOffsets = 16, kShards = 32 };

// Memory is copied, not floats: a NaN keeps its payload.
void AppendFloats(const std::vector<float>& from, Words* to) {
  const size_t base = to->size();
  to->resize(base + from.size());
  if (!from.empty()) std::memcpy(to->data() + base, from.data(), from.size() * sizeof(float));
}

// Entries of a row of `per_head * count` words at the places, or all.
void ReadFloats(const Words& words, size_t row, size_t width, size_t per_head,
                const std::vector<size_t>* places, std::vector<float>* out) {
  const uint32_t* const from = words.data() + row * width;
  if (places == nullptr) {
    out->resize(width);
    if (width > 0) std::memcpy(out->data(), from, width * sizeof(float));
    return;
  }
  out->resize(places->size() * per_head);
  for (size_t i = 0; i < places->size(); ++i) {
    std::memcpy(out->data() + i * per_head, from + (*places)[i] * per_head, per_head * sizeof(float));
  }
}

void ReadList(const std::vector<uint8_t>& bits, size_t row, size_t count, const std::vector<size_t>* places,
              std::vector<uint8_t>* out) {
  const auto from = bits.begin() + static_cast<ptrdiff_t>(row * count);
  if (places == nullptr) return out->assign(from, from + static_cast<ptrdiff_t>(count));
  out->clear();
  for (const size_t place : *places) out->push_back(from[static_cast<ptrdiff_t>(place)]);
}

std::vector<int64_t> Wide(const std::vector<uint32_t>& values) { return {values.begin(), values.end()}; }

}  // namespace

bool IsSound(const wire::Series& s) {
  if (s.signal == 0 || s.heads.size() > kMaxHeadsOfShape) return false;
  if (s.values_per_head == 0 || s.values_per_head > wire::kMaxValuesPerHead) return false;
  if (s.layer && *s.layer == 0xFFFFFFFF) return false;  // stands for "none" in keys
  const size_t count = s.count(), width = count * s.values_per_head;
  const auto fits = [](size_t size, size_t full) { return size == 0 || size == full; };
  return s.values.size() == width && width <= wire::kMaxFrameFloats &&
         (fits(s.weights.size(), count) || s.weights.size() == 1) &&
         fits(s.moments.size(), count * wire::kMomentsPerHead) && fits(s.direction_hash.size(), count) &&
         fits(s.present.size(), count) && fits(s.rotated.size(), count);
}

Shape ShapeOf(const wire::Series& s) {
  return {s.signal,
          s.layer,
          s.heads,
          s.values_per_head,
          static_cast<uint32_t>(s.weights.size()),
          !s.moments.empty(),
          !s.direction_hash.empty(),
          s.shard,
          s.shards};
}

bool HasShape(const wire::Series& s, const Shape& shape) {
  return s.signal == shape.signal && s.layer == shape.layer && s.values_per_head == shape.values_per_head &&
         s.weights.size() == shape.weights && s.moments.empty() != shape.moments &&
         s.direction_hash.empty() != shape.hashes && s.shard == shape.shard && s.shards == shape.shards &&
         s.heads == shape.heads;
}

void Column::RowBits::Add(size_t row, size_t count, const std::vector<uint8_t>& list) {
  if (list.empty()) return;
  Fill(row, count);
  given.push_back(1);
  for (const uint8_t bit : list) bits.push_back(bit != 0 ? 1 : 0);
}

void Column::RowBits::Fill(size_t rows, size_t count) {
  given.resize(rows, 0);
  bits.resize(rows * count, 0);
}

Column::Column(Shape shape, size_t expected_rows) : shape_(std::move(shape)) {
  group_rows_.reserve(expected_rows);
  steps_.reserve(expected_rows);
  flags_.reserve(expected_rows);
  values_.reserve(expected_rows * shape_.width());
  weights_.reserve(expected_rows * shape_.weights);
  if (shape_.moments) moments_.reserve(expected_rows * shape_.count() * wire::kMomentsPerHead);
  if (shape_.hashes) hashes_.reserve(expected_rows * shape_.count() * 2);
}

void Column::Add(size_t group_row, int64_t step, const wire::Series& series) {
  group_rows_.push_back(static_cast<int64_t>(group_row));
  steps_.push_back(step);
  AppendFloats(series.values, &values_);
  AppendFloats(series.weights, &weights_);
  AppendFloats(series.moments, &moments_);
  for (const uint64_t hash : series.direction_hash) {
    hashes_.push_back(static_cast<uint32_t>(hash));
    hashes_.push_back(static_cast<uint32_t>(hash >> 32));
  }
  flags_.push_back(series.flags);
  present_.Add(rows() - 1, shape_.count(), series.present);
  rotated_.Add(rows() - 1, shape_.count(), series.rotated);
  if (series.step_offsets.empty()) return;
  offsets_.resize(rows());
  offsets_.back() = series.step_offsets;
}

wire::Series Column::Row(size_t row, const std::vector<size_t>* places) const {
  wire::Series series;
  ReadRow(row, places, &series);
  return series;
}

void Column::ReadRow(size_t row, const std::vector<size_t>* places, wire::Series* s) const {
  const size_t count = shape_.count();
  s->signal = shape_.signal;
  s->layer = shape_.layer;
  s->values_per_head = shape_.values_per_head;
  s->shard = shape_.shard;
  s->shards = shape_.shards;
  if (places == nullptr) {
    s->heads = shape_.heads;
  } else {
    s->heads.clear();
    for (const size_t place : *places) s->heads.push_back(shape_.heads[place]);
  }
  ReadFloats(values_, row, shape_.width(), shape_.values_per_head, places, &s->values);
  ReadFloats(weights_, row, shape_.weights, 1, shape_.weights <= 1 ? nullptr : places, &s->weights);
  s->moments.clear();
  if (shape_.moments) {
    ReadFloats(moments_, row, count * wire::kMomentsPerHead, wire::kMomentsPerHead, places, &s->moments);
  }
  s->direction_hash.clear();
  if (shape_.hashes) {
    const uint32_t* const words = hashes_.data() + row * 2 * count;
    const size_t entries = places == nullptr ? count : places->size();
    for (size_t i = 0; i < entries; ++i) {
      const size_t place = places == nullptr ? i : (*places)[i];
      s->direction_hash.push_back(words[2 * place] | uint64_t{words[2 * place + 1]} << 32);
    }
  }
  s->flags = static_cast<uint32_t>(flags_[row]);
  s->present.clear();
  s->rotated.clear();
  s->step_offsets.clear();
  if (present_.Has(row)) ReadList(present_.bits, row, count, places, &s->present);
  if (rotated_.Has(row)) ReadList(rotated_.bits, row, count, places, &s->rotated);
  if (row < offsets_.size()) s->step_offsets = offsets_[row];
}

void Column::EncodeInto(uint32_t variants, std::string* out) const {
  out->clear();
  ByteWriter w(out);
  const int parts = (shape_.moments ? kMoments : 0) | (shape_.hashes ? kHashes : 0) |
                    (present_.given.empty() ? 0 : kPresent) | (rotated_.given.empty() ? 0 : kRotated) |
                    (offsets_.empty() ? 0 : kOffsets) |
                    (shape_.shard == 0 && shape_.shards == 0 ? 0 : kShards);
  w.U8(kColumnVersion);
  w.U8(static_cast<uint8_t>(parts));
  w.Varint(variants);
  w.Varint(rows());
  w.Ints(group_rows_);
  w.Ints(steps_);
  w.Varint(shape_.heads.size());
  w.Ints(Wide(shape_.heads));
  w.Varint(shape_.values_per_head);
  w.Varint(shape_.weights);
  if ((parts & kShards) != 0) {
    w.Varint(shape_.shard);
    w.Varint(shape_.shards);
  }
  w.Ints(flags_);
  PutWords(values_, shape_.width(), out);
  if (shape_.weights > 0) PutWords(weights_, shape_.weights, out);
  if (shape_.moments) PutWords(moments_, shape_.count() * wire::kMomentsPerHead, out);
  if (shape_.hashes) PutWords(hashes_, shape_.count() * 2, out);
  for (const RowBits* list : {&present_, &rotated_}) {
    if (list->given.empty()) continue;
    RowBits filled = *list;
    filled.Fill(rows(), shape_.count());
    PutBits(filled.given, out);
    PutBits(filled.bits, out);
  }
  if ((parts & kOffsets) != 0) {
    std::vector<int64_t> counts, all;
    for (size_t i = 0; i < rows(); ++i) {
      const std::vector<uint32_t> row = i < offsets_.size() ? offsets_[i] : std::vector<uint32_t>();
      counts.push_back(static_cast<int64_t>(row.size()));
      all.insert(all.end(), row.begin(), row.end());
    }
    w.Ints(counts);
    w.Ints(all);
  }
}

Result<Column> Column::Decode(uint16_t signal, std::optional<uint32_t> layer, std::string_view bytes,
                              int64_t below_row) {
  const auto malformed = [&](const char* what) {
    return Status(Code::kDataLoss,
                  "chunk of signal " + std::to_string(signal) + ": " + what + " malformed or torn");
  };
  ByteReader r(bytes);
  if (r.U8() != kColumnVersion) return malformed("version");
  const uint8_t parts = r.U8();
  Column c;
  c.variants_ = static_cast<uint32_t>(r.Size(256));
  const size_t rows = r.Size(kMaxRowsOfColumn);
  c.group_rows_ = r.Ints(rows);
  c.steps_ = r.Ints(rows);
  const std::vector<int64_t> heads = r.Ints(r.Size(kMaxHeadsOfShape));
  c.shape_ = {signal, layer, {heads.begin(), heads.end()}};
  c.shape_.values_per_head = static_cast<uint32_t>(r.Size(wire::kMaxValuesPerHead));
  const size_t count = c.shape_.count();
  c.shape_.weights = static_cast<uint32_t>(r.Size(count));
  if ((parts & kShards) != 0) {
    c.shape_.shard = static_cast<uint32_t>(r.Size(UINT32_MAX));
    c.shape_.shards = static_cast<uint32_t>(r.Size(UINT32_MAX));
  }
  c.shape_.moments = (parts & kMoments) != 0;
  c.shape_.hashes = (parts & kHashes) != 0;
  c.flags_ = r.Ints(rows);
  if (!r.ok() || c.variants_ == 0 || rows == 0 || c.shape_.values_per_head == 0) return malformed("header");
  if (c.shape_.weights > 1 && c.shape_.weights != count) return malformed("header");
  for (size_t i = 1; i < rows; ++i) {
    if (c.steps_[i] <= c.steps_[i - 1] || c.group_rows_[i] <= c.group_rows_[i - 1]) return malformed("rows");
  }
  const auto wanted = static_cast<size_t>(
      std::lower_bound(c.group_rows_.begin(), c.group_rows_.end(), below_row) - c.group_rows_.begin());
  if (!ReadWords(&r, rows, c.shape_.width(), wanted, &c.values_)) return malformed("values");
  if (!ReadWords(&r, rows, c.shape_.weights, wanted, &c.weights_)) return malformed("weights");
  if (c.shape_.moments && !ReadWords(&r, rows, count * wire::kMomentsPerHead, wanted, &c.moments_)) {
    return malformed("moments");
  }
  if (c.shape_.hashes && !ReadWords(&r, rows, count * 2, wanted, &c.hashes_)) return malformed("hashes");
  if ((parts & kPresent) != 0 &&
      !(ReadBits(&r, rows, &c.present_.given) && ReadBits(&r, rows * count, &c.present_.bits))) {
    return malformed("presence");
  }
  if ((parts & kRotated) != 0 &&
      !(ReadBits(&r, rows, &c.rotated_.given) && ReadBits(&r, rows * count, &c.rotated_.bits))) {
    return malformed("rotated");
  }
  if ((parts & kOffsets) != 0) {
    const std::vector<int64_t> counts = r.Ints(rows);
    size_t total = 0;
    for (const int64_t n : counts) {
      if (n < 0 || n > wire::kMaxValuesPerHead) return malformed("offsets");
      total += static_cast<size_t>(n);
    }
    if (total > kMaxWords) return malformed("offsets");
    const std::vector<int64_t> all = r.Ints(total);
    if (!r.ok()) return malformed("offsets");
    size_t next = 0;
    c.offsets_.resize(rows);
    for (size_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < counts[row]; ++i) {
        c.offsets_[row].push_back(static_cast<uint32_t>(all[next++]));
      }
    }
  }
  if (!r.at_end()) return malformed("end");
  c.group_rows_.resize(wanted);
  c.steps_.resize(wanted);
  return c;
}

}  // namespace foreshock::store
