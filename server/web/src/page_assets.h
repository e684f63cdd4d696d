// The web page's files, made from assets/ at build time (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace foreshock::web {

extern const std::string_view kIndexHtml;
extern const std::string_view kAppCss;
extern const std::string_view kApiJs;
extern const std::string_view kFormatJs;
extern const std::string_view kRunsJs;
extern const std::string_view kRunJs;
extern const std::string_view kChartsJs;
extern const std::string_view kHeatJs;
extern const std::string_view kActionsJs;
extern const std::string_view kAppJs;

}  // namespace foreshock::web
