// What needs W itself: y = W v and r = u^T W v, for every head, in one read of the weights.
//
//   grid: RowChunks of all heads. A pass carries one or two sets of three vectors:
//     kProject  r_i = u_i^T W v_i with u, v in use: one set
//     kRefresh  the same for the pairs in use and for those that replace them: two sets
//     kSpectra  y_i = W v_i of new v, into u's room, and the 3 x 3 products of the y: one set
//     kSample   kProject's r_i of the pairs in use and kSpectra's y_i of the new ones: two sets
//
// A row's sum over d_head runs in the weights' own precision but at least fp32, sums over rows in double.
// Each block leaves partial sums; the last block of a head (or, where y is made, the kernel that follows)
// adds them up in order, so the result does not depend on timing.
#pragma once

#include "kernel_launch.cuh"
#include "update_window.cuh"
#include "weight_tile.cuh"

namespace foreshock::cuda {

inline constexpr int kProjectThreads = 128;

enum class Pass : int { kProject, kRefresh, kSpectra, kSample };
// What the last block does with r (kProject) or with r of both sets (kRefresh).
enum class Count : int {
  kStart,    // r is where the next difference begins; nothing is counted
  kStep,     // one optimizer step lies between the last r and this one
  kNothing,  // r only
};

struct PairsView {
  const float* u;
  const float* v;
};

struct ProjectArguments {
  const HeadRecord* heads;
  const RowChunk* chunks;
  PairsView now;   // in use (all but kSpectra)
  PairsView next;  // kRefresh: what replaces them
  const float* v;  // kSpectra, kSample
  float* y;        // kSpectra, kSample
  const GramRecord* records;
  double* partial;    // kPartials a chunk
  unsigned* arrived;  // one a head, 0 between launches
  UpdateRecord* updates;
  Count count;
  double learning_rate;
  const int* flag;
};

template <typename T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};

// Elements in 16 bytes of a line.
template <typename T>
constexpr int RowsOfThread() {
  return 16 / static_cast<int>(sizeof(T));
}

// Lines of W that a thread has on their way through shared memory where it makes y: a pass that has half of
// the multiprocessors, beside the solver of W_Q W_K^T, needs more bytes on their way than registers hold.
inline constexpr int kRingGroup = 4, kRingStages = 4;
inline constexpr int kRingBytes = kRingGroup * kRingStages * kProjectThreads * 16;

// Sums of this thread over the rows it saw.
template <Pass kPass>
struct RowSums {
  static constexpr bool kMakesY = kPass == Pass::kSpectra || kPass == Pass::kSample;
  static constexpr int kVectors = kPass == Pass::kRefresh || kPass == Pass::kSample ? 6 : 3;
  // Vectors that pairs in use or their successors give r for come first, those that give y last.
  static constexpr int kPaired = kMakesY ? kVectors - 3 : kVectors;
  // The sums: six products of y, then r.
  static constexpr int kFirstR = kMakesY ? 6 : 0;
  static constexpr int kSums = kFirstR + kPaired;
  static_assert(kSums <= kPartials);
  double sum[kSums] = {};

  // Row i of the vectors that r needs.
  __device__ static __forceinline__ void LoadU(const ProjectArguments& a, const HeadRecord& h, int64_t i,
                                               float (&u)[6]) {
#pragma unroll
    for (int n = 0; n < kPaired; ++n) {
      const float* all = n < 3 ? a.now.u : a.next.u;
      u[n] = __ldg(all + h.u_at + (n % 3) * int64_t{h.d_model} + i);
    }
  }
  // y[n]: row i of W v_n.
  template <typename Acc>
  __device__ __forceinline__ void Add(const ProjectArguments& a, const HeadRecord& h, int64_t i, const Acc* y,
                                      const float (&u)[6]) {
    if constexpr (kMakesY) {
      float z[3];
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        z[n] = static_cast<float>(y[kPaired + n]);
        a.y[h.u_at + n * int64_t{h.d_model} + i] = z[n];
      }
      AddProducts(z[0], z[1], z[2]);
    }
#pragma unroll
    for (int n = 0; n < kPaired; ++n) sum[kFirstR + n] += double(u[n]) * double(y[n]);
  }
  // Of one row's y.
  __device__ __forceinline__ void AddProducts(float x, float y, float z) {
    sum[0] += double(x) * x;
    sum[1] += double(x) * y;
    sum[2] += double(x) * z;
    sum[3] += double(y) * y;
    sum[4] += double(y) * z;
    sum[5] += double(z) * z;
  }
};

