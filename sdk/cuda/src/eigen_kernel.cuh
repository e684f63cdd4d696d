// The leading eigenvectors of G = W^T W, and the largest singular value of W_Q W_K^T from G_Q and G_K.
//
// One thread block a head. Block subspace iteration with eight vectors X, begun from those of the last call:
//   filter         X <- p(G) X with p the Chebyshev polynomial that is small on [0, theta_8], of a degree
//                  that keeps the leading vector from drowning the others in rounding
//   Rayleigh-Ritz  (X^T G X) q = theta (X^T X) q: Cholesky's factor of X^T X (or, where X is nearly
//                  dependent, modified Gram-Schmidt first), then Jacobi rotations; X turns into Ritz vectors
// until the leading three residuals are small (one thread block: nothing leaves the multiprocessor).
//
// G stays in registers as two bf16 halves, in the layout of the tensor cores' left operand: warp w has rows
// [16 w, 16 w + 16).
//
// For W_Q W_K^T the operator is A = G_K G_Q, symmetric in the inner product x^T G_Q y: vectors carry z = G_Q
// x along, and a second set of warps holds G_K.
#pragma once

#include "gram_stage.cuh"
#include "kernel_launch.cuh"
#include "weight_tile.cuh"

namespace foreshock::cuda {

inline constexpr int kMaxRounds = 40;
inline constexpr int kMaxDegree = 16;
// Floats that are kept of a solve for the next one: X and theta.
constexpr int BasisFloats(int n) { return kBasis * n + kBasis; }

template <int N, bool kProduct>
struct EigenShape {
  static constexpr int kWarps = N / 16;  // of one matrix
  static constexpr int kThreads = N * 2 * (kProduct ? 2 : 1);
};

template <int N>
struct alignas(16) EigenShared {
  // From vector to vector, in elements: lanes that share vectors in the layout of the tensor cores, or read
  // rows of eight vectors, hit different banks.
  static constexpr int kHalfPitch = N + 8, kPitch = N + 4;
  // What the next product multiplies, and what the last one did: none waits for another's end.
  __nv_bfloat16 high[2][kBasis][kHalfPitch], low[2][kBasis][kHalfPitch];
  float x[kBasis][kPitch], z[kBasis][kPitch], s[kBasis][kPitch];  // X, G_Q X (product only), G X
  float h[kBasis][kBasis], m[kBasis][kBasis];  // X^T A X and X^T X, then Cholesky's factor of it
  float turn[kBasis][kBasis];                  // what turns X into Ritz vectors
  float theta[kBasis], scale[kBasis], inverse[kBasis],
      residual[kPairsOf];  // inverse: of the factor's diagonal
  int dependent;
  double num[32], den[32];
  double wide[4][N];
};

// Entry (r, c) of G.
template <int N>
__device__ __forceinline__ float GramEntry(const float* g, int r, int c) {
  if (r / kGramBlock > c / kGramBlock) {
    const int swap = r;
    r = c;
    c = swap;
  }
  return __ldg(g +
               (GramBlockAt(r / kGramBlock, c / kGramBlock, N) * kGramBlock + r % kGramBlock) * kGramBlock +
               c % kGramBlock);
}

// A fixed pseudo-random number in [-1, 1) for entry k of replacement `which`.
__device__ __forceinline__ float StartEntry(uint32_t which, uint32_t k) {
  uint32_t x = which * 0x9e3779b9u + k * 0x85ebca6bu + 0x165667b1u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
}

__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

__device__ __forceinline__ double WarpSum(double x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

template <int N, bool kProduct>
class EigenSolver {
 public:
  using Shared = EigenShared<N>;
  static constexpr int kSteps = N / 16;
  static constexpr int kThreads = EigenShape<N, kProduct>::kThreads;
  static constexpr int kWarpsAll = kThreads / 32;

  // n: rows of G that exist; the rest is padding and stays 0.
  __device__ EigenSolver(Shared& shared, int n) : m_(shared), n_(n) {
    lane_ = threadIdx.x & 31;
    warp_ = threadIdx.x >> 5;
    second_ = kProduct && warp_ >= kSteps;
    row_ = (warp_ % kSteps) * 16 + (lane_ >> 2);
    col_ = (lane_ & 3) * 2;
  }

  // Loads this thread's part of G times 2^shift, from where StageGram has put it.
  __device__ void LoadStaged(const float* g, int shift) {
    const float scale = scalbnf(1.0f, shift);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      float raw[8];
      StagedTile<N>(g, warp_ % kSteps, k, raw);
#pragma unroll
      for (int a = 0; a < 4; ++a)
        SplitPair(raw[2 * a] * scale, raw[2 * a + 1] * scale, &high_[k][a], &low_[k][a]);
    }
  }

  // The same from global memory.
  __device__ void LoadGram(const float* g, int shift) {
    const float scale = scalbnf(1.0f, shift);
    constexpr int kBatch = 4;  // steps whose loads are in flight together
#pragma unroll
    for (int k0 = 0; k0 < kSteps; k0 += kBatch) {
      float raw[kBatch][8];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
#pragma unroll
        for (int a = 0; a < 8; ++a) {
          const int r = row_ + (a >> 1 & 1) * 8, c = (k0 + k) * 16 + (lane_ & 3) * 2 + (a >> 2) * 8 + (a & 1);
          raw[k][a] = k0 + k < kSteps ? GramEntry<N>(g, r, c) : 0.0f;
        }
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (k0 + k >= kSteps) break;
#pragma unroll
        for (int a = 0; a < 4; ++a)
          SplitPair(raw[k][2 * a] * scale, raw[k][2 * a + 1] * scale, &high_[k0 + k][a], &low_[k0 + k][a]);
      }
    }
  }

