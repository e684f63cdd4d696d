// What the server counts, by the names that GetStatus and /api/v1/status show.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/merge/merger.h"

namespace foreshock::app {

std::map<std::string, uint64_t> CountersOf(const ingest::Ingest& ingest, const merge::Merger& merger);

}  // namespace foreshock::app
