// Reading frames, series, steps, events and the quarantine.
#include <algorithm>

#include "frame_groups.h"
#include "keys.h"
#include "series_view.h"
#include "store_impl.h"

namespace foreshock::store {

Result<StoreImpl::Place> StoreImpl::Locate(const std::string& run, const std::string& attempt,
                                           uint32_t rank) const {
  std::shared_lock lock(registry_mutex_);
  FS_ASSIGN_OR_RETURN(const auto found, registry_.Attempt(run, attempt));
  Place place{found.first->number, found.second->number, rank};
  if (rank == kMerged && found.second->world_size() == 1) place.rank = 0;
  return place;
}

Status StoreImpl::ReadFrames(const FrameQuery& query, const std::function<bool(StoredFrame)>& each) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(query.run, query.attempt, query.rank));
  if (query.limit == 0 || query.from_step > query.to_step) return OkStatus();
  const std::string prefix = FramePrefix(place.run, place.attempt, place.rank);
  FrameGroup group;
  size_t left = query.limit;
  Status trouble;
  // Hands on a finished step; false when reading is over.
  const auto flush = [&] {
    if (group.empty()) return true;
    Result<std::vector<StoredFrame>> frames = group.Take(query.every_incarnation);
    if (!frames.ok()) {
      trouble = frames.status();
      return false;
    }
    for (StoredFrame& frame : *frames) {
      frame.rank = query.rank;
      if (left == 0 || !each(std::move(frame))) return false;
      --left;
    }
    return left > 0;
  };
  bool ended = false;
  const auto take = [&](std::string_view key, std::string_view value) {
    const auto parts = ParseFrameKey(key);
    if (!parts) {
      trouble = Status(Code::kDataLoss, "frame: malformed key");
      return false;
    }
    if (!group.empty() && group.step() != parts->step && !flush()) {
      ended = true;
      return false;
    }
    if (parts->step > query.to_step || parts->step < query.from_step) return false;
    group.Add(*parts, value);
    return true;
  };
  if (query.backward) {
    const std::string before = query.to_step == kLastStep
                                   ? PrefixEnd(prefix)
                                   : FramePrefix(place.run, place.attempt, place.rank, query.to_step + 1);
    FS_RETURN_IF_ERROR(db_->ScanBackward(prefix, before, take));
  } else {
    const std::string from = FramePrefix(place.run, place.attempt, place.rank, query.from_step);
    FS_RETURN_IF_ERROR(db_->Scan(prefix, from, take));
  }
  if (trouble.ok() && !ended) flush();
  return trouble;
}

Status StoreImpl::ReadSeries(const SeriesQuery& query, const std::function<bool(SeriesPoint)>& each) const {
  FrameQuery frames{.run = query.run,
                    .attempt = query.attempt,
                    .rank = query.rank,
                    .from_step = query.from_step,
                    .to_step = query.to_step};
  std::vector<std::vector<SeriesPoint>> steps;  // used only when points are to be left out
  bool go_on = true;
  FS_RETURN_IF_ERROR(ReadFrames(frames, [&](StoredFrame stored) {
    std::vector<SeriesPoint> points = PointsOf(stored.frame, query);
    if (points.empty()) return true;
    if (query.max_points > 0) {
      steps.push_back(std::move(points));
      return true;
    }
    for (SeriesPoint& point : points) go_on = go_on && each(std::move(point));
    return go_on;
  }));
  if (steps.empty()) return OkStatus();
  for (const size_t i : Thinned(steps.size(), query.max_points)) {
    for (SeriesPoint& point : steps[i]) {
      if (!each(std::move(point))) return OkStatus();
    }
  }
  return OkStatus();
}

Result<StoredFrame> StoreImpl::ReadStep(const StepQuery& query) const {
  FrameQuery frames{.run = query.run,
                    .attempt = query.attempt,
                    .rank = query.rank,
                    .from_step = query.exact ? query.step : kFirstStep,
                    .to_step = query.step,
                    .backward = true};
  std::optional<StoredFrame> found;
  FS_RETURN_IF_ERROR(ReadFrames(frames, [&](StoredFrame stored) {
    KeepSignals(query.signals, &stored.frame);
    if (!query.signals.empty() && stored.frame.series.empty()) return true;
    found = std::move(stored);
    return false;
  }));
  if (!found) {
    const std::string step = query.step == kLastStep ? "any step" : "step " + std::to_string(query.step);
    return Status(Code::kNotFound, "step: run '" + query.run + "' has no such frame " +
                                       (query.exact ? "at " : "at or before ") + step);
  }
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
        if (!parts || value.size() < 3 || records.size() >= limit) return false;
        const size_t reason = static_cast<uint8_t>(value[1]) << 8 | static_cast<uint8_t>(value[2]);
        if (value.size() < 3 + reason) return false;
        records.push_back({parts->source, static_cast<wire::RecordType>(value[0]), parts->seq,
                           std::string(value.substr(3, reason)), std::string(value.substr(3 + reason))});
        return true;
      }));
  return records;
}

}  // namespace foreshock::store