  // Leading eigenpairs into m_.x and m_.theta, begun from and left in `basis`; the count of rounds.
  __device__ int Solve(float* basis) {
    for (int e = threadIdx.x; e < kBasis * N; e += kThreads) {
      const int c = e / N, k = e % N;
      m_.x[c][k] = basis[e];
    }
    if (threadIdx.x < kBasis) m_.theta[threadIdx.x] = basis[kBasis * N + threadIdx.x];
    __syncthreads();
    const bool warm = m_.theta[0] > 0;
    // Where fewer than kBasis directions existed, others may by now.
    for (int c = warp_; c < kBasis; c += kWarpsAll) {
      if (Dot(m_.x[c], m_.x[c]) > 1e-30f) continue;
      for (int k = lane_; k < N; k += 32) m_.x[c][k] = Start(c, k);
    }
    if (!warm) {
      __syncthreads();
      for (int e = threadIdx.x; e < kBasis * N; e += kThreads) m_.x[e / N][e % N] = Start(e / N, e % N);
    }
    __syncthreads();
    int round = 0;
    if (warm) {
      ApplyAll();
      Filter();
    }
    for (;;) {
      const float before = m_.theta[0];
      ApplyAll();
      ++round;
      RayleighRitz(static_cast<uint32_t>(round));
      if (round >= kMaxRounds || Converged(round, before)) break;
      Filter();
    }
    for (int e = threadIdx.x; e < kBasis * N; e += kThreads) basis[e] = m_.x[e / N][e % N];
    if (threadIdx.x < kBasis) basis[kBasis * N + threadIdx.x] = m_.theta[threadIdx.x];
    return round;
  }

 private:
  using Vectors = float[kBasis][Shared::kPitch];

  __device__ float Start(uint32_t which, int k) const {
    return k < n_ ? StartEntry(which, static_cast<uint32_t>(k)) : 0.0f;
  }

