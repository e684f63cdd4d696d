// Writing rollups: a bucket at a time behind the sealer, a block when it is full.
//
// Blocks are made of what is sealed, hold nothing that is not there as well, and are not logged: a crash
// takes away the newest ones, which are made again. A late frame makes the blocks around it wrong: they are
// deleted with the batch that seals it, and the steps are read as they were sealed from then on.
#include "foreshock/base/logging.h"
#include "group_reader.h"
#include "rollup.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

// The steps of a block, from its entry.
struct BlockSteps {
  int64_t first = 0, last = 0;
};

std::optional<BlockSteps> StepsOf(std::string_view key, std::string_view value) {
  const auto first = ParseRollupKey(key);
  const Result<RollupSpans> spans = RollupSpans::Decode(value);
  if (!first || !spans.ok()) return std::nullopt;
  return BlockSteps{*first, spans->last.back()};
}

void PutBlock(const FramesOf& source, uint32_t level, RollupBuilder* builder, Batch* batch) {
  const int64_t first = builder->spans().first.front();
  batch->Put(RollupKey(Table::kRollup, source, level, first), builder->spans().Encode());
  const std::string prefix = RollupKey(Table::kRollupColumn, source, level, first);
  for (const auto& [name, column] : builder->Take()) {
    std::string key = prefix;
    AppendRollupColumn(name.first, name.second, &key);
    batch->Put(key, column.Encode());
  }
}

}  // namespace

// The last step that blocks of a level cover; kFirstStep: none.
Result<int64_t> StoreImpl::RolledTo(const Database::View& view, const FramesOf& source,
                                    uint32_t level) const {
  int64_t end = kFirstStep;
  FS_RETURN_IF_ERROR(view.ScanBackward(RollupPrefix(Table::kRollup, source, level), {},
                                       [&](std::string_view key, std::string_view value) {
                                         if (const auto steps = StepsOf(key, value)) end = steps->last;
                                         return false;
                                       }));
  return end;
}

Status StoreImpl::DropRollups(const Database::View& view, const FramesOf& source, int64_t first, int64_t last,
                              Batch* batch) {
  const auto pending = rolling_.find(source);
  if (pending != rolling_.end() && first <= pending->second.to) rolling_.erase(pending);
  for (uint32_t level = 1; level <= kRollupLevels; ++level) {
    FS_RETURN_IF_ERROR(view.ScanBackward(
        RollupPrefix(Table::kRollup, source, level),
        last == kLastStep ? std::string() : RollupKey(Table::kRollup, source, level, last + 1),
        [&](std::string_view key, std::string_view value) {
          const auto steps = StepsOf(key, value);
          if (steps && steps->last < first) return false;
          batch->Delete(key);
          const auto begin = ParseRollupKey(key);
          if (!begin) return true;
          const std::string columns = RollupKey(Table::kRollupColumn, source, level, *begin);
          batch->DeleteRange(columns, PrefixEnd(columns));
          return true;
        }));
  }
  return OkStatus();
}

// Takes the next bucket's spans into the builder; false: there are not enough sealed frames yet.
Result<bool> StoreImpl::RollBucket(const FrameSource& frames, int64_t open_from, Rolling* rolling) {
  FS_ASSIGN_OR_RETURN(const std::vector<Span> spans,
                      frames.Spans(rolling->to == kFirstStep ? kFirstStep : rolling->to + 1, kLastStep));
  uint64_t rows = 0;
  size_t take = 0;
  for (; take < spans.size() && rows < kRollupRows; ++take) {
    // Steps that somebody is sending again, or late: they are gathered when they are sealed.
    if (spans[take].last >= open_from) return false;
    for (const SealedGroup& group : spans[take].groups) rows += group.rows;
  }
  if (rows < kRollupRows) return false;
  rolling->block.StartBucket();
  for (size_t i = 0; i < take; ++i) {
    const Span& span = spans[i];
    if (span.groups.size() == 1 && !span.raw) {
      FS_ASSIGN_OR_RETURN(const GroupReader reader,
                          GroupReader::Open(frames.view(), frames.source(), span.groups.front()));
      FS_RETURN_IF_ERROR(reader.EachColumn([&](const Column& column) { rolling->block.Add(column); }));
      rolling->block.AddSteps(span.first, span.last, span.groups.front().rows);
    } else {
      FS_ASSIGN_OR_RETURN(const std::vector<StoredFrame> whole,
                          frames.Frames(span, kFirstStep, kLastStep, {}, false));
      for (const StoredFrame& stored : whole) {
        for (const wire::Series& series : stored.frame.series) rolling->block.Add(series);
      }
      if (!whole.empty()) {
        rolling->block.AddSteps(whole.front().frame.step, whole.back().frame.step,
                                static_cast<int64_t>(whole.size()));
      }
    }
    rolling->to = span.last;
  }
  return true;
}

