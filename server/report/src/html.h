// Small pieces of HTML text. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foreshock::report {

std::string Escape(std::string_view text);                        // for text and quoted attributes
std::string Number(double value);                                 // four significant digits; "NaN", "∞"
std::string Number(std::optional<double> value);                  // "–" when there is none
std::string StepText(int64_t step);                               // 12,345
std::string StepText(std::optional<int64_t> step);                // "–" when there is none
std::string Badge(std::string_view kind, std::string_view text);  // <span class="badge kind">

}  // namespace foreshock::report
