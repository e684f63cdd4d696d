// The charting library (dygraphs, from its package at build time), for every page of the server.
#pragma once

#include <string_view>

namespace foreshock::report {

std::string_view ChartLibraryJs();
std::string_view ChartLibraryCss();

}  // namespace foreshock::report
