// Turns a padded head size into a constant.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

namespace foreshock::cuda {

// Calls fn with the padded size as a constant.
template <typename Fn>
int WithSize(int padded, Fn&& fn) {
  switch (padded) {
    case 32:
      fn(std::integral_constant<int, 32>());
      break;
    case 64:
      fn(std::integral_constant<int, 64>());
      break;
    case 128:
      fn(std::integral_constant<int, 128>());
      break;
    case 256:
      fn(std::integral_constant<int, 256>());
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace foreshock::cuda
