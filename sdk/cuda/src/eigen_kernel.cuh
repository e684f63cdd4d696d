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
  static constexpr int kPitch = N + 8;  // of a vector in shared memory, in elements
};

template <int N>
struct EigenShared {
  static constexpr int kPitch = N + 8;
  __nv_bfloat16 high[kBasis][kPitch], low[kBasis][kPitch];        // what the next product multiplies
  float x[kBasis][kPitch], z[kBasis][kPitch], s[kBasis][kPitch];  // X, G_Q X (product only), G X
  float h[kBasis][kBasis], m[kBasis][kBasis];  // X^T A X and X^T X, then Cholesky's factor of it
  float turn[kBasis][kBasis];                  // what turns X into Ritz vectors
  float theta[kBasis], scale[kBasis], inverse[kBasis],
      residual[kPairsOf];  // inverse: of the factor's diagonal
  int order[kBasis];
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

  // Loads this thread's part of G times 2^shift.
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

  // Shares the four values this thread owns of a block of vectors, in two halves. Ends with a barrier.
  __device__ void Publish(const float (&y)[4], bool mine) {
    if (mine) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = col_ + (e & 1), r = row_ + (e >> 1) * 8;
        const __nv_bfloat16 h = __float2bfloat16_rn(y[e]);
        m_.high[c][r] = h;
        m_.low[c][r] = __float2bfloat16_rn(y[e] - __bfloat162float(h));
      }
    }
    __syncthreads();
  }

  // This thread's four values of (its matrix) times what was published.
  __device__ void Multiply(float (&y)[4]) const {
    float hh[4] = {}, hl[4] = {}, lh[4] = {};
    const uint32_t high = SharedAddress(&m_.high[lane_ & 7][(lane_ >> 3) * 8]);
    const uint32_t low = SharedAddress(&m_.low[lane_ & 7][(lane_ >> 3) * 8]);
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      uint32_t h[4], l[4];
      LoadMatrices<false>(h, high + k * 32);
      LoadMatrices<false>(l, low + k * 32);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        MultiplyAdd<__nv_bfloat16>(hh, high_[k + half], h[half * 2], h[half * 2 + 1]);
        MultiplyAdd<__nv_bfloat16>(hl, high_[k + half], l[half * 2], l[half * 2 + 1]);
        MultiplyAdd<__nv_bfloat16>(lh, low_[k + half], h[half * 2], h[half * 2 + 1]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) y[e] = hh[e] + (hl[e] + lh[e]);
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
        __syncthreads();  // all have read
        Publish(product, mine);
        if (second_) {
          Multiply(product);
          Write(product, m_.s);
        }
        __syncthreads();
        if (mine) Read(m_.s, product);
      } else {
        __syncthreads();
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
      Jacobi();
      Expand();
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
    for (int k = part; k < N; k += kShare) {
      h += left[k] * m_.s[b][k];
      m += left[k] * m_.x[b][k];
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

  // The loops of one warp are not unrolled: fetching straight-line code once costs more than running it.
  //
  // H <- L^-1 D H D L^-T with D the scales.
  __device__ void Reduce() {
    float value[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int e = lane_ + half * 32, r = e / 8, c = e % 8;
      value[half] = 0.5f * (m_.h[r][c] + m_.h[c][r]) * m_.scale[r] * m_.scale[c];
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) m_.h[(lane_ + half * 32) / 8][lane_ % 8] = value[half];
    __syncwarp();
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      if (lane_ < kBasis) {
#pragma unroll 1
        for (int j = 0; j < kBasis; ++j) {
          float sum = m_.h[j][lane_];
#pragma unroll 1
          for (int k = 0; k < j; ++k) sum -= m_.m[j][k] * m_.h[k][lane_];
          m_.h[j][lane_] = sum * m_.inverse[j];
        }
      }
      __syncwarp();
#pragma unroll
      for (int half = 0; half < 2; ++half) value[half] = m_.h[lane_ % 8][(lane_ + half * 32) / 8];
      __syncwarp();
#pragma unroll
      for (int half = 0; half < 2; ++half) m_.h[(lane_ + half * 32) / 8][lane_ % 8] = value[half];
      __syncwarp();
    }
  }

  // turn <- D L^-T turn.
  __device__ void Expand() {
    if (lane_ < kBasis) {
#pragma unroll 1
      for (int j = kBasis - 1; j >= 0; --j) {
        float sum = m_.turn[j][lane_];
#pragma unroll 1
        for (int k = j + 1; k < kBasis; ++k) sum -= m_.m[k][j] * m_.turn[k][lane_];
        m_.turn[j][lane_] = sum * m_.inverse[j];
      }
#pragma unroll 1
      for (int j = 0; j < kBasis; ++j) m_.turn[j][lane_] *= m_.scale[j];
    }
    __syncwarp();
  }

  __device__ void Turn() {
    constexpr int kSets = kProduct ? 3 : 2;
    for (int e = threadIdx.x; e < kSets * N; e += kThreads) {
      const int k = e % N;
      auto& vectors = e < N ? m_.x : (e < 2 * N ? m_.s : m_.z);
      float old[kBasis];
#pragma unroll
      for (int c = 0; c < kBasis; ++c) old[c] = vectors[c][k];
#pragma unroll
      for (int c = 0; c < kBasis; ++c) {
        float value = 0;
#pragma unroll
        for (int i = 0; i < kBasis; ++i) value += old[i] * m_.turn[i][m_.order[c]];
        vectors[c][k] = value;
      }
    }
    __syncthreads();
  }

  // Diagonalises m_.h by cyclic rotations of four disjoint pairs at a time; one warp.
  __device__ void Jacobi() {
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
    if (lane_ < kBasis) {
      const float mine = m_.h[lane_][lane_];
      int rank = 0;
      for (int i = 0; i < kBasis; ++i) {
        const float other = m_.h[i][i];
        rank += other > mine || (other == mine && i < lane_);
      }
      m_.theta[rank] = mine;
      m_.order[rank] = lane_;
    }
    __syncwarp();
  }

  // Round `turn` of a tournament: seat 7 stays, the others move on.
  __device__ static int Seat(int seat, int turn) { return seat == 7 ? 7 : (seat + turn) % 7; }

  __device__ void JacobiRound(int turn) {
    const int which = lane_ & 3, other = lane_ >> 2;
    const int p = Seat(which, turn), q = which == 0 ? 7 : Seat(7 - which, turn);
    const float off = m_.h[p][q], d = m_.h[q][q] - m_.h[p][p];
    float c = 1, s = 0;
    if (fabsf(off) > 1e-30f) {
      const float tau = d / (2 * off);
      const float t = copysignf(1.0f, tau) / (fabsf(tau) + sqrtf(1 + tau * tau));
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
  bool second_;
};

// The power of two by which a G of this trace is multiplied, even, so that the trace comes to lie in [1, 4).
__device__ __forceinline__ int EvenShift(double trace) {
  if (!(trace > 0)) return 0;
  const int e = ilogb(trace);
  return -(e - (e & 1));
}

// v_i of each head into `vectors` (head h's at heads[h].v_at), and what later kernels need into `records`.
template <int N>
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
  solver.LoadGram(gram + h.gram_at, EvenShift(record->trace));
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

// qk_sigma1 of one pair, by the whole block. Not inlined: in the loop that calls it the compiler would keep
// addresses from one pair to the next in registers that the solver needs.
template <int N>
__device__ __noinline__ void QkOfPair(const HeadRecord* heads, const QkRecord& pair, const float* gram,
                                      float* basis, const GramRecord* records, double* qk_sigma1) {
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<EigenShared<N>*>(raw);
  const HeadRecord hq = heads[pair.q], hk = heads[pair.k];
  if (records[pair.q].finite == 0 || records[pair.k].finite == 0) {
    if (threadIdx.x == 0) *qk_sigma1 = nan("");
    return;
  }
  const double trace_q = records[pair.q].trace, trace_k = records[pair.k].trace;
  if (!(trace_q > 0) || !(trace_k > 0)) {
    if (threadIdx.x == 0) *qk_sigma1 = 0;
    return;
  }
  const float *gq = gram + hq.gram_at, *gk = gram + hk.gram_at;
  const int shift_q = EvenShift(trace_q), shift_k = EvenShift(trace_k);
  EigenSolver<N, true> solver(shared, hq.d_head);
  const bool second = threadIdx.x >= N * 2;
  solver.LoadGram(second ? gk : gq, second ? shift_k : shift_q);
  solver.Solve(basis + pair.basis_at);
  // The quotient of the leading vector once more, in double: z^T G_K z / x^T G_Q x with z = G_Q x. Four
  // threads a row.
  const int row = threadIdx.x % N, part = threadIdx.x / N;
  const auto times = [&](const float* g, auto&& vector) {
    double sum = 0;
#pragma unroll 8
    for (int k = part * (N / 4); k < (part + 1) * (N / 4); ++k)
      sum += double(GramEntry<N>(g, k, row)) * vector(k);
    __syncthreads();
    shared.wide[part][row] = sum;
    __syncthreads();
    return (shared.wide[0][row] + shared.wide[1][row]) + (shared.wide[2][row] + shared.wide[3][row]);
  };
  const double z = times(gq, [&](int k) { return double(shared.x[0][k]); });
  __syncthreads();
  if (part == 0) shared.wide[0][row] = z;
  __syncthreads();
  double value[N / 4];
#pragma unroll
  for (int k = 0; k < N / 4; ++k) value[k] = shared.wide[0][part * (N / 4) + k];
  __syncthreads();
  double here = 0;
#pragma unroll
  for (int k = 0; k < N / 4; ++k) here += double(GramEntry<N>(gk, part * (N / 4) + k, row)) * value[k];
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
    *qk_sigma1 = scalbn(sqrt(square), records[pair.q].exponent + records[pair.k].exponent);
  }
}

// A block takes one pair after the other.
template <int N>
__global__ void __launch_bounds__(QkBound<N>(), 1)
    QkKernel(const HeadRecord* heads, const QkRecord* pairs, const int* list, int count, const float* gram,
             float* basis, const GramRecord* records, double* qk_sigma1, const int* flag) {
  if (flag != nullptr && *flag == 0) return;
  for (int i = blockIdx.x; i < count; i += gridDim.x) {
    QkOfPair<N>(heads, pairs[list[i]], gram, basis, records, qk_sigma1 + list[i]);
    __syncthreads();
  }
}

}  // namespace foreshock::cuda