// The same for kRows rows from i on whose sums and u lie in vectors of four.
template <Pass kPass, int kRows, typename Acc>
__device__ __forceinline__ void AddRows(const ProjectArguments& a, const HeadRecord& h, int64_t i,
                                        const Acc (&y)[kRows][RowSums<kPass>::kVectors],
                                        RowSums<kPass>* sums) {
  using Sums = RowSums<kPass>;
  static_assert(kRows % 4 == 0);
#pragma unroll
  for (int r = 0; r < kRows; r += 4) {
    if constexpr (Sums::kMakesY) {
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        constexpr int kY = Sums::kPaired;
        *reinterpret_cast<float4*>(a.y + h.u_at + n * int64_t{h.d_model} + i + r) =
            make_float4(y[r][kY + n], y[r + 1][kY + n], y[r + 2][kY + n], y[r + 3][kY + n]);
      }
#pragma unroll
      for (int e = r; e < r + 4; ++e) {
        const Acc* z = y[e] + Sums::kPaired;
        sums->AddProducts(z[0], z[1], z[2]);
      }
    }
#pragma unroll
    for (int n = 0; n < Sums::kPaired; ++n) {
      const float* all = n < 3 ? a.now.u : a.next.u;
      const float4 u = *reinterpret_cast<const float4*>(all + h.u_at + (n % 3) * int64_t{h.d_model} + i + r);
      const float four[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) sums->sum[Sums::kFirstR + n] += double(four[e]) * double(y[r + e][n]);
    }
  }
}

// v of the pass in shared memory, [d_head][8], scaled by nothing.
template <Pass kPass>
__device__ __forceinline__ void ShareVectors(const ProjectArguments& a, const HeadRecord& h, float* shared) {
  for (int e = threadIdx.x; e < h.d_head * 8; e += blockDim.x) {
    const int j = e >> 3, n = e & 7;
    float value = 0;
    if (n < RowSums<kPass>::kVectors) {
      const float* v = n < RowSums<kPass>::kPaired ? (n < 3 ? a.now.v : a.next.v) : a.v;
      value = v[h.v_at + (n % 3) * h.d_head + j];
    }
    shared[e] = value;
  }
  __syncthreads();
}

