#include "foreshock/cli/number.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace foreshock::cli {
namespace {

template <typename... Values>
std::string Print(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::string FormatNumber(std::optional<double> value) {
  if (!value) return "-";
  const double v = *value;
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Inf" : "-Inf";
  const double size = std::abs(v);
  if (size >= 1000 && size < 1e5) return Print("%.0f", v);
  return Print("%.4g", v);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return Print("%d B", static_cast<int>(bytes));
  double size = static_cast<double>(bytes);
  size_t unit = 0;
  for (size /= 1024; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return Print("%.1f %s", size, kUnits[unit]);
}

std::string FormatDuration(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (seconds < 0) return "-" + FormatDuration(-seconds);
  if (seconds < 1) return Print("%.0f ms", seconds * 1000);
  if (!(seconds < 1e12)) return "for ever";
  const auto whole = static_cast<long long>(seconds);
  if (whole < 60) return Print("%lld s", whole);
  if (whole < 3600) return Print("%lld min %lld s", whole / 60, whole % 60);
  if (whole < 86400) return Print("%lld h %lld min", whole / 3600, whole % 3600 / 60);
  return Print("%lld d %lld h", whole / 86400, whole % 86400 / 3600);
}

std::string FormatTime(uint64_t unix_ns) {
  if (unix_ns == 0) return "-";
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace foreshock::cli
