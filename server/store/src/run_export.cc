#include "run_export.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "foreshock/archive/bounds.h"
#include "group_reader.h"
#include "keys.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

// Frames that were sent in parts are one when they are sealed; larger ones leave in parts again.
constexpr size_t kMostFrameBytes = 32u << 20;

constexpr size_t kPageBytes = 4u << 20;

constexpr int64_t kUnderWayNs = 60 * int64_t{1'000'000'000};

archive::Place PlaceOf(const SourceId& id) { return {id.attempt, id.rank, id.incarnation}; }

// A scan whose entries may fail.
template <typename Source, typename Each>
Status ScanEach(const Source& source, const std::string& prefix, Each each) {
  Status trouble;
  FS_RETURN_IF_ERROR(source.Scan(prefix, {}, [&](std::string_view key, std::string_view value) {
    trouble = each(key, value);
    return trouble.ok();
  }));
  return trouble;
}

std::set<uint32_t> RanksOf(const AttemptEntry& attempt) {
  std::set<uint32_t> ranks;
  for (const auto& [key, source] : attempt.sources) ranks.insert(key.first);
  return ranks;
}

// Keys of frames that may be parts of one.
bool OfOneFrame(std::string_view one, std::string_view other) {
  const auto a = ParseFrameKey(one), b = ParseFrameKey(other);
  return a && b && a->step == b->step && a->source == b->source;
}

Status Malformed(const char* what) {
  return Status(Code::kDataLoss, std::string(what) + ": malformed entry");
}

}  // namespace

Status StoreImpl::ExportRun(const std::string& run, int64_t now_unix_ns,
                            const std::function<Status(archive::Entry entry)>& each) const {
  const auto deleted = [&] { return Status(Code::kNotFound, "run: '" + run + "' was deleted meanwhile"); };
  uint32_t number = 0;
  {
    std::shared_lock lock(registry_mutex_);
    FS_ASSIGN_OR_RETURN(const RunEntry* found, registry_.Run(run));
    number = found->number;
  }
  RunExport run_export(db_.get(), &layouts_, now_unix_ns, each);
  FS_RETURN_IF_ERROR(run_export.Notes(run));
  RunEntry entry;
  std::optional<Database::View> view;
  {
    // No writer between the two: the view has what the registry counts, and nothing more.
    std::lock_guard write(write_mutex_);
    std::shared_lock lock(registry_mutex_);
    const auto found = registry_.runs.find(number);
    if (found == registry_.runs.end()) return deleted();
    entry = found->second;
    FS_ASSIGN_OR_RETURN(Database::View look, db_->Look());
    view.emplace(std::move(look));
  }
  FS_RETURN_IF_ERROR(run_export.Go(std::move(entry), *std::move(view)));
  // What was read of a run that was deleted meanwhile is not all of it.
  std::shared_lock lock(registry_mutex_);
  return registry_.runs.contains(number) ? OkStatus() : deleted();
}

Status RunExport::Go(RunEntry run, Database::View view) {
  run_ = std::move(run);
  {
    const Database::View moment = std::move(view);
    for (auto& [number, attempt] : run_.attempts) {
      for (const uint32_t rank : RanksOf(attempt))
        FS_RETURN_IF_ERROR(SetApartUnfinished(moment, &attempt, rank));
      FS_RETURN_IF_ERROR(FindMarks(moment, number));
    }
  }
  for (const auto& [number, attempt] : run_.attempts) {
    FS_RETURN_IF_ERROR(each_(archive::Attempt{number, attempt.name, static_cast<uint32_t>(attempt.source),
                                              attempt.first_unix_ns}));
    for (const auto& [key, source] : attempt.sources) {
      FS_RETURN_IF_ERROR(each_(archive::Process{PlaceOf(source.id), wire::Encode(*source.hello),
                                                source.first_unix_ns, EncodeCounters(source)}));
    }
  }
  for (const auto& [number, attempt] : run_.attempts) {
    const std::set<uint32_t> ranks = RanksOf(attempt);
    for (const uint32_t rank : ranks) {
      FS_RETURN_IF_ERROR(Frames({run_.number, number, rank}));
      FS_RETURN_IF_ERROR(Counters(attempt, rank));
    }
    if (attempt.world_size() > 1) FS_RETURN_IF_ERROR(Frames({run_.number, number, kMerged}));
    FS_RETURN_IF_ERROR(Events(attempt));
    for (const uint32_t rank : ranks) FS_RETURN_IF_ERROR(Quarantine(attempt, rank));
    FS_RETURN_IF_ERROR(Marks(attempt));
  }
  return OkStatus();
}

