// Whether a Hello can be taken. One set of rules for every receiver: an agent that took what its server
// refuses would keep it for ever.
#pragma once

#include <cstdint>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

inline constexpr uint32_t kMaxWorldSize = 1u << 20;
inline constexpr size_t kMaxLabels = 64;
inline constexpr size_t kMaxLabelBytes = 64;        // of a key
inline constexpr size_t kMaxLabelValueBytes = 512;  // of a value
inline constexpr size_t kMaxAllowedActions = 64;
inline constexpr size_t kMaxUnmonitored = 65536;
inline constexpr uint64_t kMaxSeq = UINT64_MAX >> 1;  // so that no sum or signed number of readers wraps

// kInvalidArgument naming the field, its value and the limit. The attempt may be empty (to be minted).
Status CheckHello(const Hello& hello);

// kInvalidArgument: a sequence number is 1 to kMaxSeq. A receiver answers others with a final error and does
// not count them: as durable_seq they would make everything that follows a repetition.
Status CheckSeq(uint64_t seq);

// A label's key is 1 to kMaxLabelBytes bytes of printable UTF-8, its value at most kMaxLabelValueBytes.
Status CheckLabel(const std::string& key, const std::string& value);

// Names of runs and attempts: 1 to kMaxNameBytes bytes of well-formed UTF-8 without control characters, not
// beginning with '/'. They are compared byte by byte, without any normalisation.
Status CheckName(const char* field, const std::string& name);

}  // namespace foreshock::wire
