// Numbers as people read them in a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace foreshock::cli {

// Four significant digits, "1234567" above 1e5 as "1.235e+06"; "NaN", "Inf", "-Inf"; missing is "-".
std::string FormatNumber(std::optional<double> value);

// "412 B", "1.5 KiB", "3.2 GiB".
std::string FormatBytes(uint64_t bytes);

// "850 ms", "12 s", "3 min 20 s", "5 h 12 min", "3 d 4 h". Negative: "-" before it.
std::string FormatDuration(double seconds);

// "2026-11-29 14:20:07Z" of nanoseconds since 1970; "-" for 0.
std::string FormatTime(uint64_t unix_ns);

}  // namespace foreshock::cli
