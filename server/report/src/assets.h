// Files that are inside every page; made from files at build time (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace foreshock::report {

extern const std::string_view kDygraphJs;  // the charting library, from its package
extern const std::string_view kDygraphCss;
extern const std::string_view kPageJs;   // assets/report.js
extern const std::string_view kPageCss;  // assets/report.css

}  // namespace foreshock::report