// Lines along d_model: each thread owns neighbouring rows and walks along d_head. Also serves odd strides,
// and weights far from 1 in size. A chunk has no more rows than the block's threads take at once
// (PlanWeights): the sums need no registers before the walk has ended.
template <Pass kPass, typename T>
__device__ void PassModelMajor(const ProjectArguments& a, const HeadRecord& h, const RowChunk& chunk,
                               double scale, const float* shared, unsigned char* ring, RowSums<kPass>* sums) {
  using Acc = typename Accumulator<T>::Type;
  constexpr int kRows = RowsOfThread<T>();
  constexpr int kVectors = RowSums<kPass>::kVectors;
  using Raw = uint4;
  const int i = chunk.first + static_cast<int>(threadIdx.x) * kRows, end = chunk.first + chunk.rows;
  if (i >= end) return;
  Acc y[kRows][kVectors] = {};
  const T* line = static_cast<const T*>(h.data) + i * h.row_stride;
  const int valid = min(kRows, end - i);
  const bool whole = h.vector && h.order == Order::kModelMajor && valid == kRows && scale == 1;
  const auto add = [&](const Acc(&w)[kRows], int j) {
    const float4 v0 = *reinterpret_cast<const float4*>(shared + j * 8);
    const float4 v1 = *reinterpret_cast<const float4*>(shared + j * 8 + 4);
    const float v[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int n = 0; n < kVectors; ++n) y[r][n] += w[r] * static_cast<Acc>(v[n]);
    }
  };
  const auto add_raw = [&](const Raw& raw, int j) {
    const T(&w)[kRows] = reinterpret_cast<const T(&)[kRows]>(raw);
    Acc wide[kRows];
    if constexpr (__is_same(T, __nv_bfloat16)) {
      // The upper half of an fp32 number.
#pragma unroll
      for (int r = 0; r < kRows; r += 2) {
        const uint32_t two = reinterpret_cast<const uint32_t*>(&raw)[r / 2];
        wide[r] = __uint_as_float(two << 16);
        wide[r + 1] = __uint_as_float(two & 0xffff0000u);
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) wide[r] = static_cast<Acc>(Widen(w[r]));
    }
    add(wide, j);
  };
  if (whole && RowSums<kPass>::kMakesY) {
    // Each thread reads back what it copied itself: no barrier is needed.
    const uint32_t mine = SharedAddress(ring) + threadIdx.x * 16;
    const int groups = h.d_head / kRingGroup;
    const auto copy = [&](int group) {
      if (group < groups) {
        const T* from = line + group * kRingGroup * h.col_stride;
        const uint32_t to = mine + group % kRingStages * (kRingGroup * kProjectThreads * 16);
#pragma unroll
        for (int e = 0; e < kRingGroup; ++e)
          CopyAsync16(to + e * kProjectThreads * 16, from + e * h.col_stride, 16);
      }
      CommitCopies();
    };
#pragma unroll
    for (int s = 0; s < kRingStages - 1; ++s) copy(s);
    for (int group = 0; group < groups; ++group) {
      WaitCopies<kRingStages - 2>();
      const unsigned char* stage =
          ring + threadIdx.x * 16 + group % kRingStages * (kRingGroup * kProjectThreads * 16);
      Raw raw[kRingGroup];
#pragma unroll
      for (int e = 0; e < kRingGroup; ++e)
        raw[e] = *reinterpret_cast<const Raw*>(stage + e * kProjectThreads * 16);
      copy(group + kRingStages - 1);
#pragma unroll
      for (int e = 0; e < kRingGroup; ++e) add_raw(raw[e], group * kRingGroup + e);
    }
    WaitCopies<0>();
    for (int j = groups * kRingGroup; j < h.d_head; ++j)
      add_raw(__ldg(reinterpret_cast<const Raw*>(line + j * h.col_stride)), j);
  } else if (whole) {
    constexpr int kAhead = 8;
    int j = 0;
    for (; j + kAhead <= h.d_head; j += kAhead) {
      Raw raw[kAhead];
#pragma unroll
      for (int e = 0; e < kAhead; ++e)
        raw[e] = __ldg(reinterpret_cast<const Raw*>(line + (j + e) * h.col_stride));
#pragma unroll
      for (int e = 0; e < kAhead; ++e) add_raw(raw[e], j + e);
    }
    for (; j < h.d_head; ++j) add_raw(__ldg(reinterpret_cast<const Raw*>(line + j * h.col_stride)), j);
  } else {
    const Acc unit = static_cast<Acc>(scale);
    for (int j = 0; j < h.d_head; ++j) {
      Acc w[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        w[r] = r < valid ? static_cast<Acc>(Widen(line[r * h.row_stride + j * h.col_stride])) * unit : 0;
      add(w, j);
    }
  }
  if constexpr (kRows % 4 == 0) {
    if (whole && (h.u_at | h.d_model) % 4 == 0) return AddRows<kPass, kRows>(a, h, i, y, sums);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= valid) continue;
    float u[6];
    RowSums<kPass>::LoadU(a, h, i + r, u);
    sums->Add(a, h, i + r, y[r], u);
  }
}

// Lines along d_head: a group of kLanes lanes owns a row, four rows at a time; lane l holds elements
// [l * 16 bytes, ...) of each line, and v's in registers. `shared` is room for the vectors, which are fetched
// while the first lines are on their way.
template <Pass kPass, typename T, int kLanes, int kChunks>
__device__ void PassHeadMajor(const ProjectArguments& a, const HeadRecord& h, const RowChunk& chunk,
                              double scale, float* shared, RowSums<kPass>* sums) {
  using Acc = typename Accumulator<T>::Type;
  constexpr int kElements = RowsOfThread<T>();
  constexpr int kVectors = RowSums<kPass>::kVectors;
  constexpr int kRowsOfWarp = 32 / kLanes;
  constexpr int kStep = kProjectThreads / 32 * kRowsOfWarp * 4;
  const int lane = threadIdx.x & 31, in_row = lane % kLanes;
  const int end = chunk.first + chunk.rows;
  const Acc unit = static_cast<Acc>(scale);
  // Rows of a warp's four loads: base + q * kRowsOfWarp. The next four are in flight while these are used.
  const auto base_of = [&](int block) {
    return block + static_cast<int>(threadIdx.x >> 5) * kRowsOfWarp * 4 + lane / kLanes;
  };
  const auto load = [&](int block, T(&w)[4][kChunks * kElements]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int i = base_of(block) + q * kRowsOfWarp;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int j = (c * kLanes + in_row) * kElements;
        T(&to)[kElements] = reinterpret_cast<T(&)[kElements]>(w[q][c * kElements]);
        const T* from = static_cast<const T*>(h.data) + i * h.row_stride + j;
        if (h.vector && i < end && j + kElements <= h.d_head) {
          *reinterpret_cast<uint4*>(to) = __ldg(reinterpret_cast<const uint4*>(from));
        } else {
#pragma unroll
          for (int e = 0; e < kElements; ++e) to[e] = i < end && j + e < h.d_head ? from[e] : T(0.0f);
        }
      }
    }
  };
  // After the exchanges below a lane goes on with the sum of this one of its rows.
  const auto mine_of = [&](int block) {
    return base_of(block) + ((lane & 1) * 2 + ((lane >> 1) & 1)) * kRowsOfWarp;
  };
  // That row's u, fetched as early as its line. (16-bit lines leave no registers for it where r alone is
  // wanted.)
  constexpr bool kFetchU =
      kPass == Pass::kRefresh || kPass == Pass::kSample || (kPass == Pass::kProject && sizeof(T) >= 4);
  float u[6] = {}, u_ahead[6] = {};
  const auto load_u = [&](int block) {
    const int i = mine_of(block);
    if (in_row < 4 && i < end) RowSums<kPass>::LoadU(a, h, i, u_ahead);
  };
  alignas(16) T w[4][kChunks * kElements];
  alignas(16) T ahead[4][kChunks * kElements];
  load(chunk.first, ahead);
  if constexpr (kFetchU) load_u(chunk.first);
  ShareVectors<kPass>(a, h, shared);
  Acc v[kVectors][kChunks * kElements];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int j = (c * kLanes + in_row) * kElements + e;
