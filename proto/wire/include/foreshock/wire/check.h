// Whether a Hello can be taken. One set of rules for every receiver: an agent that took what its server
// refuses would keep it for ever.
#pragma once

#include <string>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

inline constexpr uint32_t kMaxWorldSize = 1u << 20;

// kInvalidArgument naming the field, its value and the limit. The attempt may be empty (to be minted).
Status CheckHello(const Hello& hello);

// Names of runs and attempts: 1 to kMaxNameBytes bytes of well-formed UTF-8 without control characters, not
// beginning with '/'. They are compared byte by byte, without any normalisation.
Status CheckName(const char* field, const std::string& name);

}  // namespace foreshock::wire
