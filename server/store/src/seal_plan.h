// Decides what becomes of open frames that are to be sealed. Pure.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "group.h"
#include "keys.h"

namespace foreshock::store {

struct OpenRecord {
  FrameKeyParts key;
  std::string payload;                       // empty where the frame is given, which encodes to it
  std::shared_ptr<const wire::Frame> frame;  // decoded before; nullptr: not known
};
std::string PayloadOf(const OpenRecord& record);

struct SealPlan {
  std::map<uint32_t, GroupBuilder> groups;  // by incarnation
  std::vector<size_t> kept;                 // records that stay as they came, put aside
  std::vector<size_t> closed;               // records that are open no longer: sealed or kept
  std::vector<int64_t> left;                // steps whose records stay open
};

// `records` stand in the order of their keys. Of each step and incarnation the newest frame is sealed when
// what comes out encodes to the very bytes that came in: so nothing is lost of a sender that writes fields
// which this version does not know. All else is kept: such frames, frames with missing parts, older frames of
// a step that a process sent again. A frame with missing parts stays open while `may_grow` of its last
// record: the rest may be under way. `expected_rows` of a group: room is made for them at once.
SealPlan PlanSealing(const std::vector<OpenRecord>& records,
                     const std::function<bool(const FrameKeyParts&)>& may_grow, size_t expected_rows = 0);

}  // namespace foreshock::store
