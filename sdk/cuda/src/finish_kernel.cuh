// From y_i = W v_i to singular values and vectors: one thread block a head.
//
// Rayleigh-Ritz on W itself: the 3 x 3 matrix y_i^T y_j, in double, is diagonalised; v and y turn with it,
// sigma_i is the length of y_i and u_i its direction. So an error of the Gram matrix enters sigma only
// squared. Where y_i is rounding and nothing else (a rank below 3), u_i is any unit vector orthogonal to the
// others.
//
// Where the pass over W took r of the pairs in use too, the last step's change is counted along them here.
#pragma once

#include <math.h>

#include "kernel_launch.cuh"
#include "update_window.cuh"
#include "weight_tables.h"

namespace foreshock::cuda {

inline constexpr int kFinishThreads = 128;

// Sum over the block, the same in every thread.
__device__ inline double BlockSum(double x, double* shared) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) sum += shared[w];
  return sum;
}

// Diagonalises a symmetric 3 x 3 matrix; columns of q are its eigenvectors, values falling.
__device__ inline void Jacobi3(double (&a)[3][3], double (&q)[3][3]) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) q[i][j] = i == j;
  }
  for (int sweep = 0; sweep < 12; ++sweep) {
    const double off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
    const double all = a[0][0] * a[0][0] + a[1][1] * a[1][1] + a[2][2] * a[2][2];
    if (!(off > 1e-30 * all)) break;
    for (int p = 0; p < 2; ++p) {
      for (int r = p + 1; r < 3; ++r) {
        if (a[p][r] == 0) continue;
        const double tau = (a[r][r] - a[p][p]) / (2 * a[p][r]);
        const double t = copysign(1.0, tau) / (fabs(tau) + sqrt(1 + tau * tau));
        const double c = 1 / sqrt(1 + t * t), s = t * c;
        for (int k = 0; k < 3; ++k) {
          const double x = a[p][k], y = a[r][k];
          a[p][k] = c * x - s * y;
          a[r][k] = s * x + c * y;
        }
        for (int k = 0; k < 3; ++k) {
          const double x = a[k][p], y = a[k][r];
          a[k][p] = c * x - s * y;
          a[k][r] = s * x + c * y;
          const double m = q[k][p], n = q[k][r];
          q[k][p] = c * m - s * n;
          q[k][r] = s * m + c * n;
        }
      }
    }
  }
  for (int p = 0; p < 2; ++p) {
    for (int r = 2; r > p; --r) {
      if (!(a[r][r] > a[r - 1][r - 1])) continue;
      const double d = a[r][r];
      a[r][r] = a[r - 1][r - 1];
      a[r - 1][r - 1] = d;
      for (int k = 0; k < 3; ++k) {
        const double m = q[k][r];
        q[k][r] = q[k][r - 1];
        q[k][r - 1] = m;
      }
    }
  }
}

struct FinishArguments {
  const HeadRecord* heads;
  const GramRecord* records;
  const double* partial;  // of the pass that made y
  float* u;               // in: y
  float* v;
  SpectrumRecord* results;
  const int* flag;
  UpdateRecord* updates;  // null: no r was taken
  double learning_rate;
};

__device__ inline void WriteNotFinite(const FinishArguments& a, const HeadRecord& h, SpectrumRecord* out) {
  const float bad = nanf("");
  for (int64_t e = threadIdx.x; e < kPairsOf * int64_t{h.d_model}; e += blockDim.x) a.u[h.u_at + e] = bad;
  for (int e = threadIdx.x; e < kPairsOf * h.d_head; e += blockDim.x) a.v[h.v_at + e] = bad;
  if (threadIdx.x != 0) return;
  for (double& s : out->sigma) s = bad;
  out->stable_rank = out->frobenius = bad;
  out->pairs = h.pairs;
  out->has_stable_rank = 1;
  out->finite = 0;
  out->rounds = 0;
}

// Makes u_i (unnormalised, in place) a unit vector orthogonal to u_0 .. u_{i-1}.
__device__ inline void CompleteVector(float* u, int i, int64_t n, double* shared) {
  for (int axis = -1; axis < 3; ++axis) {
    if (axis >= 0) {
      for (int64_t k = threadIdx.x; k < n; k += blockDim.x) u[i * n + k] = k == axis ? 1.0f : 0.0f;
      if (axis >= n) return;
    }
    double square = 0;
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x) square += double(u[i * n + k]) * u[i * n + k];
    square = BlockSum(square, shared);
    if (!(square > 0)) continue;
    const double scale = 1 / sqrt(square);
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
      u[i * n + k] = static_cast<float>(u[i * n + k] * scale);
    for (int pass = 0; pass < 2; ++pass) {
      for (int j = 0; j < i; ++j) {
        double dot = 0;
        for (int64_t k = threadIdx.x; k < n; k += blockDim.x) dot += double(u[i * n + k]) * u[j * n + k];
        dot = BlockSum(dot, shared);
        for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
          u[i * n + k] = static_cast<float>(u[i * n + k] - dot * u[j * n + k]);
      }
    }
    square = 0;
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x) square += double(u[i * n + k]) * u[i * n + k];
    square = BlockSum(square, shared);
    if (!(square > 0.1)) continue;
    const double last = 1 / sqrt(square);
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
      u[i * n + k] = static_cast<float>(u[i * n + k] * last);
    return;
  }
}

