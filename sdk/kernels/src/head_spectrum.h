// The spectrum of one head and its leading pairs.
#pragma once

#include <cstdint>

#include "foreshock/sdk/weight_probe.h"
#include "gram.h"
#include "symmetric_eigen.h"

namespace foreshock::kernels {

// What one head needs beside its Gram matrix; sized for the largest head of the set.
struct SpectrumBuffers {
  Tridiagonal tridiagonal;
  double* vectors = nullptr;  // kPairs x d_head
  double* left = nullptr;     // kPairs x d_model
  double* work = nullptr;     // 5 x d_head
  double* tile = nullptr;     // GramTileElements(d_head)
};

// Where the pairs of one head go: kPairs vectors each, u_stride and v_stride apart; null: not wanted.
struct PairsOut {
  float* u = nullptr;
  float* v = nullptr;
  int64_t u_stride = 0;
  int64_t v_stride = 0;
};

HeadSpectrum ComputeSpectrum(const WeightView& w, const Gram& gram, const SpectrumBuffers& buffers,
                             const PairsOut& out);

}  // namespace foreshock::kernels
