// Reading frames, steps, events and the quarantine.
#include <algorithm>

#include "frame_source.h"
#include "group_reader.h"
#include "keys.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

// Gives the frames of a span to `take`, newest first, until it returns false.
Status NewestOfSpan(const FrameSource& source, const Span& span, int64_t from, int64_t to,
                    const SeriesFilter& filter, const std::function<bool(StoredFrame)>& take) {
  if (span.groups.size() == 1 && !span.raw) {
    const SealedGroup& group = span.groups.front();
    FS_ASSIGN_OR_RETURN(const GroupReader reader, GroupReader::Open(source.view(), source.source(), group));
    FS_ASSIGN_OR_RETURN(std::optional<wire::Frame> frame, reader.Newest(from, to, filter.signals));
    if (frame) take({source.source().rank, group.incarnation, *std::move(frame)});
    return OkStatus();
  }
  FS_ASSIGN_OR_RETURN(std::vector<StoredFrame> frames, source.Frames(span, from, to, filter, false));
  while (!frames.empty() && take(std::move(frames.back()))) frames.pop_back();
  return OkStatus();
}

}  // namespace

Result<StoreImpl::Place> StoreImpl::Locate(const std::string& run, const std::string& attempt,
                                           uint32_t rank) const {
  std::shared_lock lock(registry_mutex_);
  FS_ASSIGN_OR_RETURN(const auto found, registry_.Attempt(run, attempt));
  Place place{found.first->number, found.second->number, rank};
  if (rank == kMerged && found.second->world_size() == 1) place.rank = 0;
  return place;
}

Result<FrameSource> StoreImpl::See(const Place& place, bool once) const {
  const FramesOf source{place.run, place.attempt, place.rank};
  FS_ASSIGN_OR_RETURN(Layouts::Look look, layouts_.See(source));
  if (once) look.view.ReadOnce();
  return FrameSource(std::move(look), source, &recent_);
}

Status StoreImpl::ReadFrames(const FrameQuery& query, const std::function<bool(StoredFrame)>& each) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(query.run, query.attempt, query.rank));
  if (query.limit == 0 || query.from_step > query.to_step) return OkStatus();
  // By those who follow a run, who do not come back.
  FS_ASSIGN_OR_RETURN(const FrameSource source, See(place, true));
  size_t left = query.limit;
  bool stopped = false;
  const auto give = [&](StoredFrame frame) {
    frame.rank = query.rank;
    return each(std::move(frame)) && --left > 0;
  };
  const auto tail = [&] {
    return source.Tail(query.from_step, query.to_step, query.backward, {}, query.every_incarnation, give,
                       &stopped);
  };
  if (query.backward) FS_RETURN_IF_ERROR(tail());
  if (stopped) return OkStatus();
  FS_ASSIGN_OR_RETURN(std::vector<Span> spans, source.Spans(query.from_step, query.to_step));
  if (query.backward) std::reverse(spans.begin(), spans.end());
  for (const Span& span : spans) {
    FS_ASSIGN_OR_RETURN(std::vector<StoredFrame> frames,
                        source.Frames(span, query.from_step, query.to_step, {}, query.every_incarnation));
    if (query.backward) {
      // Steps fall, incarnations of a step rise.
      std::stable_sort(frames.begin(), frames.end(),
                       [](const auto& a, const auto& b) { return a.frame.step > b.frame.step; });
    }
    for (StoredFrame& frame : frames) {
      if (!give(std::move(frame))) return OkStatus();
    }
  }
  return query.backward ? OkStatus() : tail();
}

Result<StoredFrame> StoreImpl::ReadStep(const StepQuery& query) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(query.run, query.attempt, query.rank));
  FS_ASSIGN_OR_RETURN(const FrameSource source, See(place));
  const int64_t from = query.exact ? query.step : kFirstStep;
  const SeriesFilter filter{.signals = query.signals};
  std::optional<StoredFrame> found;
  const auto take = [&](StoredFrame stored) {
    if (!query.signals.empty() && stored.frame.series.empty()) return true;
    found = std::move(stored);
    return false;
  };
  bool stopped = false;
  FS_RETURN_IF_ERROR(source.Tail(from, query.step, true, filter, false, take, &stopped));
  if (!found) {
    // Mostly the last group has it, and a long run has a hundred thousand.
    int64_t to = query.step;
    for (size_t groups = 4; !found && to >= from; groups *= 8) {
      const int64_t begin = std::max(from, source.StepBack(to, groups));
      FS_ASSIGN_OR_RETURN(std::vector<Span> spans, source.Spans(begin, to));
      for (auto span = spans.rbegin(); span != spans.rend() && !found; ++span) {
        FS_RETURN_IF_ERROR(NewestOfSpan(source, *span, from, to, filter, take));
      }
      if (begin <= from) break;
      to = std::min(begin, spans.empty() ? begin : spans.front().first) - 1;
    }
  }
  if (!found) {
    const std::string step = query.step == kLastStep ? "any step" : "step " + std::to_string(query.step);
    return Status(Code::kNotFound, "step: run '" + query.run + "' has no such frame " +
                                       (query.exact ? "at " : "at or before ") + step);
  }
  found->rank = query.rank;
  return *std::move(found);
}

Result<std::vector<StoredEvent>> StoreImpl::ReadEvents(const std::string& run, const std::string& attempt,
                                                       int64_t from_step, int64_t to_step) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(run, attempt, kMerged));
  std::vector<StoredEvent> events;
  Status trouble;
  FS_RETURN_IF_ERROR(
      db_->Scan(EventPrefix(place.run, place.attempt), EventPrefix(place.run, place.attempt, from_step),
                [&](std::string_view key, std::string_view value) {
                  const auto parts = ParseEventKey(key);
                  if (!parts || parts->step > to_step) return false;
                  Result<wire::Event> event = wire::DecodeEvent(value);
                  if (!event.ok()) {
                    trouble = Status(Code::kDataLoss, "event: " + event.status().message());
                    return false;
                  }
                  events.push_back({parts->source.rank, parts->source.incarnation, std::move(event).value()});
                  return true;
                }));
  if (!trouble.ok()) return trouble;
  return events;
}

Result<std::vector<QuarantinedRecord>> StoreImpl::ReadQuarantine(const std::string& run, size_t limit) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(run, {}, kMerged));
  std::vector<QuarantinedRecord> records;
  FS_RETURN_IF_ERROR(db_->Scan(
      TableRunPrefix(Table::kQuarantine, place.run), {}, [&](std::string_view key, std::string_view value) {
        const auto parts = ParseSourceKey(key);
        const auto content = ParseQuarantineValue(value);
        if (!parts || !content || records.size() >= limit) return false;
        records.push_back({parts->source, content->type, parts->seq, std::string(content->reason),
                           std::string(content->payload)});
        return true;
      }));
  return records;
}

}  // namespace foreshock::store
