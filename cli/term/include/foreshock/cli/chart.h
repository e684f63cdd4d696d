// Small charts made of characters: a sparkline over steps, a heat map of layers x heads.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foreshock/cli/style.h"

namespace foreshock::cli {

// One character a bucket, eight heights from the smallest to the largest finite value. More values than
// `width` are put into buckets that show their largest value (a spike must not vanish). A bucket holding NaN
// or Inf is
// '!', one that holds nothing is ' '. A constant series is drawn at the lowest height. Empty for width <= 0.
std::string Sparkline(std::span<const std::optional<double>> values, int width);

// Index of the 256-colour palette for a share of the scale, 0 (dark blue) to 1 (bright yellow). Shares
// outside are clamped; NaN gives magenta.
int HeatColour(double share);

// A layer's row of heads. Missing is nullopt; NaN and Inf are values.
struct HeatRow {
  std::string label;
  std::vector<std::optional<double>> values;
};

// Colour blocks with a legend (smallest, largest) when the style has colour, otherwise numbers in a table.
// Rows may have different lengths. Non-finite values are '!!' on magenta, missing ones are ' .'.
std::string HeatMap(std::span<const HeatRow> rows, const Style& style);

}  // namespace foreshock::cli
