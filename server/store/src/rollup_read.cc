// Reading a series at a resolution: from the highest level of rollups that fits, and what they do not cover
// from the levels below.
#include <algorithm>
#include <cmath>

#include "foreshock/base/catalogue.h"
#include "rollup.h"
#include "series_view.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

constexpr uint64_t kRowsOfLevel[] = {1, 256, 4'096, 65'536};

struct Bucket {
  int64_t first = 0, last = 0;
  uint64_t rows = 0;
  std::vector<RollupSum> sums;  // by place in the heads of the answer
};

// Gathers buckets; neighbours become one until they are as large as wanted.
class Gatherer {
 public:
  Gatherer(const std::vector<uint32_t>& wanted, uint64_t rows) : wanted_(wanted), rows_(rows) {}

  // The current bucket takes another part, later than those before.
  void Start(int64_t first, int64_t last, uint64_t rows) {
    if (buckets_.empty() || buckets_.back().rows >= rows_) buckets_.push_back({first, last, 0, {}});
    buckets_.back().last = last;
    buckets_.back().rows += rows;
  }
  // nullptr: not asked for.
  RollupSum* Of(uint32_t head) {
    const auto it = places_.find(head);
    size_t place = 0;
    if (it != places_.end()) {
      place = it->second;
    } else {
      if (!wanted_.empty() && std::find(wanted_.begin(), wanted_.end(), head) == wanted_.end())
        return nullptr;
      place = heads_.size();
      heads_.push_back(head);
      places_.emplace(head, place);
    }
    std::vector<RollupSum>& sums = buckets_.back().sums;
    if (sums.size() <= place) sums.resize(place + 1);
    return &sums[place];
  }
  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<uint32_t>& heads() const { return heads_; }

 private:
  const std::vector<uint32_t>& wanted_;
  const uint64_t rows_;  // of a bucket, at least
  std::vector<uint32_t> heads_;
  std::map<uint32_t, size_t> places_;
  std::vector<Bucket> buckets_;
};

// Walks down the levels of one series.
class Reader {
 public:
  Reader(const FrameSource& source, const FramesOf& of, const SeriesQuery& query, Gatherer* gather)
      : source_(source), of_(of), query_(query), gather_(gather) {}

  // Blocks that lie within [from, to], and between them what the levels below have; level 0: the frames.
  Status Walk(uint32_t level, int64_t from, int64_t to) {
    if (from > to) return OkStatus();
    if (level == 0) return Frames(from, to);
    FS_ASSIGN_OR_RETURN(const auto blocks, BlocksWithin(level, from, to));
    int64_t next = from;
    for (const auto& [first, spans] : blocks) {
      if (first > next) FS_RETURN_IF_ERROR(Walk(level - 1, next, first - 1));
      FS_RETURN_IF_ERROR(Block(level, first, spans));
      if (spans.last.back() == kLastStep) return OkStatus();
      next = spans.last.back() + 1;
    }
    return Walk(level - 1, next, to);
  }

 private:
  using Blocks = std::vector<std::pair<int64_t, RollupSpans>>;  // by first step

  Result<Blocks> BlocksWithin(uint32_t level, int64_t from, int64_t to) const {
    Blocks blocks;
    Status trouble;
    FS_RETURN_IF_ERROR(source_.view().Scan(
        RollupPrefix(Table::kRollup, of_, level), RollupKey(Table::kRollup, of_, level, from),
        [&](std::string_view key, std::string_view value) {
          const auto first = ParseRollupKey(key);
          Result<RollupSpans> spans = RollupSpans::Decode(value);
          trouble = spans.status();
          if (!first || !trouble.ok() || *first > to || spans->last.back() > to) return false;
          blocks.emplace_back(*first, std::move(spans).value());
          return true;
        }));
    FS_RETURN_IF_ERROR(trouble);
    return blocks;
  }

