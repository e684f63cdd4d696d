#include "html.h"

#include <cmath>
#include <cstdio>

namespace foreshock::report {

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string Number(std::optional<double> value) { return value ? Number(*value) : "–"; }

std::string StepText(int64_t step) {
  std::string digits = std::to_string(step);
  for (int i = static_cast<int>(digits.size()) - 3; i > (step < 0 ? 1 : 0); i -= 3) digits.insert(i, ",");
  return digits;
}

std::string StepText(std::optional<int64_t> step) { return step ? StepText(*step) : "–"; }

std::string Badge(std::string_view kind, std::string_view text) {
  return "<span class=\"badge " + std::string(kind) + "\">" + Escape(text) + "</span>";
}

}  // namespace foreshock::report