#pragma unroll
      for (int n = 0; n < kVectors; ++n) v[n][c * kElements + e] = j < h.d_head ? shared[j * 8 + n] : 0.0f;
    }
  }
  for (int block = chunk.first; block < end; block += kStep) {
#pragma unroll
    for (int e = 0; e < 4 * kChunks * kElements; ++e) (&w[0][0])[e] = (&ahead[0][0])[e];
#pragma unroll
    for (int n = 0; n < RowSums<kPass>::kPaired; ++n) u[n] = u_ahead[n];
    if (block + kStep < end) {
      load(block + kStep, ahead);
      if constexpr (kFetchU) load_u(block + kStep);
    }
    Acc part[kVectors][4] = {};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
#pragma unroll
      for (int e = 0; e < kChunks * kElements; ++e) {
        const Acc x = static_cast<Acc>(Widen(w[q][e])) * unit;
#pragma unroll
        for (int n = 0; n < kVectors; ++n) part[n][q] += x * v[n][e];
      }
    }
    Acc y[kVectors];
    const bool odd = lane & 1, upper = lane & 2;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const Acc give0 = odd ? part[n][0] : part[n][2], give1 = odd ? part[n][1] : part[n][3];
      const Acc keep0 = odd ? part[n][2] : part[n][0], keep1 = odd ? part[n][3] : part[n][1];
      const Acc half0 = keep0 + __shfl_xor_sync(0xffffffffu, give0, 1);
      const Acc half1 = keep1 + __shfl_xor_sync(0xffffffffu, give1, 1);
      y[n] = (upper ? half1 : half0) + __shfl_xor_sync(0xffffffffu, upper ? half0 : half1, 2);
#pragma unroll
      for (int d = 4; d < kLanes; d <<= 1) y[n] += __shfl_xor_sync(0xffffffffu, y[n], d);
    }
    const int mine = mine_of(block);
    if (in_row >= 4 || mine >= end) continue;
    if constexpr (!kFetchU) RowSums<kPass>::LoadU(a, h, mine, u);
    sums->Add(a, h, mine, y, u);
  }
}

// Widths of a line along d_head.
template <Pass kPass, typename T>
__device__ void PassOfWidth(const ProjectArguments& a, const HeadRecord& h, const RowChunk& chunk,
                            double scale, float* shared, RowSums<kPass>* sums) {
  const int vectors = (h.d_head * static_cast<int>(sizeof(T)) + 15) / 16;
  if (vectors <= 4) return PassHeadMajor<kPass, T, 4, 1>(a, h, chunk, scale, shared, sums);
  if (vectors <= 8) return PassHeadMajor<kPass, T, 8, 1>(a, h, chunk, scale, shared, sums);
  if (vectors <= 16) return PassHeadMajor<kPass, T, 16, 1>(a, h, chunk, scale, shared, sums);
  if (vectors <= 32) return PassHeadMajor<kPass, T, 32, 1>(a, h, chunk, scale, shared, sums);
  if constexpr (sizeof(T) >= 4) {
    if (vectors <= 64) return PassHeadMajor<kPass, T, 32, 2>(a, h, chunk, scale, shared, sums);
  }
  if constexpr (sizeof(T) == 8) PassHeadMajor<kPass, T, 32, 4>(a, h, chunk, scale, shared, sums);
}