  Status Block(uint32_t level, int64_t first, const RollupSpans& spans) {
    std::string key = RollupKey(Table::kRollupColumn, of_, level, first);
    AppendRollupColumn(query_.signal, query_.layer, &key);
    const Result<std::string> bytes = source_.view().Get(key);
    if (bytes.status().code() == Code::kNotFound) return OkStatus();
    if (!bytes.ok()) return bytes.status();
    FS_ASSIGN_OR_RETURN(const RollupColumn column, RollupColumn::Decode(*bytes));
    if (column.buckets != spans.size()) return Status(Code::kDataLoss, "rollup: a column of another block");
    size_t entry = 0;
    for (size_t b = 0; b < spans.size(); ++b) {
      gather_->Start(spans.first[b], spans.last[b], static_cast<uint64_t>(spans.rows[b]));
      for (size_t i = 0; i < column.width(); ++i, ++entry) {
        RollupSum* const sum = gather_->Of(column.heads.empty() ? 0 : column.heads[i]);
        if (sum != nullptr) sum->Add(column, entry);
      }
    }
    return OkStatus();
  }

  Status Frames(int64_t from, int64_t to) {
    SeriesQuery part = query_;
    part.from_step = from, part.to_step = to;
    return EachPointOf(source_, part, [&](const SeriesPoint& point) {
      const wire::Series& s = point.series;
      if (s.values_per_head != 1 || s.layer != query_.layer) return true;
      gather_->Start(point.step, point.step, 1);
      for (size_t i = 0; i < s.count(); ++i) {
        if (!s.has(i)) continue;
        RollupSum* const sum = gather_->Of(s.heads.empty() ? 0 : s.heads[i]);
        const auto value = CountedValue(info_, s, i);
        if (value && sum != nullptr) sum->Add(*value);
      }
      return true;
    });
  }

  const FrameSource& source_;
  const FramesOf of_;
  const SeriesQuery& query_;
  Gatherer* const gather_;
  const SignalInfo* const info_ = FindSignal(query_.signal);
};

// Frames within the query's steps, about: groups that lie in it in part count whole.
uint64_t RowsWithin(const Layouts::Look& look, const SeriesQuery& query) {
  const SealedGroups& groups = *look.groups;
  const uint64_t open = query.to_step >= look.open_from ? look.open_frames : 0;
  const bool whole =
      groups.empty() || (query.from_step <= groups[0].first && query.to_step >= groups.back().last_so_far);
  if (whole) return open + groups.rows();
  uint64_t rows = open;
  for (const SealedGroup& group : groups) {
    if (group.last >= query.from_step && group.first <= query.to_step) rows += group.rows;
  }
  return rows;
}

RollupBucket Finished(Bucket bucket, size_t heads) {
  bucket.sums.resize(heads);
  RollupBucket out;
  out.first_step = bucket.first, out.last_step = bucket.last, out.steps = bucket.rows;
  for (const RollupSum& sum : bucket.sums) {
    out.counts.push_back(static_cast<uint64_t>(sum.count));
    out.min.push_back(sum.count == 0 ? std::nanf("") : sum.min);
    out.mean.push_back(sum.mean());
    out.max.push_back(sum.count == 0 ? std::nanf("") : sum.max);
  }
  return out;
}

}  // namespace

Result<Rollup> StoreImpl::ReadRollup(const SeriesQuery& query) const {
  if (query.max_points == 0) return Status(Code::kInvalidArgument, "max_points: 0, must be at least 1");
  FS_ASSIGN_OR_RETURN(const Place place, Locate(query.run, query.attempt, query.rank));
  Rollup out;
  out.layer = query.layer;
  if (query.from_step > query.to_step) return out;
  const FramesOf of{place.run, place.attempt, place.rank};
  FS_ASSIGN_OR_RETURN(Layouts::Look look, layouts_.See(of));
  const uint64_t rows = RowsWithin(look, query);
  const uint64_t wanted = std::max<uint64_t>((rows + query.max_points - 1) / query.max_points, 1);
  uint32_t level = kRollupLevels;
  while (level > 0 && kRowsOfLevel[level] > wanted) --level;
  const FrameSource source(std::move(look), of, &recent_);
  Gatherer gather(query.heads, wanted);
  FS_RETURN_IF_ERROR(Reader(source, of, query, &gather).Walk(level, query.from_step, query.to_step));
  out.heads = gather.heads();
  for (Bucket& bucket : gather.buckets())
    out.buckets.push_back(Finished(std::move(bucket), out.heads.size()));
  return out;
}

}  // namespace foreshock::store