// u_i = (y turned)_i times factor_i, for rows k to k + kRows - 1.
template <int kRows>
__device__ __forceinline__ void TurnRows(float* u, int64_t n, int64_t k, int pairs,
                                         const double (&turn)[3][3], const double (&factor)[3]) {
  alignas(16) float y[3][kRows];
  const auto copy = [](float* to, const float* from) {
    if constexpr (kRows == 4) {
      *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    } else {
      *to = *from;
    }
  };
#pragma unroll
  for (int i = 0; i < 3; ++i) copy(y[i], u + i * n + k);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    double row[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) row[i] = i < pairs ? y[i][r] : 0.0f;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const double value = row[0] * turn[0][i] + row[1] * turn[1][i] + row[2] * turn[2][i];
      y[i][r] = i < pairs ? static_cast<float>(value * factor[i]) : 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) copy(u + i * n + k, y[i]);
}

__global__ void __launch_bounds__(kFinishThreads, 8) FinishKernel(const __grid_constant__ FinishArguments a) {
  __shared__ double reduce[kFinishThreads / 32];
  __shared__ double products[6];
  __shared__ double turn[3][3];  // columns: new vectors in terms of the old
  __shared__ double sigma[3];
  __shared__ float sign[3];
  WaitForKernelAhead();
  if (a.flag != nullptr && *a.flag == 0) return;
  const HeadRecord h = a.heads[blockIdx.x];
  const GramRecord record = a.records[blockIdx.x];
  SpectrumRecord* out = a.results + blockIdx.x;
  // The 3 x 3 products, and r.
  if (threadIdx.x < (a.updates != nullptr ? 9 : 6)) {
    double sum = 0;
    for (int c = 0; c < h.chunks; ++c) sum += a.partial[int64_t{h.first_chunk + c} * kPartials + threadIdx.x];
    if (threadIdx.x < 6) {
      products[threadIdx.x] = sum;
    } else {
      const int i = static_cast<int>(threadIdx.x) - 6;
      const double r = scalbn(sum, record.exponent);
      CountStep(a.updates + blockIdx.x, i, r, a.learning_rate * h.decay);
      a.updates[blockIdx.x].r[i] = r;
    }
  }
  __syncthreads();
  if (record.finite == 0) return WriteNotFinite(a, h, out);
  float* u = a.u + h.u_at;
  float* v = a.v + h.v_at;
  const int64_t n = h.d_model;
  if (threadIdx.x == 0) {
    double m[3][3] = {{products[0], products[1], products[2]},
                      {products[1], products[3], products[4]},
                      {products[2], products[4], products[5]}};
    double q[3][3];
    Jacobi3(m, q);
    for (int i = 0; i < 3; ++i) {
      sigma[i] = i < h.pairs ? sqrt(fmax(m[i][i], 0.0)) : 0.0;
      for (int j = 0; j < 3; ++j) turn[i][j] = i < h.pairs && j < h.pairs ? q[i][j] : (i == j);
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    // v turns, and each pair's sign makes the largest entry of v positive.
    float largest[3] = {0, 0, 0}, signed_largest[3] = {0, 0, 0};
    int place[3] = {0, 0, 0};
    for (int j = threadIdx.x; j < h.d_head; j += 32) {
      double old[3], value[3];
      for (int i = 0; i < 3; ++i) old[i] = v[i * h.d_head + j];
      for (int i = 0; i < 3; ++i) {
        value[i] = old[0] * turn[0][i] + old[1] * turn[1][i] + old[2] * turn[2][i];
        v[i * h.d_head + j] = static_cast<float>(value[i]);
        if (fabsf(static_cast<float>(value[i])) > largest[i]) {
          largest[i] = fabsf(static_cast<float>(value[i]));
          signed_largest[i] = static_cast<float>(value[i]);
          place[i] = j;
        }
      }
    }
    for (int i = 0; i < 3; ++i) {
      for (int d = 16; d > 0; d >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, largest[i], d);
        const float other_signed = __shfl_xor_sync(0xffffffffu, signed_largest[i], d);
        const int other_place = __shfl_xor_sync(0xffffffffu, place[i], d);
        if (other > largest[i] || (other == largest[i] && other_place < place[i])) {
          largest[i] = other;
          signed_largest[i] = other_signed;
          place[i] = other_place;
        }
      }
      const float s = signed_largest[i] < 0 ? -1.0f : 1.0f;
      if (threadIdx.x == 0) sign[i] = s;
      for (int j = threadIdx.x; j < h.d_head; j += 32) v[i * h.d_head + j] *= s;
    }
  }
  __syncthreads();
  // Below this, y is the rounding of the sums that made it.
  const double noise = 4e-6 * sigma[0];
  double factor[3];
  for (int i = 0; i < 3; ++i) factor[i] = sigma[i] > noise ? sign[i] / sigma[i] : sign[i];
  if ((n | h.u_at) % 4 == 0) {
    for (int64_t k = threadIdx.x * 4; k < n; k += blockDim.x * 4) TurnRows<4>(u, n, k, h.pairs, turn, factor);
  } else {
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x) TurnRows<1>(u, n, k, h.pairs, turn, factor);
  }
  __syncthreads();
  for (int i = 0; i < h.pairs; ++i) {
    if (!(sigma[i] > noise)) CompleteVector(u, i, n, reduce);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 3; ++i) out->sigma[i] = scalbn(sigma[i], record.exponent);
  out->frobenius = scalbn(sqrt(record.trace), record.exponent);
  out->has_stable_rank = sigma[0] > 0;
  out->stable_rank = sigma[0] > 0 ? record.trace / (sigma[0] * sigma[0]) : 0;
  out->pairs = h.pairs;
  out->finite = 1;
  out->rounds = record.rounds;
}

}  // namespace foreshock::cuda
