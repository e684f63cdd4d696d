#include "foreshock/server/report/chart_library.h"

#include "assets.h"

namespace foreshock::report {

std::string_view ChartLibraryJs() { return kDygraphJs; }
std::string_view ChartLibraryCss() { return kDygraphCss; }

}  // namespace foreshock::report
