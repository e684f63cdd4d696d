#include "rollup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "word_codec.h"

namespace foreshock::store {
namespace {

constexpr uint8_t kRollupVersion = 1;
constexpr size_t kMaxBuckets = 1024;
constexpr size_t kMaxRollupHeads = 65'536;
constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();

Status Torn(const char* what) {
  return Status(Code::kDataLoss, std::string("rollup: ") + what + " malformed or torn");
}

std::vector<uint32_t> BitsOf(const std::vector<float>& floats) {
  std::vector<uint32_t> words;
  words.reserve(floats.size());
  for (const float value : floats) words.push_back(std::bit_cast<uint32_t>(value));
  return words;
}

}  // namespace

std::string RollupSpans::Encode() const {
  std::string out;
  ByteWriter w(&out);
  w.U8(kRollupVersion);
  w.Varint(size());
  for (const auto* list : {&first, &last, &rows}) w.Ints(*list);
  return out;
}

Result<RollupSpans> RollupSpans::Decode(std::string_view bytes) {
  ByteReader r(bytes);
  if (r.U8() != kRollupVersion) return Torn("version");
  RollupSpans spans;
  const size_t count = r.Size(kMaxBuckets);
  for (auto* list : {&spans.first, &spans.last, &spans.rows}) *list = r.Ints(count);
  if (!r.at_end() || count == 0) return Torn("spans");
  for (size_t i = 0; i < count; ++i) {
    const bool rises = i == 0 || spans.first[i] > spans.last[i - 1];
    if (!rises || spans.last[i] < spans.first[i] || spans.rows[i] <= 0) return Torn("spans");
  }
  return spans;
}

std::string RollupColumn::Encode() const {
  std::string out;
  ByteWriter w(&out);
  w.U8(kRollupVersion);
  w.Varint(buckets);
  w.Varint(heads.size());
  w.Ints(std::vector<int64_t>(heads.begin(), heads.end()));
  w.Ints(counts);
  for (const auto* floats : {&mins, &means, &maxes}) PutWords(BitsOf(*floats), width(), &out);
  return out;
}

Result<RollupColumn> RollupColumn::Decode(std::string_view bytes) {
  ByteReader r(bytes);
  if (r.U8() != kRollupVersion) return Torn("version");
  RollupColumn column;
  column.buckets = r.Size(kMaxBuckets);
  const std::vector<int64_t> heads = r.Ints(r.Size(kMaxRollupHeads));
  column.heads.assign(heads.begin(), heads.end());
  if (!r.ok() || column.buckets == 0) return Torn("header");
  const size_t entries = column.buckets * column.width();
  column.counts = r.Ints(entries);
  Words words;
  for (auto* floats : {&column.mins, &column.means, &column.maxes}) {
    words.clear();
    if (!r.ok() || !ReadWords(&r, column.buckets, column.width(), &words)) return Torn("values");
    floats->reserve(entries);
    for (const uint32_t word : words) floats->push_back(std::bit_cast<float>(word));
  }
  if (!r.at_end()) return Torn("end");
  return column;
}

void RollupSum::Add(float value) {
  if (std::isnan(value)) return;
  Add(value, value, value, 1);
}

void RollupSum::Add(const RollupColumn& column, size_t entry) {
  const int64_t values = column.counts[entry];
  Add(column.mins[entry], static_cast<double>(column.means[entry]) * static_cast<double>(values),
      column.maxes[entry], values);
}

void RollupSum::Add(float other_min, double other_sum, float other_max, int64_t other_count) {
  if (other_count <= 0) return;
  min = count == 0 ? other_min : std::min(min, other_min);
  max = count == 0 ? other_max : std::max(max, other_max);
  sum += other_sum;
  count += other_count;
}

float RollupSum::mean() const {
  return count == 0 ? kNanValue : static_cast<float>(sum / static_cast<double>(count));
}

std::optional<float> CountedValue(const SignalInfo* info, const wire::Series& series, size_t head) {
  if (!series.has(head)) return std::nullopt;
  if (info == nullptr) return series.values[head];
  const auto shown = DisplayValue(*info, series.values[head], series.weight(head));
  return shown ? std::optional(static_cast<float>(*shown)) : std::nullopt;
}

void RollupBuilder::AddSteps(int64_t first, int64_t last, int64_t rows) {
  if (spans_.rows.back() == 0) spans_.first.back() = first;
  spans_.last.back() = last;
  spans_.rows.back() += rows;
}

std::vector<RollupSum>& RollupBuilder::Place(const Name& name, const std::vector<uint32_t>& heads,
                                             std::vector<size_t>* places) {
  Sums& sums = sums_[name];
  const size_t width = std::max<size_t>(heads.size(), 1);
  places->resize(width);
  if (sums.heads.empty()) sums.heads = heads;
  if (sums.heads == heads || heads.empty()) {
    std::iota(places->begin(), places->end(), size_t{0});
  } else {
    for (size_t i = 0; i < heads.size(); ++i) {
      const auto it = std::find(sums.heads.begin(), sums.heads.end(), heads[i]);
      (*places)[i] = static_cast<size_t>(it - sums.heads.begin());
      if (it == sums.heads.end()) sums.heads.push_back(heads[i]);
    }
  }
  sums.buckets.resize(buckets());
  std::vector<RollupSum>& bucket = sums.buckets.back();
  bucket.resize(std::max({bucket.size(), sums.heads.size(), size_t{1}}));
  return bucket;
}

void RollupBuilder::Add(const Column& column) {
  const Shape& shape = column.shape();
  if (shape.values_per_head != 1) return;
  const SignalInfo* info = FindSignal(shape.signal);
  const bool plain = (info == nullptr || info->merge != SignalMerge::kRatio) && !column.lacks_heads();
  if (!plain) {
    for (size_t row = 0; row < column.rows(); ++row) Add(column.Row(row));
    return;
  }
  std::vector<size_t> places;
  std::vector<RollupSum>& bucket = Place({shape.signal, shape.layer}, shape.heads, &places);
  const uint32_t* word = column.values().data();
  for (size_t row = 0; row < column.rows(); ++row) {
    for (const size_t place : places) bucket[place].Add(std::bit_cast<float>(*word++));
  }
}

void RollupBuilder::Add(const wire::Series& series) {
  if (series.values_per_head != 1 || series.values.size() != series.count()) return;
  const SignalInfo* info = FindSignal(series.signal);
  std::vector<size_t> places;
  std::vector<RollupSum>& bucket = Place({series.signal, series.layer}, series.heads, &places);
  for (size_t i = 0; i < series.count(); ++i) {
    if (const auto value = CountedValue(info, series, i)) bucket[places[i]].Add(*value);
  }
}

void RollupBuilder::Add(const Name& name, const RollupColumn& column) {
  std::vector<size_t> places;
  std::vector<RollupSum>& bucket = Place(name, column.heads, &places);
  size_t at = 0;
  for (size_t b = 0; b < column.buckets; ++b) {
    for (const size_t place : places) bucket[place].Add(column, at++);
  }
}

std::map<RollupBuilder::Name, RollupColumn> RollupBuilder::Take() {
  std::map<Name, RollupColumn> columns;
  for (auto& [name, sums] : sums_) {
    RollupColumn& column = columns[name];
    column.heads = std::move(sums.heads);
    column.buckets = buckets();
    sums.buckets.resize(buckets());
    for (std::vector<RollupSum>& bucket : sums.buckets) {
      bucket.resize(column.width());
      for (const RollupSum& sum : bucket) {
        column.counts.push_back(sum.count);
        column.mins.push_back(sum.count == 0 ? kNanValue : sum.min);
        column.means.push_back(sum.mean());
        column.maxes.push_back(sum.count == 0 ? kNanValue : sum.max);
      }
    }
  }
  sums_.clear();
  spans_ = {};
  return columns;
}

}  // namespace foreshock::store
