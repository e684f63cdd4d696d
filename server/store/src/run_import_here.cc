// What is here already of a run on its way in, by numbers.
#include "frames_here.h"
#include "keys.h"
#include "run_import.h"

namespace foreshock::store {

Status RunImportImpl::GatherRank(const archive::Place& place) {
  FS_ASSIGN_OR_RETURN(const Attempt* attempt, AttemptOf(place.attempt));
  const FramesOf rank{run_, attempt->number, place.rank};
  if (!gathered_.insert(rank).second || attempt->fresh) return OkStatus();
  std::map<uint32_t, Process*> known;
  for (auto it = processes_.lower_bound({place.attempt, place.rank, 0});
       it != processes_.end() && it->first.attempt == place.attempt && it->first.rank == place.rank; ++it) {
    if (!it->second.fresh) known[it->second.id.incarnation] = &it->second;
  }
  if (known.empty()) return OkStatus();
  const auto of = [&](uint32_t incarnation) {
    const auto it = known.find(incarnation);
    return it == known.end() ? nullptr : it->second;
  };
  FS_ASSIGN_OR_RETURN(const Layouts::Look look, store_.layouts_.See(rank));
  for (const auto& [incarnation, process] : known) {
    const auto counters = look.view.Get(SourceKey(Table::kCounters, process->id));
    SourceInfo seen;
    if (counters.ok()) FS_RETURN_IF_ERROR(DecodeCounters(*counters, &seen));
    process->seen = {seen.frames, seen.events, seen.quarantined};
  }
  FS_RETURN_IF_ERROR(GatherFrames(look, rank, of));
  return GatherOthers(look.view, rank, of);
}

Status RunImportImpl::GatherFrames(const Layouts::Look& look, const FramesOf& rank, const ProcessOf& of) {
  return EachFrameHere(look, rank, [&](const FrameHere& frame) {
    Process* process = of(frame.incarnation);
    if (process == nullptr) return;
    (frame.sealed ? process->sealed : process->raw).Add(frame.seq);
    process->steps.Add(frame.step);
    ++process->frames;
  });
}

Status RunImportImpl::GatherOthers(const Database::View& view, const FramesOf& rank, const ProcessOf& of) {
  const auto take = [&](const std::optional<FrameKeyParts>& parts, uint64_t Process::*counter) {
    Process* process = parts && parts->source.rank == rank.rank ? of(parts->source.incarnation) : nullptr;
    if (process == nullptr) return true;
    process->others.Add(parts->seq);
    ++(process->*counter);
    return true;
  };
  FS_RETURN_IF_ERROR(view.Scan(
      EventPrefix(rank.run, rank.attempt), {},
      [&](std::string_view key, std::string_view) { return take(ParseEventKey(key), &Process::events); }));
  return view.Scan(SourcePrefix(Table::kQuarantine, rank.run, rank.attempt, rank.rank), {},
                   [&](std::string_view key, std::string_view) {
                     return take(ParseSourceKey(key), &Process::quarantined);
                   });
}

Status RunImportImpl::GatherMerged(Attempt* attempt) {
  if (attempt->merged) return OkStatus();
  attempt->merged.emplace();
  if (attempt->fresh) return OkStatus();
  const FramesOf merged{run_, attempt->number, kMerged};
  FS_ASSIGN_OR_RETURN(const Layouts::Look look, store_.layouts_.See(merged));
  return EachFrameHere(look, merged, [&](const FrameHere& frame) { attempt->merged->Add(frame.step); });
}

}  // namespace foreshock::store
