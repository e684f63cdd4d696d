// Putting split frames together again.
#pragma once

#include <vector>

#include "foreshock/wire/types.h"

namespace foreshock::store {

// One frame from parts of the same step and sender (wire::SplitFrame), in any order. With every part there
// the result is whole (part 0 of 1), as it is where one of them is the whole frame; with some missing it
// holds what there is and keeps `parts`, which says so. seq and dropped_before are those of the lowest part.
// `parts` must not be empty.
wire::Frame JoinParts(std::vector<wire::Frame> parts);

// Bytes that a decoded frame takes, about.
size_t MemoryOf(const wire::Frame& frame);

}  // namespace foreshock::store