  // Shares the four values this thread owns of a block of vectors, in two halves. Ends with a barrier, before
  // which those of the last call have been multiplied.
  __device__ void Publish(const float (&y)[4], bool mine) {
    turn_ ^= 1;
    if (mine) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int r = row_ + (e >> 1) * 8;
        uint32_t high, low;
        SplitPair(y[e], y[e + 1], &high, &low);
        const auto& h = reinterpret_cast<const __nv_bfloat162&>(high);
        const auto& l = reinterpret_cast<const __nv_bfloat162&>(low);
        m_.high[turn_][col_][r] = h.x;
        m_.high[turn_][col_ + 1][r] = h.y;
        m_.low[turn_][col_][r] = l.x;
        m_.low[turn_][col_ + 1][r] = l.y;
      }
    }
    __syncthreads();
  }

  // This thread's four values of (its matrix) times what was published. Each sum in two, so that no product
  // waits for the one before it.
  __device__ void Multiply(float (&y)[4]) const {
    constexpr int kWays = N <= 128 ? 2 : 1;  // 256 columns leave no registers for it
    float hh[kWays][4] = {}, hl[kWays][4] = {}, lh[kWays][4] = {};
    const uint32_t high = SharedAddress(&m_.high[turn_][lane_ & 7][(lane_ >> 3) * 8]);
    const uint32_t low = SharedAddress(&m_.low[turn_][lane_ & 7][(lane_ >> 3) * 8]);
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      uint32_t h[4], l[4];
      LoadMatrices<false>(h, high + k * 32);
      LoadMatrices<false>(l, low + k * 32);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        MultiplyAdd<__nv_bfloat16>(hh[half % kWays], high_[k + half], h[half * 2], h[half * 2 + 1]);
        MultiplyAdd<__nv_bfloat16>(hl[half % kWays], high_[k + half], l[half * 2], l[half * 2 + 1]);
        MultiplyAdd<__nv_bfloat16>(lh[half % kWays], low_[k + half], h[half * 2], h[half * 2 + 1]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (kWays == 2) {
        y[e] = (hh[0][e] + hh[1][e]) + ((hl[0][e] + hl[1][e]) + (lh[0][e] + lh[1][e]));
      } else {
        y[e] = hh[0][e] + (hl[0][e] + lh[0][e]);
      }
    }
  }

  __device__ void Read(const Vectors& from, float (&y)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) y[e] = from[col_ + (e & 1)][row_ + (e >> 1) * 8];
  }
  __device__ void Write(const float (&y)[4], Vectors& to) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) to[col_ + (e & 1)][row_ + (e >> 1) * 8] = y[e];
  }

  // to = (first matrix) from, or with kProduct the second for Apply. Barriers before use and after.
  __device__ void ApplyBy(const Vectors& from, Vectors& to, bool mine) {
    float y[4];
    if (mine) Read(from, y);
    Publish(y, mine);
    if (mine) {
      Multiply(y);
      Write(y, to);
    }
    __syncthreads();
  }
  __device__ void ApplyFirst(const Vectors& from, Vectors& to) { ApplyBy(from, to, !second_); }
  __device__ void Apply(const Vectors& from, Vectors& to) { ApplyBy(from, to, kProduct ? second_ : true); }

  // S = A X, and Z = G_Q X for the product.
  __device__ void ApplyAll() {
    if constexpr (kProduct) ApplyFirst(m_.x, m_.z);
    Apply(kProduct ? m_.z : m_.x, m_.s);
  }

  // X <- p(A) X, given S = A X and the Ritz values.
  __device__ void Filter() {
    const float top = m_.theta[0];
    const float edge = m_.theta[kBasis - 1];
    const float half = 0.5f * edge;  // the interval's centre and half width
    if (!(top > 0)) return;
    if (!(edge > 1e-6f * top)) return PowerStep(1 / top);
    // Degree d amplifies the leading vector over the edge by cosh(d acosh(t)).
    const float t = fmaxf(2 * top / edge - 1, 1.0f + 1e-6f);
    const float grow = logf(t + sqrtf(t * t - 1));
    const int degree = max(1, min(kMaxDegree, static_cast<int>(8.0f / grow)));
    const float sigma1 = half / (top - half);
    float sigma = sigma1;
    const bool mine = !second_;  // who keeps the recurrence
    float before[4], now[4], product[4];
    if (mine) {
      Read(m_.x, before);
      Read(m_.s, product);
#pragma unroll
      for (int e = 0; e < 4; ++e) now[e] = (product[e] - half * before[e]) * (sigma1 / half);
    }
    for (int d = 2; d <= degree; ++d) {
      const float next = 1 / (2 / sigma1 - sigma);
      Publish(now, mine);
      if (mine) Multiply(product);
      if constexpr (kProduct) {
        Publish(product, mine);
        if (second_) {
          Multiply(product);
          Write(product, m_.s);
        }
        __syncthreads();
        if (mine) Read(m_.s, product);
      }
      if (mine) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = 2 * (next / half) * (product[e] - half * now[e]) - sigma * next * before[e];
          before[e] = now[e];
          now[e] = value;
        }
      }
      sigma = next;
    }
    if (mine) Write(now, m_.x);
    __syncthreads();
  }

  __device__ void PowerStep(float scale) {
    for (int e = threadIdx.x; e < kBasis * N; e += kThreads) m_.x[e / N][e % N] = m_.s[e / N][e % N] * scale;
    __syncthreads();
  }

  // Makes X orthonormal, for the product in the inner product of G_Q, where vectors of length 0 become 0.
  // Column c belongs to warp c % warps.
  __device__ void Orthonormalise(uint32_t salt) {
    for (int j = 0; j < kBasis; ++j) {
      if (warp_ == j % kWarpsAll) Normalise(j, salt);
      __syncthreads();
      for (int c = j + 1; c < kBasis; ++c) {
        if (warp_ == c % kWarpsAll) TakeAway(j, c);
      }
      __syncthreads();
    }
  }

  __device__ float Dot(const float* a, const float* b) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; k += 32) sum += a[k + lane_] * b[k + lane_];
    return WarpSum(sum);
  }

  __device__ void TakeAway(int j, int c) {
    const float factor = Dot(kProduct ? m_.z[j] : m_.x[j], m_.x[c]);
#pragma unroll
    for (int k = 0; k < N; k += 32) {
      m_.x[c][k + lane_] -= factor * m_.x[j][k + lane_];
      if constexpr (kProduct) m_.z[c][k + lane_] -= factor * m_.z[j][k + lane_];
    }
    __syncwarp();
  }

  __device__ void Scale(int j, float factor) {
#pragma unroll
    for (int k = 0; k < N; k += 32) {
      m_.x[j][k + lane_] *= factor;
      if constexpr (kProduct) m_.z[j][k + lane_] *= factor;
    }
    __syncwarp();
  }

  __device__ void Normalise(int j, uint32_t salt) {
    if constexpr (kProduct) {
      // To size 1 first: squares of what the filter made small would vanish.
      const float plain = Dot(m_.x[j], m_.x[j]);
      if (!(plain > 1e-30f)) return Scale(j, 0);
      Scale(j, rsqrtf(plain));
      for (int i = 0; i < j; ++i) TakeAway(i, j);
      const float square = Dot(m_.x[j], m_.z[j]);
      Scale(j, square > 1e-12f ? rsqrtf(square) : 0.0f);
    } else {
      for (int attempt = 0; attempt < 4; ++attempt) {
        const float square = Dot(m_.x[j], m_.x[j]);
        if (square > 1e-30f) {
          Scale(j, rsqrtf(square));
          // What was left of a long vector is mostly rounding: take the others away again.
          for (int i = 0; i < j; ++i) TakeAway(i, j);
          const float rest = Dot(m_.x[j], m_.x[j]);
          if (rest > 0.25f) return Scale(j, rsqrtf(rest));
          if (rest > 1e-8f) continue;
        }
#pragma unroll
        for (int k = 0; k < N; k += 32) m_.x[j][k + lane_] = Start(salt * 64 + j * 8 + attempt, k + lane_);
        __syncwarp();
        for (int i = 0; i < j; ++i) TakeAway(i, j);
      }
      // Fewer than kBasis directions exist.
      const float rest = Dot(m_.x[j], m_.x[j]);
      Scale(j, rest > 1e-4f ? rsqrtf(rest) : 0.0f);
    }
  }

  // Ritz values in falling order into theta; X, Z, S turned into Ritz vectors.
  __device__ void RayleighRitz(uint32_t salt) {
    Products();
    if (warp_ == 0) Factorise();
    __syncthreads();
    if (m_.dependent) {
      Orthonormalise(salt);
      ApplyAll();
      Products();
      if (warp_ == 0) {
        for (int e = lane_; e < 64; e += 32) m_.m[e / 8][e % 8] = e / 8 == e % 8 ? 1.0f : 0.0f;
        if (lane_ < kBasis) m_.scale[lane_] = m_.inverse[lane_] = 1;
        __syncwarp();
      }
      __syncthreads();
    }
    if (warp_ == 0) {
      Reduce();
      Expand(Jacobi());
    }
    __syncthreads();
    Turn();
  }

  // H = X^T S and M = X^T X (for the product Z^T S and X^T Z).
  __device__ void Products() {
    constexpr int kShare = EigenShape<N, kProduct>::kThreads / 64;  // threads a pair
    const int pair = threadIdx.x / kShare, part = threadIdx.x % kShare;
    const int a = pair / kBasis, b = pair % kBasis;
    const float* left = kProduct ? m_.z[a] : m_.x[a];
    float h = 0, m = 0;
#pragma unroll 4
    for (int k = part * 4; k < N; k += kShare * 4) {
      const float4 l = *reinterpret_cast<const float4*>(left + k);
      const float4 s = *reinterpret_cast<const float4*>(&m_.s[b][k]);
      const float4 x = *reinterpret_cast<const float4*>(&m_.x[b][k]);
      h += (l.x * s.x + l.y * s.y) + (l.z * s.z + l.w * s.w);
      m += (l.x * x.x + l.y * x.y) + (l.z * x.z + l.w * x.w);
    }
#pragma unroll
    for (int d = kShare / 2; d > 0; d >>= 1) {
      h += __shfl_xor_sync(0xffffffffu, h, d);
      m += __shfl_xor_sync(0xffffffffu, m, d);
    }
    if (part == 0) {
      m_.h[a][b] = h;
      m_.m[a][b] = m;
    }
    __syncthreads();
  }

  // Columns of length 1, then M = L L^T; lane i < 8 holds row i. Says when X is nearly dependent.
  __device__ void Factorise() {
    const int i = lane_ & 7;
    const float length = m_.m[i][i];
    const float scale = length > 1e-30f ? rsqrtf(length) : 0.0f;
    float row[kBasis];
#pragma unroll
    for (int j = 0; j < kBasis; ++j)
      row[j] = 0.5f * (m_.m[i][j] + m_.m[j][i]) * scale * __shfl_sync(0xffffffffu, scale, j);
    bool good = scale > 0;
#pragma unroll
    for (int k = 0; k < kBasis; ++k) {
      const float pivot = __shfl_sync(0xffffffffu, row[k], k);
      good = good && pivot > 0.02f;
      const float inverse = rsqrtf(fmaxf(pivot, 1e-20f));
      row[k] *= inverse;
      if (lane_ == 0) m_.inverse[k] = inverse;
#pragma unroll
      for (int j = k + 1; j < kBasis; ++j) row[j] -= row[k] * __shfl_sync(0xffffffffu, row[k], j);
    }
    const bool all_good = __all_sync(0xffffffffu, good);
    __syncwarp();
    if (lane_ < kBasis) {
      m_.scale[i] = scale;
#pragma unroll
      for (int j = 0; j < kBasis; ++j) m_.m[i][j] = j <= i ? row[j] : 0.0f;
    }
    if (lane_ == 0) m_.dependent = all_good ? 0 : 1;
    __syncwarp();
  }

  // H <- L^-1 D H D L^-T with D the scales; lane i has column i % 8.
  __device__ void Reduce() {
    const int c = lane_ & 7;
    float h[kBasis];
#pragma unroll
    for (int j = 0; j < kBasis; ++j) h[j] = 0.5f * (m_.h[j][c] + m_.h[c][j]) * m_.scale[j] * m_.scale[c];
    __syncwarp();
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
#pragma unroll
      for (int j = 0; j < kBasis; ++j) {
#pragma unroll
        for (int k = 0; k < j; ++k) h[j] -= m_.m[j][k] * h[k];
        h[j] *= m_.inverse[j];
      }
      if (lane_ < kBasis) {
#pragma unroll
        for (int j = 0; j < kBasis; ++j) m_.h[c][j] = h[j];
      }
      __syncwarp();
#pragma unroll
      for (int j = 0; j < kBasis; ++j) h[j] = m_.h[j][c];
      __syncwarp();
    }
  }

  // turn <- D L^-T turn; lane i has column i % 8, which goes to place `rank`.
  __device__ void Expand(int rank) {
    float t[kBasis];
#pragma unroll
    for (int j = 0; j < kBasis; ++j) t[j] = m_.turn[j][lane_ & 7];
    __syncwarp();
#pragma unroll
    for (int j = kBasis - 1; j >= 0; --j) {
#pragma unroll
      for (int k = j + 1; k < kBasis; ++k) t[j] -= m_.m[k][j] * t[k];
      t[j] *= m_.inverse[j];
    }
    if (lane_ < kBasis) {
#pragma unroll
      for (int j = 0; j < kBasis; ++j) m_.turn[j][rank] = t[j] * m_.scale[j];
    }
    __syncwarp();
  }

  __device__ void Turn() {
    constexpr int kSets = kProduct ? 3 : 2;
    for (int e = threadIdx.x; e < kSets * N; e += kThreads) {
      const int k = e % N;
      auto& vectors = e < N ? m_.x : (e < 2 * N ? m_.s : m_.z);
      float value[kBasis] = {};
#pragma unroll
      for (int i = 0; i < kBasis; ++i) {
        const float old = vectors[i][k];
        const float4 first = *reinterpret_cast<const float4*>(&m_.turn[i][0]);
        const float4 last = *reinterpret_cast<const float4*>(&m_.turn[i][4]);
        const float turn[kBasis] = {first.x, first.y, first.z, first.w, last.x, last.y, last.z, last.w};
#pragma unroll
        for (int c = 0; c < kBasis; ++c) value[c] += old * turn[c];
      }
#pragma unroll
      for (int c = 0; c < kBasis; ++c) vectors[c][k] = value[c];
    }
    __syncthreads();
  }

  // Diagonalises m_.h by cyclic rotations of four disjoint pairs at a time; one warp. Returns the place of
  // column lane % 8 when values fall.
  __device__ int Jacobi() {
    for (int e = lane_; e < 64; e += 32) {
      const int r = e / 8, c = e % 8;
      m_.turn[r][c] = r == c ? 1.0f : 0.0f;
      if (r < c) {
        const float mean = 0.5f * (m_.h[r][c] + m_.h[c][r]);
        m_.h[r][c] = m_.h[c][r] = mean;
      }
    }
    __syncwarp();
    for (int sweep = 0; sweep < 6; ++sweep) {
      float off = 0, all = 0;
      for (int e = lane_; e < 64; e += 32) {
        const float value = m_.h[e / 8][e % 8];
        all += value * value;
        if (e / 8 != e % 8) off += value * value;
      }
      if (!(WarpSum(off) > 1e-10f * WarpSum(all))) break;
#pragma unroll 1
      for (int turn = 0; turn < 7; ++turn) JacobiRound(turn);
    }
    const int column = lane_ & 7;
    const float mine = m_.h[column][column];
    int rank = 0;
#pragma unroll
    for (int i = 0; i < kBasis; ++i) {
      const float other = m_.h[i][i];
      rank += other > mine || (other == mine && i < column);
    }
    if (lane_ < kBasis) m_.theta[rank] = mine;
    __syncwarp();
    return rank;
  }

  // Round `turn` of a tournament: seat 7 stays, the others move on.
  __device__ static int Seat(int seat, int turn) { return seat == 7 ? 7 : (seat + turn) % 7; }

  __device__ void JacobiRound(int turn) {
    const int which = lane_ & 3, other = lane_ >> 2;
    const int p = Seat(which, turn), q = which == 0 ? 7 : Seat(7 - which, turn);
    const float off = m_.h[p][q], d = m_.h[q][q] - m_.h[p][p];
    // An angle that is right to 1e-6 leaves as much of the entry it removes; the rotation is one all the
    // same.
    float c = 1, s = 0;
    if (fabsf(off) > 1e-30f) {
      const float tau = __fdividef(d, 2 * off), size = fminf(fabsf(tau), 1e18f), square = 1 + size * size;
      const float t = copysignf(__fdividef(1.0f, size + square * rsqrtf(square)), tau);
      c = rsqrtf(1 + t * t);
      s = t * c;
    }
    __syncwarp();
    Rotate(&m_.h[p][other], &m_.h[q][other], c, s);
    __syncwarp();
    Rotate(&m_.h[other][p], &m_.h[other][q], c, s);
    Rotate(&m_.turn[other][p], &m_.turn[other][q], c, s);
    __syncwarp();
  }

  __device__ static void Rotate(float* p, float* q, float c, float s) {
    const float x = *p, y = *q;
    *p = c * x - s * y;
    *q = s * x + c * y;
  }

  // An eigenvalue's error is at most the residual, and its square over the gap where the others are apart.
  // What remains for sigma is smaller still: the last step is Rayleigh-Ritz on W itself.
  __device__ bool Converged(int round, float before) {
    const float top = m_.theta[0];
    if (!(top > 0)) return true;
    constexpr int kWatched = kProduct ? 1 : kPairsOf;
    for (int i = warp_; i < kWatched; i += kWarpsAll) {
      float rest = 0, all = 0;
      for (int k = lane_; k < N; k += 32) {
        const float r = m_.s[i][k] - m_.theta[i] * m_.x[i][k];
        rest += r * r;
        all += m_.x[i][k] * m_.x[i][k];
      }
      rest = WarpSum(rest);
      all = WarpSum(all);
      if (lane_ == 0) m_.residual[i] = rest / fmaxf(all, 1e-30f);
    }
    __syncthreads();
    if constexpr (kProduct) {
      const bool small = m_.residual[0] <= 1e-4f * 1e-4f * top * top;
      return small || (round >= 2 && fabsf(top - before) <= 2e-6f * top);
    } else {
      bool done = true;
      for (int i = 0; i < kPairsOf; ++i) {
        const float bound = fmaxf(1.5e-6f * top, 2e-5f * sqrtf(top * fmaxf(m_.theta[i], 0.0f)));
        done = done && m_.residual[i] <= bound * bound;
      }
      return done;
    }
  }

  Shared& m_;
  uint32_t high_[kSteps][4], low_[kSteps][4];
  int n_, lane_, warp_, row_, col_;
  int turn_ = 0;  // which half of m_.high and m_.low was published last
  bool second_;
};

