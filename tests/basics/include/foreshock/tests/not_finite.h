// NaN and infinity by short names.
#pragma once

#include <limits>

namespace foreshock::tests {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace foreshock::tests
