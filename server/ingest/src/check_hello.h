// Whether a Hello can be taken.
#pragma once

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::ingest {

inline constexpr uint32_t kMaxWorldSize = 1u << 20;

// kInvalidArgument naming the field, its value and the limit. The attempt may be empty (to be minted).
Status CheckHello(const wire::Hello& hello);

// Names of runs and attempts: 1 to 200 bytes of valid UTF-8 without control characters, not beginning with
// '/'.
Status CheckName(const char* field, const std::string& name);

}  // namespace foreshock::ingest