// The power of two by which a G of this trace is multiplied, even, so that the trace comes to lie in [1, 4).
__device__ __forceinline__ int EvenShift(double trace) {
  if (!(trace > 0)) return 0;
  const int e = ilogb(trace);
  return -(e - (e & 1));
}

// v_i of each head into `vectors` (head h's at heads[h].v_at), and what later kernels need into `records`.
// kStaged: G passes through shared memory, of which this takes more.
template <int N, bool kStaged>
__global__ void __launch_bounds__(EigenShape<N, false>::kThreads, N <= 128 ? 256 / N * 1 : 1)
    SpectrumKernel(const HeadRecord* heads, const int* list, const float* gram, float* basis, float* vectors,
                   GramRecord* records, const int* flag) {
  extern __shared__ __align__(16) unsigned char raw[];
  WaitForKernelAhead();
  if (flag != nullptr && *flag == 0) return;
  auto& shared = *reinterpret_cast<EigenShared<N>*>(raw);
  const int head = list[blockIdx.x];
  const HeadRecord h = heads[head];
  GramRecord* record = records + head;
  float* v = vectors + h.v_at;
  if (record->finite == 0) {
    for (int e = threadIdx.x; e < kPairsOf * h.d_head; e += blockDim.x) v[e] = nanf("");
    return;
  }
  EigenSolver<N, false> solver(shared, h.d_head);
  if constexpr (kStaged) {
    float* staged = reinterpret_cast<float*>(raw + sizeof(EigenShared<N>));
    StageGram<N, EigenShape<N, false>::kThreads>(gram + h.gram_at, staged);
    CommitCopies();
    const int shift = EvenShift(record->trace);
    WaitCopies<0>();
    __syncthreads();
    solver.LoadStaged(staged, shift);
  } else {
    solver.LoadGram(gram + h.gram_at, EvenShift(record->trace));
  }
  const int rounds = solver.Solve(basis + h.basis_at);
  for (int e = threadIdx.x; e < kPairsOf * h.d_head; e += blockDim.x) {
    const int i = e / h.d_head;
    v[e] = i < h.pairs ? shared.x[i][e % h.d_head] : 0.0f;
  }
  if (threadIdx.x == 0) record->rounds = rounds;
}

