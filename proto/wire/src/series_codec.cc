#include "series_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>

#include "fields.h"
#include "foreshock/wire/codec.h"
#include "matcher.h"
#include "put.h"

namespace foreshock::wire {
namespace {

using field::Bytes, field::Fixed32, field::Fixed64, field::Varint;

bool IsRange(const std::vector<uint32_t>& heads) {
  for (size_t i = 1; i < heads.size(); ++i) {
    if (heads[i] != heads[i - 1] + 1) return false;
  }
  return !heads.empty();
}

bool AllSet(const std::vector<uint8_t>& bits) {
  return std::all_of(bits.begin(), bits.end(), [](uint8_t bit) { return bit != 0; });
}

std::string PackBits(const std::vector<uint8_t>& bits) {
  std::string packed((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0)
      packed[i / 8] = static_cast<char>(static_cast<uint8_t>(packed[i / 8]) | (1u << (i % 8)));
  }
  return packed;
}

std::vector<uint8_t> UnpackBits(std::string_view packed, size_t count) {
  std::vector<uint8_t> bits(count, 0);
  for (size_t i = 0; i < count; ++i) bits[i] = (static_cast<uint8_t>(packed[i / 8]) >> (i % 8)) & 1;
  return bits;
}

// The entries of present heads, `per_head` each; all of them when nothing is missing.
template <typename T>
std::vector<T> Gather(const std::vector<T>& dense, const Series& series, size_t per_head) {
  if (series.present.empty() || dense.empty()) return dense;
  std::vector<T> out;
  out.reserve(dense.size());
  for (size_t i = 0; i < series.count(); ++i) {
    if (!series.has(i)) continue;
    out.insert(out.end(), dense.begin() + static_cast<ptrdiff_t>(i * per_head),
               dense.begin() + static_cast<ptrdiff_t>((i + 1) * per_head));
  }
  return out;
}

// Packed floats are their bytes, lowest first: on such a machine they are copied as they stand.
template <typename W>
void PutWords(W& w, protozero::pbf_tag_type tag, const std::vector<float>& floats) {
  if (floats.empty()) return;
  if constexpr (std::endian::native == std::endian::little) {
    w.add_bytes(tag, reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
  } else {
    w.add_packed_float(tag, floats.begin(), floats.end());
  }
}

template <typename W>
void PutFloats(W& w, protozero::pbf_tag_type tag, const std::vector<float>& dense, const Series& series,
               size_t per_head) {
  PutWords(w, tag, series.present.empty() ? dense : Gather(dense, series, per_head));
}

// A packed field may come in pieces.
void ReadFloats(protozero::pbf_reader& reader, std::vector<float>* list) {
  if constexpr (std::endian::native == std::endian::little) {
    const auto bytes = reader.get_view();
    if (bytes.size() % sizeof(float) != 0) throw protozero::invalid_length_exception();
    const size_t base = list->size();
    list->resize(base + bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(list->data() + base, bytes.data(), bytes.size());
  } else {
    const auto range = reader.get_packed_float();
    list->insert(list->end(), range.begin(), range.end());
  }
}

template <typename T>
std::vector<T> Scatter(std::vector<T> packed, const Series& series, size_t per_head) {
  if (series.present.empty()) return packed;
  std::vector<T> out(series.count() * per_head, T{});
  size_t next = 0;
  for (size_t i = 0; i < series.count(); ++i) {
    if (!series.has(i)) continue;
    for (size_t k = 0; k < per_head; ++k) out[i * per_head + k] = packed[next++];
  }
  return out;
}

Status Invalid(const Series& series, const std::string& what) {
  return Status(Code::kInvalidArgument, "series of signal " + std::to_string(series.signal) + ": " + what);
}

Status SizeError(const Series& series, const char* what, size_t got, size_t expected) {
  return Invalid(series, std::string(what) + ": " + std::to_string(got) + " entries, expected " +
                             std::to_string(expected));
}

Status LimitError(const Series& series, const char* what, size_t got, size_t limit) {
  return Invalid(series,
                 std::string(what) + ": " + std::to_string(got) + ", at most " + std::to_string(limit));
}

// A packed field may come in pieces.
template <typename T, typename Range>
void AppendTo(std::vector<T>* list, const Range& range) {
  list->insert(list->end(), range.begin(), range.end());
}

struct RawHeads {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Packed arrays come before the sizes that they must fit are known, so all is read first and then checked.
Result<RawHeads> ReadFields(protozero::pbf_reader& reader, Series* series, std::string* presence,
                            std::string* rotated) {
  using namespace field::series;
  RawHeads raw;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case Varint(kSignal): {
        const uint32_t signal = reader.get_uint32();
        if (signal > UINT16_MAX) return LimitError(*series, "signal", signal, UINT16_MAX);
        series->signal = static_cast<uint16_t>(signal);
        break;
      }
      case Varint(kLayer):
        series->layer = reader.get_uint32();
        break;
      case Varint(kFirstHead):
        raw.first = reader.get_uint32();
        break;
      case Varint(kHeadCount):
        raw.count = reader.get_uint32();
        break;
      case Bytes(kHeads):
        AppendTo(&series->heads, reader.get_packed_uint32());
        break;
      case Bytes(kPresence):
        *presence = reader.get_bytes();
        break;
      case Bytes(kValues):
        ReadFloats(reader, &series->values);
        break;
      case Bytes(kWeights):
        ReadFloats(reader, &series->weights);
        break;
      case Bytes(kMoments):
        ReadFloats(reader, &series->moments);
        break;
      case Varint(kValuesPerHead):
        series->values_per_head = std::max(1u, reader.get_uint32());
        break;
      case Bytes(kDirectionHash):
        AppendTo(&series->direction_hash, reader.get_packed_fixed64());
        break;
      case Varint(kFlags):
        series->flags = reader.get_uint32();
        break;
      case Bytes(kStepOffsets):
        AppendTo(&series->step_offsets, reader.get_packed_uint32());
        break;
      case Bytes(kRotated):
        *rotated = reader.get_bytes();
        break;
      case Varint(kShard):
        series->shard = reader.get_uint32();
        break;
      case Varint(kShards):
        series->shards = reader.get_uint32();
        break;
      default:
        reader.skip();
    }
  }
  return raw;
}

// Head indices are below kMaxHeads and each stands once.
Status CheckHeads(const Series& series, const RawHeads& raw) {
  if (!series.heads.empty() && (raw.count > 0 || raw.first > 0)) {
    return Invalid(series, "head_count: " + std::to_string(raw.count) + ", must be 0 beside a list of heads");
  }
  if (raw.count > kMaxHeads) return LimitError(series, "head_count", raw.count, kMaxHeads);
  if (raw.count > 0 && raw.first > kMaxHeads - raw.count) {
    return LimitError(series, "first_head + head_count", size_t{raw.first} + raw.count, kMaxHeads);
  }
  std::vector<uint32_t> sorted = series.heads;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.back() >= kMaxHeads) {
    return LimitError(series, "heads", sorted.back(), kMaxHeads - 1);
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return OkStatus();
  return Invalid(series, "heads: " + std::to_string(*twice) + " stands there twice");
}

// Counts and sums of squares are never negative. A NaN or Inf in a sum is what the trainer's numbers gave.
Status CheckWeights(const Series& series) {
  for (const float weight : series.weights) {
    if (weight < 0) return Invalid(series, "weights: " + std::to_string(weight) + ", at least 0");
  }
  for (size_t i = 0; i + kMomentsPerHead <= series.moments.size(); i += kMomentsPerHead) {
    const float rows = series.moments[i];
    if (!(rows >= 0)) return Invalid(series, "moments: " + std::to_string(rows) + " rows, at least 0");
    for (const float squares : {series.moments[i + 1], series.moments[i + 3]}) {
      if (squares < 0) {
        return Invalid(series, "moments: a sum of squares of " + std::to_string(squares) + ", at least 0");
      }
    }
  }
  return OkStatus();
}

// Several values a head are partial values of single steps, oldest first.
Status CheckSteps(const Series& series) {
  const bool partial = (series.flags & kPartial) != 0;
  if (!partial && series.values_per_head > 1) {
    return Invalid(series, "values_per_head: " + std::to_string(series.values_per_head) +
                               ", at most 1 without the flag of partial values");
  }
  if (!partial && (series.shard != 0 || series.shards != 0)) {
    return Invalid(series,
                   "shards: " + std::to_string(series.shards) + ", only with the flag of partial values");
  }
  if (series.shard >= std::max(series.shards, 1u)) {
    return Invalid(series, "shard: " + std::to_string(series.shard) + ", must be below shards, " +
                               std::to_string(series.shards));
  }
  if (!partial && !series.step_offsets.empty()) {
    return Invalid(series, "step_offsets: only with the flag of partial values");
  }
  const auto late = std::adjacent_find(series.step_offsets.begin(), series.step_offsets.end(),
                                       [](uint32_t older, uint32_t newer) { return older <= newer; });
  if (late == series.step_offsets.end()) return OkStatus();
  return Invalid(series, "step_offsets: " + std::to_string(*(late + 1)) + " after " + std::to_string(*late) +
                             ", must fall from the oldest step to the newest");
}

Status ReadBits(const Series& series, const char* what, const std::string& packed,
                std::vector<uint8_t>* bits) {
  if (packed.empty()) return OkStatus();
  const size_t bytes = (series.count() + 7) / 8;
  if (packed.size() != bytes) return SizeError(series, what, packed.size(), bytes);
  *bits = UnpackBits(packed, series.count());
  return OkStatus();
}

}  // namespace

template <typename W>
static void PutSeriesFields(W& w, const Series& series) {
  using namespace field::series;
  PutUint(w, kSignal, series.signal);
  if (series.layer) w.add_uint32(kLayer, *series.layer);
  if (IsRange(series.heads)) {
    PutUint(w, kFirstHead, series.heads.front());
    PutUint(w, kHeadCount, series.heads.size());
  } else {
    PutUints(w, kHeads, series.heads);
  }
  if (!AllSet(series.present)) PutText(w, kPresence, PackBits(series.present));
  PutFloats(w, kValues, series.values, series, series.values_per_head);
  if (series.weights.size() == 1) {
    PutWords(w, kWeights, series.weights);
  } else {
    PutFloats(w, kWeights, series.weights, series, 1);
  }
  PutFloats(w, kMoments, series.moments, series, kMomentsPerHead);
  if (series.values_per_head > 1) w.add_uint32(kValuesPerHead, series.values_per_head);
  if (!series.direction_hash.empty()) {
    const auto hashes = Gather(series.direction_hash, series, 1);
    w.add_packed_fixed64(kDirectionHash, hashes.begin(), hashes.end());
  }
  PutUint(w, kFlags, series.flags);
  PutUints(w, kStepOffsets, series.step_offsets);
  if (!series.rotated.empty()) PutText(w, kRotated, PackBits(series.rotated));
  PutUint(w, kShard, series.shard);
  PutUint(w, kShards, series.shards);
}

void PutSeries(protozero::pbf_writer& w, const Series& series) { PutSeriesFields(w, series); }
void MatchSeries(Matcher& m, const Series& series) { PutSeriesFields(m, series); }

Status ReadSeries(protozero::pbf_reader reader, size_t* room, Series* into) {
  Series& series = *into;
  std::string presence, rotated;
  FS_ASSIGN_OR_RETURN(const RawHeads raw, ReadFields(reader, &series, &presence, &rotated));
  if (series.signal == 0) return Invalid(series, "signal: 0, numbers begin at 1");
  if (series.values_per_head > kMaxValuesPerHead) {
    return LimitError(series, "values_per_head", series.values_per_head, kMaxValuesPerHead);
  }
  FS_RETURN_IF_ERROR(CheckHeads(series, raw));
  FS_RETURN_IF_ERROR(CheckSteps(series));
  FS_RETURN_IF_ERROR(CheckWeights(series));
  const size_t heads = std::max<size_t>({series.heads.size(), raw.count, 1});
  const size_t floats = 64 + heads * (series.values_per_head + 8);
  if (floats > *room) return LimitError(series, "floats of the frame, missing heads included", floats, *room);
  *room -= floats;
  if (series.heads.empty()) {
    series.heads.resize(raw.count);
    std::iota(series.heads.begin(), series.heads.end(), raw.first);
  }
  FS_RETURN_IF_ERROR(ReadBits(series, "presence", presence, &series.present));
  FS_RETURN_IF_ERROR(ReadBits(series, "rotated", rotated, &series.rotated));

  size_t present = series.count();
  if (!series.present.empty()) {
    present = static_cast<size_t>(std::count(series.present.begin(), series.present.end(), 1));
  }
  const size_t values = present * series.values_per_head;
  if (series.values.size() != values) return SizeError(series, "values", series.values.size(), values);
  if (series.weights.size() > 1 && series.weights.size() != present) {
    return SizeError(series, "weights", series.weights.size(), present);
  }
  if (!series.moments.empty() && series.moments.size() != kMomentsPerHead * present) {
    return SizeError(series, "moments", series.moments.size(), kMomentsPerHead * present);
  }
  if (!series.direction_hash.empty() && series.direction_hash.size() != present) {
    return SizeError(series, "direction_hash", series.direction_hash.size(), present);
  }
  if (!series.step_offsets.empty() && series.step_offsets.size() != series.values_per_head) {
    return SizeError(series, "step_offsets", series.step_offsets.size(), series.values_per_head);
  }
  series.values = Scatter(std::move(series.values), series, series.values_per_head);
  // A single weight stands for all heads; it stays single unless one head of several is present.
  if (series.weights.size() > 1) series.weights = Scatter(std::move(series.weights), series, 1);
  if (!series.moments.empty()) series.moments = Scatter(std::move(series.moments), series, kMomentsPerHead);
  if (!series.direction_hash.empty())
    series.direction_hash = Scatter(std::move(series.direction_hash), series, 1);
  return OkStatus();
}

}  // namespace foreshock::wire
