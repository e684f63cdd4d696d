#include "foreshock/server/web/page_routes.h"

#include "foreshock/server/report/chart_library.h"
#include "page_assets.h"

namespace foreshock::web {
namespace {

using http::ErrorResponse;
using http::Request;
using http::Response;

constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kJs[] = "text/javascript; charset=utf-8";
constexpr char kCss[] = "text/css; charset=utf-8";

struct File {
  std::string_view name;
  const char* type;
  std::string_view bytes;
};

Response FileOf(const Request& request) {
  const File files[] = {
      {"app.css", kCss, kAppCss},
      {"app.js", kJs, kAppJs},
      {"api.js", kJs, kApiJs},
      {"format.js", kJs, kFormatJs},
      {"runs.js", kJs, kRunsJs},
      {"run.js", kJs, kRunJs},
      {"charts.js", kJs, kChartsJs},
      {"heat.js", kJs, kHeatJs},
      {"actions.js", kJs, kActionsJs},
      {"dygraph.js", kJs, report::ChartLibraryJs()},
      {"dygraph.css", kCss, report::ChartLibraryCss()},
  };
  const std::string wanted = request.Path("file");
  for (const File& file : files) {
    if (file.name == wanted) return {200, file.type, std::string(file.bytes)};
  }
  return ErrorResponse(Status(Code::kNotFound, "no such file of the page"));
}

}  // namespace

void AddPageRoutes(http::Routes* routes) {
  routes->Get("/", [](const Request&) { return Response{200, kHtml, std::string(kIndexHtml)}; });
  routes->Get("/ui/{file}", FileOf);
}

}  // namespace foreshock::web