// Threads that QkKernel's registers are fitted to: 64 columns leave room for a second block.
template <int N>
constexpr int QkBound() {
  return N == 64 ? 512 : EigenShape<N, true>::kThreads;
}

// Shared memory of the kernels below.
template <int N, bool kStaged>
constexpr int SpectrumBytes() {
  return static_cast<int>(sizeof(EigenShared<N>)) + (kStaged ? GramFloats(N) * 4 : 0);
}
// Two pairs' matrices: the next one's are on their way while a pair is solved. And the records of three
// pairs.
template <int N, bool kStaged>
constexpr int QkBytes() {
  return static_cast<int>(sizeof(EigenShared<N>)) +
         (kStaged ? 4 * GramFloats(N) * 4 + 3 * static_cast<int>(sizeof(QkRecord)) : 0);
}

// What a block of QkKernel has in shared memory.
template <int N>
struct QkStage {
  float* matrices[2];  // G_Q, G_K of a pair
  QkRecord* records;   // of the present pair and the next two, in turn
  __device__ explicit QkStage(unsigned char* raw) {
    matrices[0] = reinterpret_cast<float*>(raw + sizeof(EigenShared<N>));
    matrices[1] = matrices[0] + 2 * GramFloats(N);
    records = reinterpret_cast<QkRecord*>(matrices[1] + 2 * GramFloats(N));
  }
};