// 16 blocks of the level below, behind the last one of this level, become 16 buckets.
Result<bool> StoreImpl::RollLevel(const Database::View& view, const FramesOf& source, uint32_t level,
                                  Batch* batch) {
  FS_ASSIGN_OR_RETURN(const int64_t end, RolledTo(view, source, level));
  std::vector<std::pair<int64_t, RollupSpans>> blocks;
  const std::string prefix = RollupPrefix(Table::kRollup, source, level - 1);
  const std::string from = end == kFirstStep ? prefix : RollupKey(Table::kRollup, source, level - 1, end + 1);
  FS_RETURN_IF_ERROR(view.Scan(prefix, from, [&](std::string_view key, std::string_view value) {
    const auto first = ParseRollupKey(key);
    Result<RollupSpans> spans = RollupSpans::Decode(value);
    if (first && spans.ok()) blocks.emplace_back(*first, std::move(spans).value());
    return blocks.size() < kBucketsOfBlock;
  }));
  if (blocks.size() < kBucketsOfBlock) return false;
  RollupBuilder builder;
  for (const auto& [first, spans] : blocks) {
    builder.StartBucket();
    for (size_t i = 0; i < spans.size(); ++i) builder.AddSteps(spans.first[i], spans.last[i], spans.rows[i]);
    Status trouble;
    const std::string columns = RollupKey(Table::kRollupColumn, source, level - 1, first);
    FS_RETURN_IF_ERROR(view.Scan(columns, {}, [&](std::string_view key, std::string_view value) {
      const auto name = ParseRollupColumn(key);
      const Result<RollupColumn> column = RollupColumn::Decode(value);
      trouble = column.status();
      if (name && column.ok()) builder.Add(*name, *column);
      return trouble.ok();
    }));
    FS_RETURN_IF_ERROR(trouble);
  }
  PutBlock(source, level, &builder, batch);
  return true;
}

// At most one bucket of level 1, so that the sealer is soon back at sealing; true: there may be more to do.
Result<bool> StoreImpl::RollOnce(const FramesOf& source) {
  std::lock_guard one_at_a_time(seal_mutex_);
  FS_ASSIGN_OR_RETURN(Layouts::Look look, layouts_.See(source));
  look.view.ReadOnce();
  const uint64_t generation = look.view.generation();
  if (generation != rolling_generation_) rolling_.clear();
  rolling_generation_ = generation;
  auto it = rolling_.find(source);
  if (it == rolling_.end()) {
    // Not worth looking at the database for a short run.
    if (look.groups->rows() < kBucketsOfBlock * kRollupRows) return false;
    FS_ASSIGN_OR_RETURN(const int64_t end, RolledTo(look.view, source, 1));
    it = rolling_.emplace(source, Rolling{end, {}, true}).first;
  }
  Rolling& rolling = it->second;
  rolling.touched = true;
  Batch batch;
  {
    const int64_t open_from = look.open_from;
    const FrameSource frames(std::move(look), source, &recent_);
    const Result<bool> bucket = RollBucket(frames, open_from, &rolling);
    if (!bucket.ok()) rolling_.erase(it);
    if (!bucket.ok() || !*bucket) return bucket;
    if (rolling.block.buckets() < kBucketsOfBlock) return true;
    PutBlock(source, 1, &rolling.block, &batch);
  }
  const Status written = WriteRollups(source, batch);
  if (!written.ok()) rolling_.erase(source);  // the block is gathered again
  FS_RETURN_IF_ERROR(written);
  for (uint32_t level = 2; level <= kRollupLevels; ++level) {
    FS_ASSIGN_OR_RETURN(const Database::View view, db_->Look());
    Batch upper;
    FS_ASSIGN_OR_RETURN(const bool full, RollLevel(view, source, level, &upper));
    if (!full) break;
    FS_RETURN_IF_ERROR(WriteRollups(source, upper));
  }
  return true;
}

Status StoreImpl::WriteRollups(const FramesOf& source, Batch& batch) {
  std::lock_guard write(write_mutex_);
  std::shared_lock lock(registry_mutex_);
  if (registry_.FindAttempt(source.run, source.attempt) == nullptr) return OkStatus();
  unsettled_ = true;
  return db_->WriteUnlogged(batch);
}

void StoreImpl::Roll(const FramesOf& source) {
  while (!stopping_) {
    const Result<bool> more = RollOnce(source);
    trouble_.Note(Trouble::kRollups, more.status());
    if (!more.ok() || !*more) return;
  }
}

}  // namespace foreshock::store
