// Naming attempts whose sender did not.
#pragma once

#include <string>

#include "foreshock/server/store/store.h"

namespace foreshock::ingest {

// Ranks of one attempt that named it by nothing connect within this time of each other.
inline constexpr int64_t kMintWindowNs = int64_t{600} * 1'000'000'000;

// Fills in hello->attempt and attempt_source. A known incarnation gets the attempt it had. In a world of
// several ranks the ranks gather in the newest attempt that was named here within kMintWindowNs, has the same
// world size and lacks the rank; it is marked unknown, since two starts cannot be told apart for certain.
// Calls must not overlap with each other or with OpenSource of their Hellos.
void MintAttempt(const store::Store& store, int64_t now_unix_ns, wire::Hello* hello);

}  // namespace foreshock::ingest