// qk_sigma1 of one pair, by the whole block. Not inlined: in the loop that calls it the compiler would keep
// addresses from one pair to the next in registers that the solver needs. stage: which of the staged matrices
// are the pair's.
template <int N, bool kStaged>
__device__ __noinline__ void QkOfPair(const QkRecord& pair, int stage, const float* gram, float* basis,
                                      const GramRecord* records, double* all_sigma1) {
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<EigenShared<N>*>(raw);
  double* qk_sigma1 = all_sigma1 + pair.out;
  const GramRecord rq = records[pair.q], rk = records[pair.k];
  if (rq.finite == 0 || rk.finite == 0) {
    if (threadIdx.x == 0) *qk_sigma1 = nan("");
    return;
  }
  if (!(rq.trace > 0) || !(rk.trace > 0)) {
    if (threadIdx.x == 0) *qk_sigma1 = 0;
    return;
  }
  const int shift_q = EvenShift(rq.trace), shift_k = EvenShift(rk.trace);
  EigenSolver<N, true> solver(shared, pair.d_head);
  const bool second = threadIdx.x >= N * 2;
  const float *gq, *gk;
  if constexpr (kStaged) {
    gq = QkStage<N>(raw).matrices[0] + stage * (2 * GramFloats(N));
    gk = gq + GramFloats(N);
    solver.LoadStaged(second ? gk : gq, second ? shift_k : shift_q);
  } else {
    gq = gram + pair.gram_q_at;
    gk = gram + pair.gram_k_at;
    solver.LoadGram(second ? gk : gq, second ? shift_k : shift_q);
  }
  solver.Solve(basis + pair.basis_at);
  // The quotient of the leading vector once more, in double: z^T G_K z / x^T G_Q x with z = G_Q x. Four
  // threads a row.
  const int row = threadIdx.x % N, part = threadIdx.x / N;
  const auto times = [&](const float* g, auto&& vector) {
    double sum = 0;
#pragma unroll 2
    for (int k = part * (N / 4); k < (part + 1) * (N / 4); k += 4) {
      float four[4];
      if constexpr (kStaged) {
        StagedFour<N>(g, k, row, four);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) four[e] = GramEntry<N>(g, k + e, row);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) sum += double(four[e]) * vector(k + e);
    }
    return sum;
  };
  const double part_of_z = times(gq, [&](int k) { return double(shared.x[0][k]); });
  shared.wide[part][row] = part_of_z;
  __syncthreads();
  const double z = (shared.wide[0][row] + shared.wide[1][row]) + (shared.wide[2][row] + shared.wide[3][row]);
  __syncthreads();
  if (part == 0) shared.wide[0][row] = z;
  __syncthreads();
  const double here = times(gk, [&](int k) { return shared.wide[0][k]; });
  // A row's four parts add up in the sums below.
  double num = WarpSum(here * z), den = WarpSum(part == 0 ? z * shared.x[0][row] : 0.0);
  constexpr int kWarps = EigenShape<N, true>::kThreads / 32;
  if (threadIdx.x % 32 == 0) {
    shared.num[threadIdx.x / 32] = num;
    shared.den[threadIdx.x / 32] = den;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    num = den = 0;
    for (int w = 0; w < kWarps; ++w) {
      num += shared.num[w];
      den += shared.den[w];
    }
    const double square = den > 0 ? fmax(num / den, 0.0) : 0.0;
    *qk_sigma1 = scalbn(sqrt(square), rq.exponent + rk.exponent);
  }
}

