// Silences as the store keeps them: kind "silence", of no run, key id, value JSON.
#pragma once

#include "foreshock/server/alert/silences.h"

namespace foreshock::alert {

inline constexpr char kSilenceKind[] = "silence";

store::MetaEntry ToEntry(const Silence& silence);
Result<Silence> SilenceFrom(const store::MetaEntry& entry);

// What it covers, for a person: "run gpt-*, rule qk_runaway, layer 3".
std::string ScopeText(const Silence& silence);

}  // namespace foreshock::alert
