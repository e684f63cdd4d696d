// What the server counts, by the names that GetStatus and /api/v1/status show.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "foreshock/server/export/exporter.h"
#include "history.h"

namespace foreshock::app {

std::map<std::string, uint64_t> CountersOf(const History& history);

// The same for /metrics, with help; what goes up and down is a gauge there.
std::vector<exporter::ServerMetric> MetricsOf(const History& history);

}  // namespace foreshock::app
