// What a query wants of a frame.
#pragma once

#include <vector>

#include "foreshock/server/store/store.h"

namespace foreshock::store {

// The points of a frame that a query asks for: one a layer, heads picked.
std::vector<SeriesPoint> PointsOf(const wire::Frame& frame, const SeriesQuery& query);

// Points of a source by rising step until `each` says no; max_points is not looked at.
class FrameSource;
// The point lives for the call.
using EachPoint = std::function<bool(const SeriesPoint&)>;
Status EachPointOf(const FrameSource& source, const SeriesQuery& query, const EachPoint& each);

// Leaves only these signals in the frame; empty: all.
void KeepSignals(const std::vector<uint16_t>& signals, wire::Frame* frame);

// Indices 0..count-1 with at most `limit` (>= 1) left: every k-th, and always the last.
std::vector<size_t> Thinned(size_t count, size_t limit);

}  // namespace foreshock::store