// |a^T b| of n floats, in double; one warp.
__device__ inline double AbsDot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t k = threadIdx.x & 31; k < n; k += 32) sum += double(a[k]) * double(b[k]);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return fabs(sum);
}

// The head's last block: r from the partial sums, then the window's sums.
template <Pass kPass>
__device__ void FinishHead(const ProjectArguments& a, const HeadRecord& h, int head) {
  __shared__ double total[kPartials];
  __shared__ double match[kPairsOf];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x < RowSums<kPass>::kSums) {
    double sum = 0;
    for (int c = 0; c < h.chunks; ++c)
      sum += __ldcg(a.partial + int64_t{h.first_chunk + c} * kPartials + threadIdx.x);
    total[threadIdx.x] = scalbn(sum, a.records[head].exponent);
  }
  if constexpr (kPass == Pass::kRefresh) {
    if (warp < kPairsOf) {
      const int64_t u = h.u_at + warp * int64_t{h.d_model}, v = h.v_at + warp * h.d_head;
      const double m =
          AbsDot(a.now.u + u, a.next.u + u, h.d_model) * AbsDot(a.now.v + v, a.next.v + v, h.d_head);
      if (lane == 0) match[warp] = m;
    }
  }
  __syncthreads();
  if (threadIdx.x >= kPairsOf) return;
  const int i = threadIdx.x;
  UpdateRecord* u = a.updates + head;
  if (a.count == Count::kStep) CountStep(u, i, total[i], a.learning_rate * h.decay);
  u->r[i] = total[i];
  if (a.count == Count::kStart) u->last_c[i] = 0;
  if constexpr (kPass == Pass::kRefresh) {
    u->r[i] = total[3 + i];
    if (!(match[i] >= 0.7)) u->rotated[i] = 1;
  }
}

// Blocks that a multiprocessor shall hold: the more, the more loads are in flight. 0: the compiler's choice,
// which is better than 1.
template <Pass kPass, typename T, bool kHeadMajor>
constexpr int ProjectBlocks() {
  // Lines of fp32 along d_head: 72 registers and a few values in local memory, so that all blocks of a GPT-2
  // fit at once.
  if (kHeadMajor && kPass == Pass::kProject && sizeof(T) == 4) return 7;
  if (kHeadMajor || sizeof(T) == 8) return 0;
  return kPass == Pass::kProject ? 7 : RowSums<kPass>::kMakesY ? 5 : 0;
}

// kHeadMajor: all heads of the launch have lines along d_head. One kernel for each, since the registers of
// both would halve what a multiprocessor holds.
template <Pass kPass, typename T, bool kHeadMajor>
__global__ void __launch_bounds__(kProjectThreads, ProjectBlocks<kPass, T, kHeadMajor>())
    ProjectKernel(const __grid_constant__ ProjectArguments a) {
  extern __shared__ __align__(16) float vectors[];  // d_head x 8, and the ring
  constexpr int kWarps = kProjectThreads / 32, kSums = RowSums<kPass>::kSums;
  __shared__ double reduce[kWarps][kSums];
  __shared__ bool last;
  WaitForKernelAhead();
  const RowChunk chunk = a.chunks[blockIdx.x];
  if (a.flag != nullptr && *a.flag == 0) return;
  const HeadRecord h = a.heads[chunk.head];
  // Weights far from 1 in size are brought there: fp32 sums must neither overflow nor vanish. 1 for most.
  const GramRecord record = a.records[chunk.head];
  if (kPass == Pass::kSpectra && record.finite == 0) return;
  const double scale = scalbn(1.0, -record.exponent);
  RowSums<kPass> sums;
  if constexpr (kHeadMajor) {
    PassOfWidth<kPass, T>(a, h, chunk, scale, vectors, &sums);
  } else {
    ShareVectors<kPass>(a, h, vectors);
    // The ring begins behind the vectors.
    PassModelMajor<kPass, T>(a, h, chunk, scale, vectors,
                             reinterpret_cast<unsigned char*>(vectors + h.d_head * 8), &sums);
  }
#pragma unroll
  for (int p = 0; p < kSums; ++p) {
    double sum = sums.sum[p];
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) reduce[threadIdx.x >> 5][p] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kSums) {
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += reduce[w][threadIdx.x];
    a.partial[int64_t{h.first_chunk + chunk.part} * kPartials + threadIdx.x] = sum;
  }
  if constexpr (RowSums<kPass>::kMakesY) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(a.arrived + chunk.head, 1u) == static_cast<unsigned>(h.chunks) - 1;
    if (last) a.arrived[chunk.head] = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  FinishHead<kPass>(a, h, chunk.head);
}

}  // namespace foreshock::cuda