// Once it is sealed a frame of parts stands as one, and nothing says up to which number. One whose last parts
// are on their way is therefore left to a later archive, as if none of it had come; where nothing has come
// for a while, its process has ended or sends to another server, and the parts are given as they are: who
// imports them puts them beside those that are there.
Status RunExport::SetApartUnfinished(const Database::View& view, AttemptEntry* attempt, uint32_t rank) {
  return ScanEach(view, SourcePrefix(Table::kFrame, run_.number, attempt->number, rank),
                  [&](std::string_view key, std::string_view value) -> Status {
                    const auto parts = ParseFrameKey(key);
                    if (!parts) return Malformed("frame");
                    const auto found = attempt->sources.find({rank, parts->source.incarnation});
                    if (found == attempt->sources.end() || found->second.durable_seq != parts->seq)
                      return OkStatus();
                    const Result<wire::Frame> last = wire::DecodeFrame(value);
                    if (!last.ok() || last->part + 1 >= last->parts || last->part >= last->seq)
                      return OkStatus();
                    SourceInfo& source = found->second;
                    const uint64_t first = last->seq - last->part;
                    if (source.last_unix_ns < now_unix_ns_ - kUnderWayNs) {
                      given_up_[source.id] = first;
                      return OkStatus();
                    }
                    uint64_t here = 0;
                    FS_RETURN_IF_ERROR(
                        view.Scan(FramePrefix(run_.number, attempt->number, rank, parts->step), {},
                                  [&](std::string_view other, std::string_view) {
                                    const auto one = ParseFrameKey(other);
                                    const bool same = one && one->source.incarnation == source.id.incarnation;
                                    if (same && one->seq >= first && one->seq <= source.durable_seq) ++here;
                                    return true;
                                  }));
                    source.frames -= std::min(source.frames, here);
                    source.gaps -= std::min(source.gaps, source.durable_seq - first + 1 - here);
                    source.durable_seq = first - 1;
                    return OkStatus();
                  });
}

// What waited to be merged then: a merger that is done meanwhile takes its mark away, perhaps behind our look
// at the merged frames.
Status RunExport::FindMarks(const Database::View& view, uint32_t attempt) {
  return ScanEach(view, UnmergedPrefix(run_.number, attempt),
                  [&](std::string_view key, std::string_view) -> Status {
                    const auto parts = ParseUnmergedKey(key);
                    if (!parts) return Malformed("mark");
                    marks_[attempt].push_back(parts->step);
                    return OkStatus();
                  });
}

// Of one moment, however long it takes to give them: alerts fit the states of their engines.
Status RunExport::Notes(const std::string& run) {
  std::vector<archive::Note> notes;
  size_t bytes = 0;
  FS_RETURN_IF_ERROR(
      ScanEach(db_, MetaRunPrefix(run), [&](std::string_view key, std::string_view value) -> Status {
        const auto parts = ParseMetaKey(key);
        if (!parts) return Malformed("meta");
        if (parts->kind == kImportKind) return OkStatus();  // how it came here is no part of the run
        bytes += parts->key.size() + value.size() + archive::kBytesOfNote;
        if (bytes > archive::kMostBytesOfNotes)
          return Status(Code::kResourceExhausted, "run: '" + run + "' has notes of more than 256 MiB");
        notes.push_back({std::string(parts->kind), std::string(parts->key), std::string(value), true});
        return OkStatus();
      }));
  for (archive::Note& note : notes) FS_RETURN_IF_ERROR(each_(std::move(note)));
  return OkStatus();
}

