#include <algorithm>
#include <cmath>
#include <map>

#include "foreshock/base/catalogue.h"
#include "foreshock/cli/chart.h"
#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/table.h"
#include "foreshock/cli/values.h"

namespace foreshock::cli {
namespace {

struct Shown {
  int64_t step = 0;
  std::optional<double> low, middle, high;
  uint32_t high_head = 0;
};

// Smallest, median and largest head. NaN is the largest of all: it must be seen.
Shown OfHeads(int64_t step, const std::vector<HeadValue>& heads) {
  Shown shown{step, {}, {}, {}, 0};
  std::vector<HeadValue> present;
  for (const HeadValue& head : heads) {
    if (head.value) present.push_back(head);
  }
  if (present.empty()) return shown;
  const auto key = [](const HeadValue& h) { return std::isnan(*h.value) ? INFINITY : *h.value; };
  std::sort(present.begin(), present.end(), [&](const auto& a, const auto& b) {
    if (std::isnan(*a.value) != std::isnan(*b.value)) return std::isnan(*b.value);
    return key(a) < key(b);
  });
  shown.low = present.front().value;
  shown.middle = present[present.size() / 2].value;
  shown.high = present.back().value;
  shown.high_head = present.back().head;
  return shown;
}

std::optional<double> OfHead(const std::vector<HeadValue>& heads, uint32_t head) {
  for (const HeadValue& h : heads) {
    if (h.head == head) return h.value;
  }
  return std::nullopt;
}

std::string Spark(const std::vector<Shown>& points, const Style& style) {
  if (!style.terminal) return "";
  std::vector<std::optional<double>> values;
  for (const Shown& point : points) values.push_back(point.high);
  return style(Paint::kCyan, Sparkline(values, std::min(style.columns - 2, 100))) + "\n";
}

std::string OneValue(const std::vector<Shown>& points, const std::string& title, const Style& style) {
  Table table({{"step", Align::kRight}, {title, Align::kRight}});
  for (const Shown& p : points) table.AddRow({std::to_string(p.step), FormatNumber(p.high)});
  return table.Render(style);
}

std::string Spread(const std::vector<Shown>& points, const Style& style) {
  Table table({{"step", Align::kRight},
               {"min", Align::kRight},
               {"median", Align::kRight},
               {"max", Align::kRight},
               {"at head", Align::kRight}});
  for (const Shown& p : points) {
    table.AddRow({std::to_string(p.step), FormatNumber(p.low), FormatNumber(p.middle), FormatNumber(p.high),
                  p.high ? std::to_string(p.high_head) : "-"});
  }
  return table.Render(style);
}

}  // namespace

std::string RenderSeries(const v1::SeriesPoints& points, std::optional<uint32_t> head, const Style& style) {
  std::map<int64_t, std::vector<Shown>> by_layer;  // -1: scalars
  std::string name;
  for (const v1::SeriesPoint& point : points.points()) {
    const v1::Series& series = point.series();
    name = SignalName(series);
    const std::vector<HeadValue> values = HeadValues(series);
    const int64_t layer = series.has_layer() ? static_cast<int64_t>(series.layer()) : -1;
    Shown shown = OfHeads(point.step(), values);
    if (head && layer >= 0) shown.high = OfHead(values, *head);
    by_layer[layer].push_back(shown);
  }
  if (by_layer.empty()) return "no points\n";
  std::string out;
  for (const auto& [layer, shown] : by_layer) {
    if (!out.empty()) out += "\n";
    std::string title = name;
    if (layer >= 0) title += " layer " + std::to_string(layer);
    if (layer >= 0 && head) title += " head " + std::to_string(*head);
    out += style(Paint::kBold, title) + "\n" + Spark(shown, style);
    out += layer < 0 || head ? OneValue(shown, name, style) : Spread(shown, style);
  }
  return out;
}

std::string RenderHeads(const v1::StepReply& reply, const std::string& signal, const Style& style) {
  std::map<uint32_t, HeatRow> rows;
  for (const v1::Series& series : reply.frame().series()) {
    if (!series.has_layer() || SignalName(series) != signal) continue;
    HeatRow& row = rows[series.layer()];
    row.label = std::to_string(series.layer());
    for (const HeadValue& value : HeadValues(series)) {
      if (row.values.size() <= value.head) row.values.resize(value.head + 1);
      row.values[value.head] = value.value;
    }
  }
  if (rows.empty()) return "no " + signal + " at step " + std::to_string(reply.step()) + "\n";
  std::vector<HeatRow> list;
  for (auto& [layer, row] : rows) list.push_back(std::move(row));
  return style(Paint::kBold, signal + " at step " + std::to_string(reply.step()) + " (layer x head)") + "\n" +
         HeatMap(list, style);
}

}  // namespace foreshock::cli
