#include "layout.h"

#include <algorithm>

#include "bytes.h"
#include "keys.h"

namespace foreshock::store {
namespace {

constexpr uint8_t kLayoutVersion = 1;

}  // namespace

std::string EncodeGroup(const SealedGroup& group) {
  std::string value;
  ByteWriter w(&value);
  w.U8(kLayoutVersion);
  w.Varint(ZigZag(group.last));
  w.Varint(group.rows);
  w.Varint(group.incarnation);
  return value;
}

bool DecodeGroup(std::string_view value, SealedGroup* group) {
  ByteReader r(value);
  if (r.U8() != kLayoutVersion) return false;
  group->last = UnZigZag(r.Varint());
  group->rows = static_cast<uint32_t>(r.Size(UINT32_MAX));
  group->incarnation = static_cast<uint32_t>(r.Size(UINT32_MAX));
  return r.at_end() && group->last >= group->first;
}

Result<Layouts::Entry> Layouts::Load(const FramesOf& source, const Database::View& view) const {
  Entry entry;
  Status trouble;
  const auto prefix = [&](Table table) {
    return SourcePrefix(table, source.run, source.attempt, source.rank);
  };
  FS_RETURN_IF_ERROR(view.Scan(prefix(Table::kGroup), {}, [&](std::string_view key, std::string_view value) {
    const auto parts = ParseGroupKey(key);
    SealedGroup group;
    if (parts) group.first = parts->first_step, group.seal = parts->seal;
    if (!parts || !DecodeGroup(value, &group)) {
      trouble = Status(Code::kDataLoss, "sealed group: malformed entry");
      return false;
    }
    entry.next_seal = std::max(entry.next_seal, group.seal + 1);
    entry.groups->Insert(group);
    return true;
  }));
  if (!trouble.ok()) return trouble;
  FS_RETURN_IF_ERROR(view.Scan(prefix(Table::kKept), {}, [&](std::string_view, std::string_view) {
    entry.kept = true;
    return false;
  }));
  FS_RETURN_IF_ERROR(CountOpen(source, view, &entry));
  return entry;
}

Status Layouts::CountOpen(const FramesOf& source, const Database::View& view, Entry* entry) const {
  // What is sealed leaves notes of its deletion, which are slow to pass over.
  const std::string from = entry->open_from == kNever
                               ? std::string()
                               : FramePrefix(source.run, source.attempt, source.rank, entry->open_from);
  entry->open_frames = 0;
  entry->counted = true;
  return view.Scan(FramePrefix(source.run, source.attempt, source.rank), from,
                   [&](std::string_view key, std::string_view) {
                     const auto parts = ParseFrameKey(key);
                     if (parts) entry->open_from = std::min(entry->open_from, parts->step);
                     entry->counted = ++entry->open_frames < kCountAtMost;
                     return entry->counted;
                   });
}

void Layouts::CountAgain() {
  std::unique_lock lock(mutex_);
  for (auto& [source, entry] : entries_) {
    if (entry.counted) continue;
    Result<Database::View> view = db_->Look();
    if (!view.ok() || view->generation() != generation_) return;
    view->ReadOnce();
    // One that cannot be counted now stays uncounted: what was counted of it so far is not all.
    Entry counted = entry;
    if (CountOpen(source, *view, &counted).ok()) entry = std::move(counted);
  }
}

Result<Layouts::Look> Layouts::See(const FramesOf& source) {
  const auto look = [](Database::View view, const Entry& entry) {
    return Look{std::move(view), entry.groups, entry.kept, entry.open_from, entry.open_frames};
  };
  {
    std::shared_lock lock(mutex_);
    FS_ASSIGN_OR_RETURN(Database::View view, db_->Look());
    const auto it = entries_.find(source);
    if (it != entries_.end() && view.generation() == generation_) return look(std::move(view), it->second);
  }
  std::unique_lock lock(mutex_);
  FS_ASSIGN_OR_RETURN(Database::View view, db_->Look());
  if (view.generation() != generation_) entries_.clear();
  generation_ = view.generation();
  auto it = entries_.find(source);
  if (it == entries_.end()) {
    view.ReadOnce();
    FS_ASSIGN_OR_RETURN(Entry entry, Load(source, view));
    view.ReadOnce(false);
    it = entries_.emplace(source, std::move(entry)).first;
  }
  return look(std::move(view), it->second);
}

uint64_t Layouts::WillAppend(const FramesOf& source, int64_t step) {
  std::unique_lock lock(mutex_);
  const auto it = entries_.find(source);
  if (it == entries_.end() || generation_ != db_->generation()) {
    lock.unlock();
    // The frame itself is not there yet: loaded first, then counted.
    if (!See(source).ok()) return 0;
    lock.lock();
  }
  const auto loaded = entries_.find(source);
  if (loaded == entries_.end()) return 0;
  Entry& entry = loaded->second;
  entry.open_from = std::min(entry.open_from, step);
  entry.least_since_start = std::min(entry.least_since_start, step);
  return ++entry.open_frames;
}

void Layouts::WillKeep(const FramesOf& source) {
  std::unique_lock lock(mutex_);
  const auto it = entries_.find(source);
  if (it != entries_.end()) it->second.kept = true;  // others find it when they are loaded
}

Result<Layouts::Sealing> Layouts::StartSealing(const FramesOf& source) {
  FS_ASSIGN_OR_RETURN(Look look, See(source));
  std::unique_lock lock(mutex_);
  const auto it = entries_.find(source);
  if (it == entries_.end()) return Status(Code::kUnavailable, "sealing: the database was opened anew");
  it->second.least_since_start = kNever;
  return Sealing{std::move(look), it->second.next_seal};
}

int64_t Layouts::LeastSinceStart(const FramesOf& source) const {
  std::shared_lock lock(mutex_);
  const auto it = entries_.find(source);
  return it == entries_.end() ? kNever : it->second.least_since_start;
}

Status Layouts::Sealed(const FramesOf& source, uint64_t generation, Database* db, Batch& batch,
                       const Change& change) {
  std::unique_lock lock(mutex_);
  const auto it = entries_.find(source);
  if (it == entries_.end() || generation_ != generation || db->generation() != generation) {
    return Status(Code::kFailedPrecondition, "sealing: the database was opened anew");
  }
  FS_RETURN_IF_ERROR(db->WriteUnlogged(batch));
  Entry& entry = it->second;
  // Always a new list: that no reader holds the old one (use_count) does not order its last read before a
  // change. Copies share all but their last part.
  auto groups = std::make_shared<SealedGroups>(*entry.groups);
  for (const SealedGroup& group : change.groups) {
    groups->Insert(group);
    entry.next_seal = std::max(entry.next_seal, group.seal + 1);
  }
  entry.groups = std::move(groups);
  entry.kept = entry.kept || change.kept;
  if (entry.counted) entry.open_frames -= std::min(entry.open_frames, change.frames);
  entry.open_from = std::min(change.open_from, entry.least_since_start);
  return OkStatus();
}

std::vector<Layouts::Open> Layouts::ListOpen() const {
  std::shared_lock lock(mutex_);
  std::vector<Open> list;
  for (const auto& [source, entry] : entries_) {
    if (entry.open_frames > 0) list.push_back({source, entry.open_frames});
  }
  return list;
}

void Layouts::Forget(uint32_t run) {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.run == run; });
}

}  // namespace foreshock::store