Result<RunExport::Page> RunExport::Read(const Database::View& view, const std::string& prefix,
                                        const std::string& after) {
  Page page;
  size_t bytes = 0;
  FS_RETURN_IF_ERROR(view.Scan(prefix, after, [&](std::string_view key, std::string_view value) {
    if (key == after) return true;
    page.more = bytes > kPageBytes && !OfOneFrame(page.entries.back().first, key);
    if (page.more) return false;
    bytes += key.size() + value.size();
    page.entries.emplace_back(key, value);
    return true;
  }));
  return page;
}

Status RunExport::EachEntry(
    const std::string& prefix,
    const std::function<Status(std::string_view key, std::string value)>& each) const {
  std::string after;
  for (bool more = true; more;) {
    Page page;
    {
      FS_ASSIGN_OR_RETURN(Database::View view, db_.Look());
      view.ReadOnce();
      FS_ASSIGN_OR_RETURN(page, Read(view, prefix, after));
    }
    for (auto& [key, value] : page.entries) FS_RETURN_IF_ERROR(each(key, std::move(value)));
    more = page.more;
    if (more) after = std::move(page.entries.back().first);
  }
  return OkStatus();
}

Status RunExport::Frames(const FramesOf& source) {
  Given given;
  for (bool more = true; more;) {
    FS_ASSIGN_OR_RETURN(more, SomeFrames(source, &given));
  }
  return OkStatus();
}

// Gives what is sealed or kept and was not given yet. When there is nothing, gives some open frames of the
// same look; false: with them all is given.
Result<bool> RunExport::SomeFrames(const FramesOf& source, Given* given) {
  std::vector<SealedGroup> groups;
  std::vector<std::pair<uint32_t, std::string>> kept;  // seal, key
  std::optional<Page> open;
  {
    FS_ASSIGN_OR_RETURN(const Layouts::Look look, layouts_.See(source));
    if (given->groups != look.groups) {
      given->groups = look.groups;
      for (const SealedGroup& group : *look.groups) {
        if (group.seal > given->last_seal) groups.push_back(group);
      }
      FS_RETURN_IF_ERROR(ScanEach(look.view,
                                  SourcePrefix(Table::kKept, source.run, source.attempt, source.rank),
                                  [&](std::string_view key, std::string_view value) -> Status {
                                    const auto parts = ParseKeptValue(value);
                                    if (!parts) return Malformed("kept frame");
                                    std::string name(key);
                                    if (!given->kept.contains(name))
                                      kept.emplace_back(parts->seal, std::move(name));
                                    return OkStatus();
                                  }));
    }
    if (groups.empty() && kept.empty()) {
      FS_ASSIGN_OR_RETURN(
          open,
          Read(look.view, SourcePrefix(Table::kFrame, source.run, source.attempt, source.rank), given->open));
    }
  }
  if (open) {
    const bool more = open->more;
    FS_RETURN_IF_ERROR(Open(*std::move(open), given));
    return more;
  }
  // In the order in which they were closed, kept ones first: of two frames of a step the later given holds.
  std::sort(groups.begin(), groups.end(),
            [](const SealedGroup& a, const SealedGroup& b) { return a.seal < b.seal; });
  std::sort(kept.begin(), kept.end());
  auto next = kept.begin();
  const auto give_kept = [&](uint32_t up_to) -> Status {
    for (; next != kept.end() && next->first <= up_to; ++next) {
      FS_ASSIGN_OR_RETURN(const std::string value, db_.Get(next->second));
      const auto parts = ParseKeptKey(next->second);
      const auto content = ParseKeptValue(value);
      if (!parts || !content) return Malformed("kept frame");
      if (Has(parts->source, parts->seq))
        FS_RETURN_IF_ERROR(GiveFrame(PlaceOf(parts->source), std::string(content->payload)));
      given->kept.insert(next->second);
    }
    return OkStatus();
  };
  for (const SealedGroup& group : groups) {
    FS_RETURN_IF_ERROR(give_kept(group.seal));
    FS_RETURN_IF_ERROR(Group(source, group));
    given->last_seal = group.seal;
  }
  FS_RETURN_IF_ERROR(give_kept(UINT32_MAX));
  return true;
}

