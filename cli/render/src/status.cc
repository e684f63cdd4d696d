#include <algorithm>

#include "foreshock/base/catalogue.h"
#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/table.h"

namespace foreshock::cli {
namespace {

std::string ScopeName(SignalScope scope) {
  switch (scope) {
    case SignalScope::kScalar:
      return "run";
    case SignalScope::kQueryHead:
      return "head";
    case SignalScope::kKvHead:
      return "KV head";
  }
  return "";
}

}  // namespace

std::string RenderStatus(const v1::ServerStatus& status, const Style& style) {
  const bool healthy = status.health() == "ok";
  std::string out = "version " + Printable(status.version()) + ", data in " +
                    Printable(status.data_folder()) + ", up since " + FormatTime(status.started_unix_ns()) +
                    "\n";
  out += "health: " + style(healthy ? Paint::kGreen : Paint::kRed, Printable(status.health())) + "\n";
  Table table({{"counter"}, {"value", Align::kRight}});
  std::vector<std::pair<std::string, uint64_t>> counters(status.counters().begin(), status.counters().end());
  std::sort(counters.begin(), counters.end());
  for (const auto& [name, value] : counters) table.AddRow({Printable(name), std::to_string(value)});
  return table.empty() ? out : out + table.Render(style);
}

std::string RenderCatalogue(const Style& style) {
  Table table({{"signal"}, {"unit"}, {"per"}, {"meaning"}});
  for (const SignalInfo& info : SignalCatalogue()) {
    table.AddRow(
        {std::string(info.name), std::string(info.unit), ScopeName(info.scope), std::string(info.meaning)});
  }
  return table.Render(style);
}

}  // namespace foreshock::cli
