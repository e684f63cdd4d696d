// Dot products summed in double, in four partial sums: a single chain of additions would wait for each one.
#pragma once

#include <cstdint>

namespace foreshock::kernels {

template <typename A, typename B>
inline double DotInDouble(const A* a, const B* b, int64_t n) {
  double lane[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t l = 0; l < 4; ++l) lane[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  }
  for (; i < n; ++i) lane[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

}  // namespace foreshock::kernels