// A block takes one pair after the other.
template <int N, bool kStaged>
__global__ void __launch_bounds__(QkBound<N>(), 1)
    QkKernel(const QkRecord* pairs, int count, const float* gram, float* basis, const GramRecord* records,
             double* qk_sigma1, const int* flag) {
  if (flag != nullptr && *flag == 0) return;
  const int step = static_cast<int>(gridDim.x);
  if constexpr (kStaged) {
    extern __shared__ __align__(16) unsigned char raw[];
    constexpr int kThreads = EigenShape<N, true>::kThreads;
    const QkStage<N> stage(raw);
    // The pair that the block comes to in its turn `at`.
    const auto fetch_record = [&](int at) {
      constexpr int kChunks = static_cast<int>(sizeof(QkRecord)) / 16;
      const int i = static_cast<int>(blockIdx.x) + at * step, chunk = static_cast<int>(threadIdx.x);
      if (i < count && chunk < kChunks) {
        CopyAsync16(SharedAddress(stage.records + at % 3) + chunk * 16,
                    reinterpret_cast<const unsigned char*>(pairs + i) + chunk * 16, 16);
      }
    };
    const auto fetch_matrices = [&](int at) {
      if (static_cast<int>(blockIdx.x) + at * step >= count) return;
      const QkRecord& pair = stage.records[at % 3];
      StageGram<N, kThreads>(gram + pair.gram_q_at, stage.matrices[at % 2]);
      StageGram<N, kThreads>(gram + pair.gram_k_at, stage.matrices[at % 2] + GramFloats(N));
    };
    fetch_record(0);
    fetch_record(1);
    CommitCopies();
    WaitCopies<0>();
    __syncthreads();
    fetch_matrices(0);
    CommitCopies();
    for (int i = blockIdx.x, at = 0; i < count; i += step, ++at) {
      WaitCopies<0>();
      __syncthreads();  // what was fetched is there, and what was used is free
      fetch_matrices(at + 1);
      fetch_record(at + 2);
      CommitCopies();
      QkOfPair<N, kStaged>(stage.records[at % 3], at % 2, gram, basis, records, qk_sigma1);
    }
  } else {
    for (int i = blockIdx.x; i < count; i += step) {
      QkOfPair<N, kStaged>(pairs[i], 0, gram, basis, records, qk_sigma1);
      __syncthreads();
    }
  }
}

}  // namespace foreshock::cuda
