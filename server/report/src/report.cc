#include "foreshock/server/report/report.h"

#include <algorithm>

#include "assets.h"
#include "foreshock/json/writer.h"
#include "html.h"
#include "page_data.h"
#include "post_mortem.h"
#include "run_data.h"
#include "sections.h"

namespace foreshock::report {
namespace {

// The library's pointer to its source map would make browsers look for a file. It is the last thing in the
// text.
std::string_view WithoutSourceMap(std::string_view text) {
  const size_t at = std::min(text.rfind("//# sourceMappingURL="), text.rfind("/*# sourceMappingURL="));
  return text.substr(0, at);
}

std::string Title(const std::vector<RunData>& runs) {
  std::string title;
  for (const RunData& run : runs) title += (title.empty() ? "" : ", ") + run.run();
  return title;
}

std::string Head(const std::string& title) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><title>";
  out += Escape(title);
  out += " – Foreshock</title>\n<style>\n";
  out += WithoutSourceMap(kDygraphCss);
  out += kPageCss;
  out += "</style></head>\n<body>\n";
  return out;
}

std::string Scripts(const std::string& data) {
  std::string out = "<script type=\"application/json\" id=\"data\">";
  out += data;
  out += "</script>\n<script>\n";
  out += WithoutSourceMap(kDygraphJs);
  out += "\n</script>\n<script>\n";
  out += kPageJs;
  out += "\n</script>\n";
  return out;
}

}  // namespace

Result<std::string> Render(const ReportOptions& options, const std::vector<std::string>& names) {
  if (names.empty()) return Status(Code::kInvalidArgument, "run: none named, name at least one");
  if (names.size() > kMaxRuns) {
    return Status(Code::kInvalidArgument,
                  "run: " + std::to_string(names.size()) + " named, at most " + std::to_string(kMaxRuns));
  }
  std::vector<RunData> runs;
  for (const std::string& name : names) {
    const bool twice =
        std::any_of(runs.begin(), runs.end(), [&](const RunData& run) { return run.run() == name; });
    if (twice) continue;
    FS_ASSIGN_OR_RETURN(RunData run, ReadRun(options, name));
    runs.push_back(std::move(run));
  }
  FS_ASSIGN_OR_RETURN(const std::vector<HeadPanel> panels, ReadPanels(options, runs));
  std::string time = json::Rfc3339(options.clock->WallNanos()).substr(0, 19);
  time[10] = ' ';
  std::string page = Head(Title(runs));
  page += "<header><h1>Foreshock report</h1><p class=\"dim\">" + Escape(Title(runs)) + " · " + time +
          " UTC</p></header>\n<main>\n";
  page += Summary(runs);
  page += PostMortems(runs);
  page += LossSection(runs);
  page += HeadSections(runs, panels);
  page += MapSection(runs);
  page += AlertTable(runs);
  page += ActionTable(runs);
  page +=
      "<noscript><p class=\"dim\">The charts need JavaScript; the tables do not.</p></noscript>\n</main>\n";
  page += Scripts(PageData(options, runs, panels));
  page += "</body></html>\n";
  return page;
}

}  // namespace foreshock::report
