#include "foreshock/cli/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "foreshock/cli/number.h"
#include "foreshock/cli/table.h"

namespace foreshock::cli {
namespace {

constexpr int kNotFinite = 201;  // magenta

struct Range {
  double low = INFINITY;
  double high = -INFINITY;
  bool empty() const { return low > high; }

  void Add(std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
  // Where a finite value lies, 0 to 1. Halves keep the difference of two huge values finite.
  double Share(double value) const {
    const double span = high / 2 - low / 2;
    return span > 0 ? (value / 2 - low / 2) / span : 0;
  }
};

// What a bucket shows: the largest value, NaN when any is not finite, nullopt when all are missing.
std::optional<double> BucketValue(std::span<const std::optional<double>> bucket) {
  std::optional<double> largest;
  for (const auto& value : bucket) {
    if (!value) continue;
    if (!std::isfinite(*value)) return NAN;
    largest = largest ? std::max(*largest, *value) : *value;
  }
  return largest;
}

std::string MapWithColour(std::span<const HeatRow> rows, const Range& range, const Style& style) {
  size_t label_width = 0;
  for (const auto& row : rows) label_width = std::max(label_width, DisplayWidth(row.label));
  std::string out;
  for (const auto& row : rows) {
    out += row.label + std::string(label_width - DisplayWidth(row.label) + 1, ' ');
    for (const auto& value : row.values) {
      if (!value) {
        out += " .";
      } else if (!std::isfinite(*value)) {
        out += style.Block(kNotFinite, "!!");
      } else {
        out += style.Block(HeatColour(range.Share(*value)));
      }
    }
    out += "\n";
  }
  if (range.empty()) return out;
  out += std::string(label_width + 1, ' ') + FormatNumber(range.low) + " ";
  for (int i = 0; i < 10; ++i) out += style.Block(HeatColour(i / 9.0), " ");
  return out + " " + FormatNumber(range.high) + "\n";
}

std::string MapAsNumbers(std::span<const HeatRow> rows, const Style& style) {
  size_t heads = 0;
  for (const auto& row : rows) heads = std::max(heads, row.values.size());
  std::vector<Table::Column> columns = {{"layer", Align::kLeft}};
  for (size_t h = 0; h < heads; ++h) columns.push_back({"h" + std::to_string(h), Align::kRight});
  Table table(std::move(columns));
  for (const auto& row : rows) {
    std::vector<std::string> cells = {row.label};
    for (const auto& value : row.values) cells.push_back(FormatNumber(value));
    table.AddRow(std::move(cells));
  }
  return table.Render(style);
}

}  // namespace

std::string Sparkline(std::span<const std::optional<double>> values, int width) {
  static constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (width <= 0 || values.empty()) return "";
  const size_t buckets = std::min(values.size(), static_cast<size_t>(width));
  std::vector<std::optional<double>> shown;
  Range range;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t from = b * values.size() / buckets;
    const size_t to = (b + 1) * values.size() / buckets;
    shown.push_back(BucketValue(values.subspan(from, to - from)));
    range.Add(shown.back());
  }
  std::string out;
  for (const auto& value : shown) {
    if (!value) {
      out += ' ';
    } else if (!std::isfinite(*value)) {
      out += '!';
    } else {
      out += kHeights[std::min<size_t>(static_cast<size_t>(range.Share(*value) * 8), 7)];
    }
  }
  return out;
}

int HeatColour(double share) {
  // Dark blue to yellow, rising in brightness, so that it also reads in grey.
  static constexpr std::array<int, 10> kScale = {17, 18, 54, 90, 126, 162, 203, 209, 215, 227};
  if (std::isnan(share)) return kNotFinite;
  const double at = std::clamp(share, 0.0, 1.0) * (kScale.size() - 1);
  return kScale[static_cast<size_t>(std::lround(at))];
}

std::string HeatMap(std::span<const HeatRow> rows, const Style& style) {
  if (!style.colour) return MapAsNumbers(rows, style);
  Range range;
  for (const auto& row : rows) {
    for (const auto& value : row.values) range.Add(value);
  }
  return MapWithColour(rows, range, style);
}

}  // namespace foreshock::cli
