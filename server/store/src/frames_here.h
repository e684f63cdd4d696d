// Which frames of a source are there, by their numbers, in whatever form they are kept.
#pragma once

#include <functional>

#include "layout.h"
#include "payload_filter.h"

namespace foreshock::store {

// Of a frame its number, step and place among parts alone.
const SeriesFilter& NoSeries();

struct FrameHere {
  uint32_t incarnation = 0;
  int64_t step = 0;
  uint64_t seq = 0;
  bool sealed = false;  // a whole frame, by the number of its first part; else as it came, a part perhaps
};

// Records of one frame, open or kept, none of them sealed.
struct PartsHere {
  bool any = false;
  bool all = false;   // the whole frame, or every part where readers join them
  bool open = false;  // else all of them were kept,
  uint32_t seal = 0;  // at this seal
};

// Of the frame of this step and process whose first part has the number `first`.
Result<PartsHere> FindPartsHere(const Database::View& view, const SourceId& source, int64_t step,
                                uint64_t first);

// Sealed ones first, each group's by rising step.
Status EachFrameHere(const Layouts::Look& look, const FramesOf& source,
                     const std::function<void(const FrameHere&)>& each);

}  // namespace foreshock::store
