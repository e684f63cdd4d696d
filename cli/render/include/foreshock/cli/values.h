// Values out of stored Series: what a person sees of each head.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::cli {

struct HeadValue {
  uint32_t head = 0;
  std::optional<double> value;  // missing is nullopt; a ratio is its quotient; NaN and Inf are values
};

// One entry a head, in the message's order. A scalar gives one entry with head 0. Of several values a head
// (partial single steps) their sum. Empty for a Series whose parts do not fit each other.
std::vector<HeadValue> HeadValues(const v1::Series& series);

// A scalar of a frame by its catalogue name; nullopt when it is not there.
std::optional<double> ScalarValue(const v1::Frame& frame, std::string_view signal);

// The catalogue's name of a Series' signal; "signal 999" for one this version does not know.
std::string SignalName(const v1::Series& series);

}  // namespace foreshock::cli
