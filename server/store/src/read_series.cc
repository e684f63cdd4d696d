// Reading one signal over steps: from sealed groups only its columns, from open frames only its series.
#include <algorithm>

#include "frame_source.h"
#include "group_reader.h"
#include "series_view.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

// Where in the column's heads the wanted ones are; none wanted: nullopt, all of them.
std::optional<std::vector<size_t>> PlacesOf(const std::vector<uint32_t>& heads,
                                            const std::vector<uint32_t>& wanted) {
  if (wanted.empty()) return std::nullopt;
  std::vector<size_t> places;
  for (const uint32_t head : wanted) {
    const auto it = std::find(heads.begin(), heads.end(), head);
    if (it != heads.end()) places.push_back(static_cast<size_t>(it - heads.begin()));
  }
  return places;
}

// Points of a group that overlaps with nothing. False in *go_on: `each` had enough.
Status PointsOfGroup(const FrameSource& source, const SealedGroup& group, const SeriesQuery& query,
                     const EachPoint& each, SeriesPoint* point, bool* go_on) {
  std::optional<std::optional<uint32_t>> layer;
  if (query.layer) layer = query.layer;
  FS_ASSIGN_OR_RETURN(const std::vector<Column> columns,
                      ReadColumns(source.view(), source.source(), group, query.signal, layer));
  struct Ref {
    int64_t step;
    size_t column, row;
  };
  std::vector<std::optional<std::vector<size_t>>> places;
  std::vector<Ref> refs;
  for (size_t c = 0; c < columns.size(); ++c) {
    places.push_back(PlacesOf(columns[c].shape().heads, query.heads));
    if (places.back() && places.back()->empty()) continue;
    for (size_t row = 0; row < columns[c].rows(); ++row) {
      const int64_t step = columns[c].steps()[row];
      if (step >= query.from_step && step <= query.to_step) refs.push_back({step, c, row});
    }
  }
  if (columns.size() > 1) {
    std::stable_sort(refs.begin(), refs.end(), [](const Ref& a, const Ref& b) { return a.step < b.step; });
  }
  for (const Ref& ref : refs) {
    const auto& picked = places[ref.column];
    point->step = ref.step;
    columns[ref.column].ReadRow(ref.row, picked ? &*picked : nullptr, &point->series);
    *go_on = each(*point);
    if (!*go_on) break;
  }
  return OkStatus();
}

}  // namespace

Status EachPointOf(const FrameSource& source, const SeriesQuery& query, const EachPoint& each) {
  const SeriesFilter filter{.signals = {query.signal}, .layer = query.layer};
  bool go_on = true;
  SeriesPoint point;
  const auto frame = [&](const StoredFrame& stored) {
    for (const SeriesPoint& p : PointsOf(stored.frame, query)) go_on = go_on && each(p);
    return go_on;
  };
  FS_ASSIGN_OR_RETURN(const std::vector<Span> spans, source.Spans(query.from_step, query.to_step));
  for (const Span& span : spans) {
    if (!go_on) return OkStatus();
    if (span.groups.size() == 1 && !span.raw) {
      FS_RETURN_IF_ERROR(PointsOfGroup(source, span.groups.front(), query, each, &point, &go_on));
      continue;
    }
    FS_ASSIGN_OR_RETURN(const std::vector<StoredFrame> frames,
                        source.Frames(span, query.from_step, query.to_step, filter, false));
    for (const StoredFrame& stored : frames) {
      if (!frame(stored)) return OkStatus();
    }
  }
  if (!go_on) return OkStatus();
  bool stopped = false;
  return source.Tail(query.from_step, query.to_step, false, filter, false, frame, &stopped);
}

Status StoreImpl::ReadSeries(const SeriesQuery& query,
                             const std::function<bool(const SeriesPoint&)>& each) const {
  FS_ASSIGN_OR_RETURN(const Place place, Locate(query.run, query.attempt, query.rank));
  if (query.from_step > query.to_step) return OkStatus();
  FS_ASSIGN_OR_RETURN(const FrameSource source, See(place));
  if (query.max_points == 0) return EachPointOf(source, query, each);
  std::vector<std::vector<SeriesPoint>> steps;
  FS_RETURN_IF_ERROR(EachPointOf(source, query, [&](const SeriesPoint& point) {
    if (steps.empty() || steps.back().front().step != point.step) steps.emplace_back();
    steps.back().push_back(point);
    return true;
  }));
  if (steps.empty()) return OkStatus();
  for (const size_t i : Thinned(steps.size(), query.max_points)) {
    for (const SeriesPoint& point : steps[i]) {
      if (!each(point)) return OkStatus();
    }
  }
  return OkStatus();
}

}  // namespace foreshock::store