Status RunExport::Group(const FramesOf& source, const SealedGroup& group) {
  std::vector<wire::Frame> frames;
  {
    FS_ASSIGN_OR_RETURN(Database::View view, db_.Look());
    view.ReadOnce();
    FS_ASSIGN_OR_RETURN(const GroupReader reader, GroupReader::Open(view, source, group));
    FS_ASSIGN_OR_RETURN(frames, reader.Frames(group.first, group.last, {}));
  }
  const SourceId id{source.run, source.attempt, source.rank, group.incarnation};
  for (wire::Frame& frame : frames) {
    if (!Has(id, frame.seq)) continue;
    const auto given_up = given_up_.find(id);
    if (given_up != given_up_.end() && given_up->second == frame.seq)
      return Status(Code::kUnavailable, "run: a frame of rank " + std::to_string(id.rank) +
                                            " was finished after a long time, just now; try again");
    std::string payload = wire::Encode(frame);
    if (payload.size() <= kMostFrameBytes) {
      FS_RETURN_IF_ERROR(GiveFrame(PlaceOf(id), std::move(payload)));
      continue;
    }
    for (const wire::Frame& part : wire::SplitFrame(std::move(frame), wire::kSafeMessageBytes))
      FS_RETURN_IF_ERROR(GiveFrame(PlaceOf(id), wire::Encode(part)));
  }
  return OkStatus();
}

Status RunExport::Open(Page page, Given* given) {
  for (auto& [key, value] : page.entries) {
    const auto parts = ParseFrameKey(key);
    if (!parts) return Malformed("frame");
    if (Has(parts->source, parts->seq))
      FS_RETURN_IF_ERROR(GiveFrame(PlaceOf(parts->source), std::move(value)));
    given->open = std::move(key);
  }
  return OkStatus();
}

Status RunExport::Counters(const AttemptEntry& attempt, uint32_t rank) {
  for (auto it = attempt.sources.lower_bound({rank, 0});
       it != attempt.sources.end() && it->first.first == rank; ++it)
    FS_RETURN_IF_ERROR(each_(archive::Counters{PlaceOf(it->second.id), EncodeCounters(it->second)}));
  return OkStatus();
}

Status RunExport::Events(const AttemptEntry& attempt) {
  return EachEntry(
      EventPrefix(run_.number, attempt.number), [&](std::string_view key, std::string value) -> Status {
        const auto parts = ParseEventKey(key);
        if (!parts) return Malformed("event");
        if (!Has(parts->source, parts->seq)) return OkStatus();
        return each_(
            archive::Record{archive::RecordKind::kEvent, PlaceOf(parts->source), std::move(value), 0, 0, {}});
      });
}

Status RunExport::Quarantine(const AttemptEntry& attempt, uint32_t rank) {
  return EachEntry(
      SourcePrefix(Table::kQuarantine, run_.number, attempt.number, rank),
      [&](std::string_view key, std::string value) -> Status {
        const auto parts = ParseSourceKey(key);
        const auto content = ParseQuarantineValue(value);
        if (!parts || !content) return Malformed("quarantined record");
        if (!Has(parts->source, parts->seq)) return OkStatus();
        return each_(archive::Record{archive::RecordKind::kQuarantined, PlaceOf(parts->source),
                                     std::string(content->payload), static_cast<uint32_t>(content->type),
                                     parts->seq, std::string(content->reason)});
      });
}

Status RunExport::Marks(const AttemptEntry& attempt) {
  for (const int64_t step : marks_[attempt.number])
    FS_RETURN_IF_ERROR(each_(archive::Unmerged{attempt.number, step}));
  return OkStatus();
}

Status RunExport::GiveFrame(const archive::Place& place, std::string payload) {
  return each_(archive::Record{archive::RecordKind::kFrame, place, std::move(payload), 0, 0, {}});
}

bool RunExport::Has(const SourceId& source, uint64_t seq) const {
  const auto attempt = run_.attempts.find(source.attempt);
  if (attempt == run_.attempts.end()) return false;
  if (source.rank == kMerged) return source.incarnation == 0;
  const auto found = attempt->second.sources.find({source.rank, source.incarnation});
  return found != attempt->second.sources.end() && seq <= found->second.durable_seq;
}

}  // namespace foreshock::store
