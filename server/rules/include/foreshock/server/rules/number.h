// Numbers in the YAML of rules and scenarios.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace foreshock::rules {

// `text` whole and nothing else, as std::from_chars reads T; nullopt where it is not, or out of T's range.
template <typename T>
std::optional<T> Number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace foreshock::rules
